//! `/status.json`: the data that the status page shows, each time it asks.

use serde::Serialize;

use super::events::{Event, Events};
use crate::client::registry::Registry;
use crate::context::shared::Shared;
use crate::data::description::Description;
use crate::data::upstream::Upstream;
use crate::decision::quorum::outlook::Outlook;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::metrics::{Metrics, QuestionKind, VerdictKind};
use crate::time::clock::Instant;

/// Maximum keys shown.
const HOTTEST: usize = 10;

/// The states of a master, as in `INFO redlock`.
pub const STATES: [&str; 5] = ["voter", "waiting", "probation", "barred", "down"];

/// The page in numbers and words. Counts start with the process.
#[derive(Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Status {
    pub version: &'static str,
    /// Milliseconds of Unix time, by the masters' clocks.
    pub now_ms: i64,
    /// Masters needed for a quorum. If there are shards, this and the next five are those of the weakest.
    pub quorum: usize,
    pub voters: usize,
    /// Masters of which they are a part.
    pub masters_of_quorum: usize,
    pub outlook: Outlook,
    /// Name of the shard, if there are several.
    pub shard: Option<String>,
    pub clients: usize,
    pub operations_in_flight: u64,
    pub claims: Claims,
    pub roster_version: u64,
    pub data_may_be_lost: bool,
    pub masters: Vec<Master>,
    /// The data Redis; `null` if there is none.
    pub data: Option<DataStatus>,
    pub hot_keys: Vec<HotKey>,
    pub events: Vec<Event>,
}

/// Outcomes of claims.
#[derive(Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Claims {
    pub granted: u64,
    pub refused: u64,
    pub undecided: u64,
}

/// One master.
#[derive(Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Master {
    /// Name of its shard, if there are several.
    pub shard: Option<String>,
    pub address: String,
    pub state: &'static str,
    pub reason: String,
    /// Keys copied to it since copying began, and their approximate total.
    pub copying: [u64; 2],
    pub since_seconds: u64,
    pub latency_us: u128,
    pub clock_offset_ms: i64,
    pub ballots: u64,
    pub unknown_ballots: u64,
    pub deferred_releases: u64,
    /// Registers that the master is known to be behind on.
    pub registers_behind: u64,
    /// Advice if their number does not fall.
    pub registers_reason: String,
}

/// The data Redis.
#[derive(Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DataStatus {
    #[serde(flatten)]
    pub description: Description,
    pub lock_keys: Vec<String>,
    /// Hints about the patterns, from the traffic, in the words of the log.
    pub advice: Vec<String>,
}

/// A key for which claims were refused, or had to wait.
#[derive(Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HotKey {
    pub key: String,
    /// Approximate number in the last minute or two.
    pub contended: u64,
}

impl Status {
    /// Returns the current status.
    pub fn of(shared: &Shared, events: &Events) -> Self {
        let weakest = weakest(shared);
        let claims =
            |outcome| sum(shared, |metrics| metrics.verdicts(QuestionKind::Claim, outcome));
        let registry: &Registry = &shared.registry;
        Self {
            version: env!("CARGO_PKG_VERSION"),
            now_ms: shared.electorate.unix_time().ms(),
            quorum: quorum(weakest).needed(),
            voters: voters(weakest).len(),
            masters_of_quorum: quorum(weakest).masters(),
            outlook: outlook(weakest),
            shard: weakest.settings.shard_name().map(str::to_owned),
            clients: registry.connected(),
            operations_in_flight: sum(shared, |metrics| metrics.in_flight.get()),
            claims: Claims {
                granted: claims(VerdictKind::Granted),
                refused: claims(VerdictKind::Refused),
                undecided: claims(VerdictKind::Undecided),
            },
            roster_version: weakest.electorate.roster().version,
            data_may_be_lost: shared.clusters().any(|it| it.electorate.may_have_lost_data()),
            data: shared.data.as_ref().map(DataStatus::of),
            masters: shared.clusters().flat_map(Master::all).collect(),
            hot_keys: hot_keys(shared),
            events: events.latest(),
        }
    }
}

impl Master {
    fn all(cluster: &Shared) -> impl Iterator<Item = Self> {
        let masters = cluster.electorate.addresses().into_iter();
        masters.map(|(id, _)| Self::of(cluster, id))
    }

