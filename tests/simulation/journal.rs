//! Events in order, and the rules that they must not break.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use tokio::time::{Duration, Instant};

/// History of one run.
pub struct Journal {
    start: Instant,
    /// Whether events are printed as they are recorded.
    is_loud: bool,
    lines: RefCell<VecDeque<String>>,
    digest: RefCell<sha1_smol::Sha1>,
    violation: RefCell<Option<String>>,
    holdings: RefCell<BTreeMap<String, Vec<Holding>>>,
    /// Numbers of events so far.
    counts: Cell<Counts>,
}

/// Numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests by clients.
    pub requests: u64,
    /// Locks granted to clients.
    pub grants: u64,
    /// Requests to registers whose histories were checked.
    pub calls: u64,
    /// Orders about the members that were carried out.
    pub changes: u64,
}

/// A lock that a client may rely on.
#[derive(Clone, Debug)]
struct Holding {
    token: String,
    from: Instant,
    until: Instant,
}

/// Number of recent events shown with a violation.
const SHOWN: usize = 120;

/// Lease of a lock that never expires.
pub const FOREVER: Duration = Duration::from_secs(1_000_000);

impl Journal {
    pub fn new(is_loud: bool) -> Self {
        Self {
            start: Instant::now(),
            is_loud,
            lines: RefCell::default(),
            digest: RefCell::default(),
            violation: RefCell::default(),
            holdings: RefCell::default(),
            counts: Cell::default(),
        }
    }

    /// Records an event.
    pub fn note(&self, what: impl fmt::Display) {
        let line = format!("{:>10.3} {what}", self.start.elapsed().as_secs_f64());
        if self.is_loud {
            eprintln!("{line}");
        }
        self.digest.borrow_mut().update(line.as_bytes());
        let mut lines = self.lines.borrow_mut();
        if lines.len() == SHOWN {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Records a broken rule. Only the first one counts, because later ones may follow from it.
    pub fn violation(&self, rule: impl fmt::Display) {
        if self.violation.borrow().is_some() {
            return;
        }
        self.note(format_args!("VIOLATION: {rule}"));
        let lines: Vec<String> = self.lines.borrow().iter().cloned().collect();
        *self.violation.borrow_mut() = Some(format!("{rule}\n{}", lines.join("\n")));
    }

    /// Returns the broken rule and the events before it.
    pub fn broken(&self) -> Option<String> {
        self.violation.borrow().clone()
    }

    /// Digest of the history, equal for two runs with the same history.
    pub fn digest(&self) -> String {
        self.digest.borrow().hexdigest()
    }

    pub fn count_request(&self) {
        self.count(|counts| counts.requests += 1);
    }

    pub fn count_change(&self) {
        self.count(|counts| counts.changes += 1);
    }

    pub fn counts(&self) -> Counts {
        self.counts.get()
    }

    fn count(&self, change: impl Fn(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Records a granted lock; see [`Journal::hold`].
    pub fn granted(&self, key: &str, token: &str, lease: Duration) {
        self.count(|counts| counts.grants += 1);
        self.hold(key, token, lease);
    }

    /// Records that a client may rely on `key` for `lease` from now on. Rule 1: no other client may
    /// do so at the same time.
    pub fn hold(&self, key: &str, token: &str, lease: Duration) {
        let now = Instant::now();
        let mut all = self.holdings.borrow_mut();
        let holdings = all.entry(key.to_owned()).or_default();
        holdings.retain(|holding| holding.until > now);
        let other = holdings.iter().find(|holding| holding.token != token).cloned();
        if let Some(other) = other {
            let (since, left) = (now - other.from, other.until - now);
            self.violation(format_args!(
                "rule 1: {key} is granted to {token} while {} has held it for {since:?} and holds it \
                 for {left:?}",
                other.token
            ));
        }
        let until = now + lease;
        match holdings.iter_mut().find(|holding| holding.token == token) {
            Some(holding) => holding.until = until,
            None => holdings.push(Holding { token: token.to_owned(), from: now, until }),
        }
    }

    /// Records that the client no longer relies on the lock.
    pub fn gave_up(&self, key: &str, token: &str) {
        if let Some(holdings) = self.holdings.borrow_mut().get_mut(key) {
            holdings.retain(|holding| holding.token != token);
        }
    }

    /// Returns when the client began to rely on the lock, if it still may.
    pub fn held_since(&self, key: &str, token: &str) -> Option<Instant> {
        self.held(key, token).map(|(since, _)| since)
    }

    /// Returns when the client began to rely on the lock and until when it may, if it still may.
    pub fn held(&self, key: &str, token: &str) -> Option<(Instant, Instant)> {
        let now = Instant::now();
        let all = self.holdings.borrow();
        let mut holdings = all.get(key).into_iter().flatten();
        let held = holdings.find(|it| it.token == token && it.until > now);
        held.map(|it| (it.from, it.until))
    }
}
