//! A master's description of itself, and the settings that bar it from voting.

use std::collections::HashMap;
use std::time::Duration;

use crate::lua::keyspace::SLACK_MS;
use crate::time::clock::Instant;

/// A master's answers about itself at the time `at`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// `run_id`: a new value means that the process was restarted.
    pub run_id: String,
    /// `redis_version`
    pub version: String,
    /// `master` or `slave`.
    pub role: String,
    /// Persistence mode: what the master writes to disk, and when.
    pub persistence: String,
    /// `maxmemory_policy`
    pub eviction: String,
    /// Number of databases.
    pub databases: u32,
    /// Time since the process started.
    pub uptime: Duration,
    /// Reason why the master must not vote, whatever it remembers.
    pub bar: Option<Bar>,
    /// `master_replid`: changes when the instance becomes a master again, but also for harmless reasons.
    pub replid: String,
    /// `master_replid2`: the previous id of an instance that was a replica; otherwise zeros.
    pub replid_before: String,
    /// `evicted_keys`
    pub evicted: u64,
    /// Time of the request.
    pub at: Instant,
}

impl Facts {
    /// Returns when the process started, if our clock goes back that far.
    pub fn started(&self) -> Option<Instant> {
        self.at.checked_sub(self.uptime)
    }

    /// Returns what has happened to the same process's data since `before` that its mark does not show.
    pub fn doubt_since(&self, before: &Self) -> Option<Doubt> {
        if self.run_id != before.run_id {
            return None;
        }
        if self.replid != before.replid && self.continues_another() {
            return Some(Doubt::Followed);
        }
        (self.evicted > before.evicted).then_some(Doubt::Evicted)
    }

    /// Whether the new history may belong to another instance. Redis draws a new id and clears the previous one when
    /// its first replica or a `redis-cli --rdb` backup connects, and when it drops the backlog (`changeReplicationId`,
    /// `clearReplicationId2`). A replica that becomes a master keeps the previous id (`shiftReplicationId`).
    fn continues_another(&self) -> bool {
        let keeps_none =
            !self.replid_before.is_empty() && self.replid_before.bytes().all(|it| it == b'0');
        self.bar == Some(Bar::Replica) || !keeps_none
    }
}

/// A change to a master's data that its mark does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Doubt {
    /// The master was made a replica and then a master again.
    #[error("it was a replica of another instance and has that instance's data")]
    Followed,
    /// The master ran short of memory.
    #[error("it has evicted keys")]
    Evicted,
}

/// Maximum lead of a master's clock over the time of day, in milliseconds. Masters clean up [`SLACK_MS`] after a
/// lock's end; the rest of that slack covers drift between two probes.
pub const FARTHEST_AHEAD_MS: i64 = (SLACK_MS / 2).cast_signed();

/// Reason why no vote of a master can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Bar {
    /// The master replicates another instance, which may take its locks away.
    #[error("it is a replica: list its master instead")]
    Replica,
    /// The master holds only a part of the keys.
    #[error("it is a cluster node: list independent masters")]
    ClusterNode,
    /// It is no Redis.
    #[error("it is a redlock-proxy: list the masters behind it")]
    Proxy,
    /// The master deletes locks when memory runs short.
    #[error("it may evict locks: set maxmemory-policy to noeviction, not {0}")]
    Evicts(String),
    /// The master cleans up entries that have not expired yet by the other clocks.
    #[error("its clock is more than 30 s ahead of the other masters': set it")]
    Ahead,
}

/// Fields of an `INFO` reply.
#[derive(Debug)]
pub struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    /// Parses `name:value` lines.
    pub fn parse(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.split_once(':')).collect())
    }

    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied()
    }

    /// Returns the value of a numeric field.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Returns why this master must not vote, as far as `INFO` shows it.
    pub fn bar(&self) -> Option<Bar> {
        if self.get("role").is_some_and(|role| role != "master") {
            Some(Bar::Replica)
        } else if self.get("cluster_enabled") == Some("1") {
            Some(Bar::ClusterNode)
        } else if self.get("redlock_proxy_version").is_some() {
            Some(Bar::Proxy)
        } else {
            // Applies without a memory limit too, because one may be set at any time.
            let policy = self.get("maxmemory_policy").filter(|policy| *policy != "noeviction")?;
            Some(Bar::Evicts(policy.to_owned()))
        }
    }
}

#[cfg(test)]
impl Facts {
    /// Facts of an unremarkable master.
    pub fn for_tests() -> Self {
        Self {
            run_id: "run".to_owned(),
            version: String::new(),
            role: String::new(),
            persistence: String::new(),
            eviction: String::new(),
            databases: 16,
            uptime: Duration::ZERO,
            bar: None,
            replid: String::new(),
            replid_before: String::new(),
            evicted: 0,
            at: crate::time::clock::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_ahead_a_clock_may_be_is_told() {
        let told = format!(" {} s ahead", FARTHEST_AHEAD_MS / 1000);
        assert!(Bar::Ahead.to_string().contains(&told));
    }

    #[test]
    fn masters_that_may_not_vote_are_told_by_their_info() {
        let bar = |text: &str| Info::parse(text).bar().map(|bar| bar.to_string());
        assert_eq!(
            bar("role:master\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\n"),
            None
        );
        assert_eq!(bar("role:slave\r\n"), Some(Bar::Replica.to_string()));
        assert_eq!(bar("role:master\r\ncluster_enabled:1\r\n"), Some(Bar::ClusterNode.to_string()));
        assert_eq!(bar("redlock_proxy_version:1\r\n"), Some(Bar::Proxy.to_string()));
        let evicts = "role:master\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n";
        assert_eq!(bar(evicts), Some(Bar::Evicts("allkeys-lru".to_owned()).to_string()));
    }

    #[test]
    fn what_a_mark_does_not_tell_is_told_by_the_replication_id_and_by_evictions() {
        let facts = |replid: &str, evicted| {
            let replid = replid.to_owned();
            Facts { replid, evicted, ..Facts::for_tests() }
        };
        assert_eq!(facts("a", 3).doubt_since(&facts("a", 3)), None);
        assert!(facts("b", 3).doubt_since(&facts("a", 3)).is_some());
        assert!(facts("a", 4).doubt_since(&facts("a", 3)).is_some());
        let other = Facts { run_id: "other".to_owned(), ..facts("b", 0) };
        assert_eq!(other.doubt_since(&facts("a", 3)), None, "its mark tells");
    }

    #[test]
    fn a_replication_id_that_continues_none_is_no_doubt() {
        let facts = |replid: &str, before: &str| {
            let (replid, replid_before) = (replid.to_owned(), before.to_owned());
            Facts { replid, replid_before, ..Facts::for_tests() }
        };
        let (zeros, first) = ("0".repeat(40), facts("a", &"0".repeat(40)));
        assert_eq!(facts("b", &zeros).doubt_since(&first), None, "its first replica came");
        assert_eq!(
            facts("b", &zeros).doubt_since(&facts("a", "c")),
            None,
            "its backlog was dropped"
        );
        assert_eq!(facts("b", "a").doubt_since(&first), Some(Doubt::Followed));
        assert_eq!(facts("b", "").doubt_since(&first), Some(Doubt::Followed), "it does not say");
        assert_eq!(facts("a", "c").doubt_since(&facts("a", "c")), None, "that was before");
        let replica = Facts { bar: Some(Bar::Replica), ..facts("b", &zeros) };
        assert_eq!(replica.doubt_since(&first), Some(Doubt::Followed));
    }
}
