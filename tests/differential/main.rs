//! The differential fuzzer. It sends the same random requests to one plain `redis-server` and to the proxy over three
//! masters. The replies must be equal, apart from the differences that `docs/differences.md` allows.
//!
//! Each seed determines one sequence of requests. When a sequence shows a difference, the fuzzer removes everything
//! that is not needed to reproduce it. It then prints the rest as lines for `redis-cli`, with both replies. Environment
//! variables:
//!
//! * `DIFFERENTIAL_COMMANDS`: the number of requests to send, stopping at the first difference;
//! * `DIFFERENTIAL_SECONDS`: the time to run instead, continuing past differences that were seen before. Without either
//!   of the two, the fuzzer runs for [`A_MINUTE`], stopping at the first difference;
//! * `DIFFERENTIAL_SEED`: the first seed. The default is [`FIRST_SEED`], or random if a time is given: a test that
//!   everybody runs before each commit should only fail because of that commit.
#![allow(clippy::disallowed_methods, reason = "how long to go on is told by the real clock")]

mod allowed;
mod author;
mod grammar;
mod likeness;
mod lua;
mod shrink;
mod sides;
mod step;
mod tame;
mod words;

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use allowed::Allowed;
use author::Author;
use grammar::Grammar;
use sides::{Difference, Sides};
use step::Step;
use support::setting;

/// Duration of the fuzzer in `make test`.
const A_MINUTE: Duration = Duration::from_secs(60);

/// First seed in `make test`.
const FIRST_SEED: u64 = 1;

/// Instances, each with its own servers.
const INSTANCES: usize = 2;

/// Requests in one sequence.
const SEQUENCE: usize = 120;

#[test]
fn random_requests_are_answered_as_by_one_redis() {
    differ(false);
}

/// Like the test above, with no key being a lock.
#[test]
fn random_requests_for_data_are_answered_as_by_one_redis() {
    differ(true);
}

fn differ(with_data: bool) {
    if support::target_is_plain_redis() {
        return;
    }
    let hunt = Hunt::new(with_data);
    std::thread::scope(|scope| {
        for _ in 0..INSTANCES {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(hunt.instance());
            });
        }
    });
    let sent = hunt.sent.load(Ordering::Relaxed);
    let found = hunt.found.lock().expect("no panic");
    let reports: Vec<_> = found.values().map(String::as_str).filter(|it| !it.is_empty()).collect();
    eprintln!("from seed {} on: {sent} requests, {} differences", hunt.first_seed, reports.len());
    assert!(found.is_empty(), "{}", reports.join("\n"));
}

/// State shared by all instances.
struct Hunt {
    /// Whether requests to the proxy are for data rather than for locks.
    with_data: bool,
    allowed: Allowed,
    first_seed: u64,
    next_seed: AtomicU64,
    sent: AtomicU64,
    commands: u64,
    end: Option<Instant>,
    /// Whether to continue after the first difference.
    goes_past: bool,
    /// Reports, keyed by the kind of difference.
    found: Mutex<BTreeMap<String, String>>,
}

impl Hunt {
    fn new(with_data: bool) -> Hunt {
        let seconds = setting("DIFFERENTIAL_SECONDS");
        let commands = setting("DIFFERENTIAL_COMMANDS");
        let time = match (seconds, commands) {
            (Some(seconds), _) => Some(Duration::from_secs(seconds)),
            (None, Some(_)) => None,
            (None, None) => Some(A_MINUTE),
        };
        let goes_past = seconds.is_some();
        let unset = || if goes_past { fastrand::u64(..1 << 40) } else { FIRST_SEED };
        let first_seed = setting("DIFFERENTIAL_SEED").unwrap_or_else(unset);
        Hunt {
            with_data,
            allowed: Allowed::read(),
            first_seed,
            next_seed: first_seed.into(),
            sent: 0.into(),
            commands: commands.unwrap_or(u64::MAX),
            end: time.map(|time| Instant::now() + time),
            goes_past,
            found: Mutex::default(),
        }
    }

    async fn instance(&self) {
        let sides = Sides::start(self.with_data).await;
        let grammar = Grammar::of(&mut sides.plain().await).await;
        while self.goes_on() {
            let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
            let steps = Author::new(seed, &grammar, &self.allowed).sequence(SEQUENCE);
            let mut difference = sides.compare(&steps, &self.allowed).await;
            if self.with_data && difference.is_some() && !self.is_seen_again(&sides, &steps).await {
                difference = None;
            }
            let sent = difference.as_ref().map_or(steps.len(), |difference| difference.at + 1);
            self.sent.fetch_add(sent as u64, Ordering::Relaxed);
            if let Some(difference) = difference {
                self.report(&sides, seed, steps, difference).await;
            }
        }
    }

    /// Repeats a sequence to see whether its difference occurs again. Data goes to one Redis unchanged, so a difference
    /// that only occurs now and then depends on the millisecond in which a request arrives (`PEXPIRE ... GT` twice).
    async fn is_seen_again(&self, sides: &Sides, steps: &[Step]) -> bool {
        for _ in 0..6 {
            if sides.compare(steps, &self.allowed).await.is_none() {
                return false;
            }
        }
        true
    }

    fn goes_on(&self) -> bool {
        let enough = !self.goes_past && !self.found.lock().expect("no panic").is_empty();
        let over = self.end.is_some_and(|end| Instant::now() > end);
        !enough && !over && self.sent.load(Ordering::Relaxed) < self.commands
    }

    async fn report(&self, sides: &Sides, seed: u64, steps: Vec<Step>, difference: Difference) {
        if self.found.lock().expect("no panic").contains_key(&kind(&steps, &difference)) {
            return;
        }
        let rough = kind(&steps, &difference);
        let (steps, difference) = shrink::shrink(sides, steps, difference, &self.allowed).await;
        let mut report = format!("DIFFERENTIAL_SEED={seed} finds this again:\n");
        for step in &steps {
            let _ = writeln!(report, "  {}", step.line());
        }
        let Difference { redis, proxy, .. } = &difference;
        let _ = writeln!(report, "    redis: {redis}\n    proxy: {proxy}");
        let mut found = self.found.lock().expect("no panic");
        let exact = kind(&steps, &difference);
        if found.insert(exact, report.clone()).is_none() && self.goes_past {
            eprintln!("{report}");
        }
        found.entry(rough).or_default();
    }
}

/// Returns the part that two reports of the same fault share: the command, and the beginnings of both replies.
fn kind(steps: &[Step], difference: &Difference) -> String {
    let name = steps.get(difference.at).map(Step::name).unwrap_or_default();
    let start = |reply: &str| reply.chars().take(30).collect::<String>();
    format!("{name} {} {}", start(&difference.redis), start(&difference.proxy))
}
