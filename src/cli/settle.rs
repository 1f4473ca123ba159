//! `redlock-proxy settle KEY`: shows the value that each master holds under a key, and makes the masters agree on it.
//!
//! It runs a worker without clients, which makes the same decisions as a proxy, with the same proofs.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::table::aligned;
use crate::catalogue::reserved::is_reserved;
use crate::context::shared::Shared;
use crate::context::worker::Worker;
use crate::decision::keyspace::Program as _;
use crate::decision::lease::attempt::Stored;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::register::ballot::Ballot;
use crate::masters::probe::look_once;
use crate::names::slot::slot;
use crate::operation::register::answer::StampHead;
use crate::operation::register::remains::Remains;
use crate::operation::register::{Job, Lease, Place};
use crate::resp::reply::Reply;
use crate::time::clock;

/// Maximum time for a master to report whether it belongs to a cluster.
const PATIENCE: Duration = Duration::from_secs(3);

/// Result of settling a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleReport {
    /// A table with a line for each master, and a sentence; after a change, both again.
    pub text: String,
    /// Whether all masters that can vote now hold the same value.
    pub is_settled: bool,
}

/// Pause before another check.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum length of a string that is shown.
const SHOWN: usize = 64;

const HEADINGS: [&str; 6] = ["master", "type", "accepted", "promised", "state", "ends"];

type Row = [String; HEADINGS.len()];

/// The state of the key on one master.
struct Look {
    head: StampHead,
    /// The lock, if no register has taken its place.
    lease: Option<Lease>,
}

/// Shows the state that each master holds under this key of database `db`, and settles it. With `releases`, removes any
/// lock on it first, whoever holds that.
pub async fn settle(shared: Shared, db: u16, key: Bytes, releases: bool) -> SettleReport {
    let refused = |text: &str| SettleReport { text: format!("{text}\n"), is_settled: false };
    if is_reserved(&key) {
        return refused("names that begin with 'redlock-proxy:' are reserved: give a client's key");
    }
    for cluster in shared.clusters() {
        if let Err(why) = find_mark(cluster).await {
            return refused(&why);
        }
    }
    let first = Worker::new(0, shared.clone());
    first.start(shared.network.clone()).await;
    let worker = Rc::clone(first.of_slot(slot(&key)));
    if u32::from(db) >= worker.databases() {
        return refused(&format!(
            "the masters have {} databases: give a lower --db",
            worker.databases()
        ));
    }
    Settling { worker, place: Place { db, key }, releases }.run().await
}

/// Makes sure that a master belongs to a cluster. A worker would found one.
///
/// # Errors
/// Returns an error if none does, or if none reports it.
async fn find_mark(shared: &Shared) -> Result<(), String> {
    let mut looks = JoinSet::new();
    for address in &shared.settings.masters {
        let (address, network) = (address.clone(), shared.network.clone());
        looks.spawn_local(async move {
            match tokio::time::timeout(PATIENCE, look_once(&network, &address)).await {
                Ok(Ok(look)) => Ok(look.marks.any().is_some()),
                Ok(Err(why)) => Err(format!("{address}: {why}")),
                Err(_) => Err(format!("{address}: it did not answer in time")),
            }
        });
    }
    let looks = looks.join_all().await;
    if looks.contains(&Ok(true)) {
        return Ok(());
    }
    Err(match looks.into_iter().collect::<Result<Vec<bool>, _>>() {
        Ok(_) => "no proxy has used these masters: name the masters of a running proxy".to_owned(),
        Err(why) => {
            format!(
                "no proxy has used the masters that answer, and one master does not answer: {why}"
            )
        }
    })
}

struct Settling {
    worker: Rc<Worker>,
    place: Place,
    releases: bool,
}