    fn of(shared: &Shared, id: MasterId) -> Self {
        let electorate = &shared.electorate;
        let unix_time = electorate.unix_time();
        Self {
            shard: shared.settings.shard_name().map(str::to_owned),
            address: electorate.name(id),
            state: state(shared, id),
            reason: reason(shared, id).unwrap_or_default(),
            copying: electorate.progress(id).counts().into(),
            since_seconds: since(shared, id).elapsed().as_secs(),
            latency_us: electorate.latency(id).as_micros(),
            clock_offset_ms: unix_time.ahead_ms(id),
            ballots: sum_of_cluster(shared, |metrics| metrics.master(id).answered()),
            unknown_ballots: sum_of_cluster(shared, |metrics| metrics.master(id).unknown.get()),
            deferred_releases: sum_of_cluster(shared, |metrics| metrics.master(id).deferred.get()),
            registers_behind: sum_of_cluster(shared, |metrics| {
                metrics.master(id).registers_behind.get()
            }),
            registers_reason: not_falling(shared, id).unwrap_or_default(),
        }
    }
}

/// Maximum time for a master to catch up, in seconds.
const CATCHES_UP_S: u64 = 10;

/// Returns advice about the registers that a master lacks, if their number does not fall.
fn not_falling(shared: &Shared, id: MasterId) -> Option<String> {
    let longest = shared.metrics.iter().map(|it| it.master(id).not_falling_s.get()).max()?;
    let count = sum_of_cluster(shared, |metrics| metrics.master(id).registers_behind.get());
    let advice = match is_up(shared, id) && shared.electorate.voters().contains(id) {
        true => "inspect one with `redlock-proxy settle KEY`",
        false => "they are settled once it votes again",
    };
    let text = format!("it has missed changes of {count} keys for {longest}s: {advice}");
    (longest >= CATCHES_UP_S).then_some(text)
}

impl DataStatus {
    fn of(upstream: &Upstream) -> Self {
        let text = |pattern: &[u8]| String::from_utf8_lossy(pattern).into_owned();
        let lock_keys = upstream.settings().locks.keys.iter().map(|it| text(it)).collect();
        let advice = upstream.notes().all().iter().map(ToString::to_string).collect();
        Self { description: Description::of(upstream), lock_keys, advice }
    }
}

fn hot_keys(shared: &Shared) -> Vec<HotKey> {
    let mut hottest: Vec<_> =
        shared.all_metrics().flat_map(|metrics| metrics.contention.hottest()).collect();
    hottest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    hottest.truncate(HOTTEST);
    let shown = |(key, contended): (Box<[u8]>, u64)| HotKey {
        key: String::from_utf8_lossy(&key).into_owned(),
        contended,
    };
    hottest.into_iter().map(shown).collect()
}

/// Returns the masters that can vote: they may vote, and a worker is connected to them.
pub(super) fn voters(shared: &Shared) -> MasterSet {
    let electorate = &shared.electorate;
    electorate.voters().iter().filter(|master| is_up(shared, *master)).collect()
}

/// Whether a worker is connected to the master.
pub(super) fn is_up(shared: &Shared, master: MasterId) -> bool {
    shared.metrics.iter().any(|metrics| metrics.master(master).is_up.holds())
}

/// Returns why the master does not vote, if it does not.
pub(super) fn reason(shared: &Shared, master: MasterId) -> Option<String> {
    match is_up(shared, master) {
        true => shared.electorate.reason(master),
        false => Some("it cannot be reached".to_owned()),
    }
}

/// Returns the time since which the master is in its state. A master is down since the last worker lost it.
fn since(shared: &Shared, master: MasterId) -> Instant {
    let links = shared.metrics.iter().map(|metrics| metrics.master(master).is_up.since());
    match is_up(shared, master) {
        true => shared.electorate.since(master),
        false => links.max().unwrap_or_else(|| shared.electorate.since(master)),
    }
}

/// Returns one of [`STATES`].
pub(super) fn state(shared: &Shared, master: MasterId) -> &'static str {
    match is_up(shared, master) {
        true => shared.electorate.standing(master).word(),
        false => "down",
    }
}

/// Returns the sum over all workers.
pub(super) fn sum(shared: &Shared, of: impl Fn(&Metrics) -> u64) -> u64 {
    shared.all_metrics().map(of).sum()
}

/// Returns the sum over the workers of one cluster, for its masters.
pub(super) fn sum_of_cluster(cluster: &Shared, of: impl Fn(&Metrics) -> u64) -> u64 {
    cluster.metrics.iter().map(|metrics| of(metrics)).sum()
}

/// Returns the cluster with the fewest voters beyond its quorum.
fn weakest(shared: &Shared) -> &Shared {
    let margin = |cluster: &&Shared| {
        let needed = quorum(cluster).needed() as i64;
        voters(cluster).len() as i64 - needed
    };
    shared.clusters().min_by_key(margin).unwrap_or(shared)
}

/// Returns what the number of a cluster's voters means for locks.
pub(super) fn outlook(cluster: &Shared) -> Outlook {
    Outlook::with(voters(cluster), quorum(cluster))
}

/// Returns the quorum of a cluster.
pub(super) fn quorum(cluster: &Shared) -> Quorum {
    cluster.electorate.quorum()
}