impl Settling {
    async fn run(&self) -> SettleReport {
        let before = self.look().await;
        let mut text = self.table(&before);
        let (settled, removed) = self.settle().await;
        let holders = match settled {
            Ok(holders) => holders,
            Err(why) => {
                let _ = writeln!(text, "It could not be settled: {}.", sentence(&why));
                if !self.releases && self.worker.engine().electorate().serves() {
                    text += HINT;
                }
                return SettleReport { text, is_settled: false };
            }
        };
        let after = self.look().await;
        let changed = self.changed(&before, &after);
        if changed.is_empty() && removed.is_empty() && !self.releases {
            text += "All voting masters hold the same value: nothing was changed.\n";
        } else {
            let _ = write!(text, "\n{}", self.table(&after));
        }
        for lease in removed {
            let _ = writeln!(
                text,
                "Removed a string that is not a lock, because fewer than a quorum of masters held it: {}.",
                shown(&lease)
            );
        }
        if self.releases {
            text += "Any lock on the key is released.\n";
        }
        if self.is_lost_by_all(&before) {
            text += "All masters had lost its value: the key is absent from now on.\n";
        } else if !changed.is_empty() {
            let _ = writeln!(text, "{} took over what a quorum holds.", self.named(changed));
        }
        let missing = self.everybody().without(holders);
        for master in missing.iter() {
            let _ = writeln!(
                text,
                "{} has not taken part: {}. A proxy settles the key there once it votes.",
                self.address(master),
                self.why_not(master)
            );
        }
        SettleReport { text, is_settled: missing.and(self.worker.engine().voters()).is_empty() }
    }

    /// Settles the key once no lease can be a vote for a lock any more. Returns the leases that were removed.
    async fn settle(&self) -> (Result<MasterSet, Reply>, Vec<Lease>) {
        let engine = self.worker.engine();
        let rules = engine.rules();
        if self.releases {
            return (engine.release_register(self.place.clone()).await, Vec::new());
        }
        let last = clock::now() + Remains::wait(rules.patience) + 2 * rules.patience + PATIENCE;
        let mut waited_for = Vec::new();
        loop {
            let settled = engine.settle_register(self.place.clone()).await;
            let remains = rules.registers.remains.of(&self.place);
            if remains.is_empty() || clock::now() > last {
                waited_for.retain(|lease| !remains.contains(lease));
                return (settled, waited_for);
            }
            waited_for = remains;
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn is_lost_by_all(&self, looks: &[Option<Look>]) -> bool {
        let now_us = self.now_us();
        let is_lost =
            |look: &Option<Look>| look.as_ref().is_some_and(|it| it.head.sight.is_lost(now_us));
        looks.iter().all(is_lost)
    }

    fn everybody(&self) -> MasterSet {
        self.worker.engine().rules().quorum.everybody()
    }

    fn address(&self, master: MasterId) -> String {
        self.worker.settings().masters[master.index()].to_string()
    }

    fn named(&self, masters: MasterSet) -> String {
        masters.iter().map(|master| self.address(master)).collect::<Vec<_>>().join(", ")
    }

    fn why_not(&self, master: MasterId) -> String {
        let engine = self.worker.engine();
        let link = &engine.links()[master.index()];
        let down = if link.is_up() { None } else { link.last_error() };
        let reason = down.or_else(|| engine.electorate().reason(master));
        reason.unwrap_or_else(|| "it did not answer in time".to_owned())
    }

    async fn look(&self) -> Vec<Option<Look>> {
        let (engine, places) = (self.worker.engine(), std::slice::from_ref(&self.place));
        let heads = engine.heads(self.place.db.into(), places).await;
        let both = heads.into_iter().zip(engine.leases(&self.place).await);
        let look = |(heads, lease): (Option<Vec<StampHead>>, Option<Lease>)| {
            let head = heads?.into_iter().next()?;
            let is_register = Job::is_present(&head.sight.state.value);
            Some(Look { head, lease: lease.filter(|_| !is_register) })
        };
        both.map(look).collect()
    }

    /// Returns the masters that had another value, or had lost the value that they have now.
    fn changed(&self, before: &[Option<Look>], after: &[Option<Look>]) -> MasterSet {
        let now_us = self.now_us();
        let newest = before.iter().flatten().map(|look| look.head.sight.state.accepted).max();
        let lacked = |head: &StampHead| {
            Some(head.sight.state.accepted) != newest || head.sight.is_lost(now_us)
        };
        let both = before.iter().zip(after).enumerate();
        let changed = both.filter(|(_, (before, after))| match (before, after) {
            (Some(Look { head: before, .. }), Some(Look { head: after, .. })) => {
                lacked(before) && before.sight.state.accepted < after.sight.state.accepted
            }
            _ => false,
        });
        changed.map(|(at, _)| MasterId::new(at)).collect()
    }

    fn now_us(&self) -> u64 {
        self.worker.engine().rules().unix_time.micros() as u64
    }

    fn table(&self, looks: &[Option<Look>]) -> String {
        let rows = looks.iter().enumerate().map(|(at, look)| {
            let master = MasterId::new(at);
            match look {
                Some(look) => row(self.address(master), look, self.now_us()),
                None => {
                    let mut row = Row::default();
                    (row[0], row[1]) = (self.address(master), self.why_not(master));
                    row
                }
            }
        });
        let rows: Vec<Row> = std::iter::once(HEADINGS.map(str::to_owned)).chain(rows).collect();
        aligned(&rows)
    }
}

/// Advice for a key that cannot be settled.
const HINT: &str = "Strings written by hand may be in the way, and may expire. --release-locks \
                    removes every lock on the key, whoever holds it, and keeps the last write. The holder is not notified.\n";

/// Returns the token of a lease, as text.
fn shown(lease: &Lease) -> String {
    let token = Stored::decode(&lease.value).token;
    let dots = if token.len() > SHOWN { "..." } else { "" };
    format!("'{}{dots}'", token[..token.len().min(SHOWN)].escape_ascii())
}

fn row(address: String, Look { head, lease }: &Look, now_us: u64) -> Row {
    let state = &head.sight.state;
    let kind = match state.value.kind {
        _ if lease.is_some() => "lock",
        b's' => "string",
        b'l' => "list",
        b'e' => "set",
        b'z' => "zset",
        b'h' => "hash",
        b'x' => "stream",
        _ if state.accepted == Ballot::NONE => "no register",
        _ => "absent",
    };
    let how = match &state.open {
        _ if let Some(lease) = lease => format!("held by {}", shown(lease)),
        _ if head.sight.is_lost(now_us) => "lost".to_owned(),
        _ if state.accepted == Ballot::NONE => "-".to_owned(),
        Some(open) if open.group.len() > 1 => format!("open with {} keys", open.group.len()),
        Some(_) => "open".to_owned(),
        None => "closed".to_owned(),
    };
    let end = Job::end_us(&state.value).filter(|_| Job::is_present(&state.value));
    let end = end.map(Duration::from_micros);
    let end_of = |lease: &Lease| u64::try_from(lease.kept_until_ms).ok().map(Duration::from_millis);
    let ends = match end.or_else(|| lease.as_ref().and_then(end_of)) {
        Some(end) => humantime::format_rfc3339_millis(UNIX_EPOCH + end).to_string(),
        None if Job::is_present(&state.value) || lease.is_some() => "never".to_owned(),
        None => "-".to_owned(),
    };
    [address, kind.to_owned(), ballot(state.accepted), ballot(head.promised), how, ends]
}

/// Formats a ballot so that people can compare it: its counter, and its worker.
fn ballot(ballot: Ballot) -> String {
    match ballot {
        Ballot::NONE => "-".to_owned(),
        Ballot { counter, worker, .. } => format!("{counter}.{:04x}", worker >> 48),
    }
}

fn sentence(why: &Reply) -> String {
    match why {
        Reply::Error(error) => error.to_string(),
        Reply::Raw(frame) => {
            String::from_utf8_lossy(frame).trim_matches(['-', '\r', '\n']).to_owned()
        }
        other => format!("{other:?}"),
    }
}
