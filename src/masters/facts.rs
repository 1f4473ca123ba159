//! What a master says about itself, and what in it keeps the master from voting.

use std::collections::HashMap;
use std::time::Duration;

use crate::lua::keyspace::SLACK_MS;
use crate::time::clock::Instant;

/// What a master said when it was asked at `at`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// `run_id`: another one means that the process was restarted.
    pub run_id: String,
    /// `redis_version`
    pub version: String,
    /// `master` or `slave`.
    pub role: String,
    /// What it writes to disk, and when.
    pub persistence: String,
    /// `maxmemory_policy`
    pub eviction: String,
    /// How many databases it has.
    pub databases: u32,
    /// How long the process has been running.
    pub uptime: Duration,
    /// Why it must not vote, whatever it remembers.
    pub bar: Option<Bar>,
    /// `master_replid`: it changes when the instance becomes a master again, and for harmless reasons.
    pub replid: String,
    /// `master_replid2`: the id before, of an instance that was a replica; otherwise zeros.
    pub replid_before: String,
    /// `evicted_keys`
    pub evicted: u64,
    /// When it was asked.
    pub at: Instant,
}

impl Facts {
    /// When the process was started, if our clock goes back that far.
    pub fn started(&self) -> Option<Instant> {
        self.at.checked_sub(self.uptime)
    }

    /// What has happened to the data of the same process since `before` without its mark telling.
    pub fn doubt_since(&self, before: &Self) -> Option<Doubt> {
        if self.run_id != before.run_id {
            return None;
        }
        if self.replid != before.replid && self.continues_another() {
            return Some(Doubt::Followed);
        }
        (self.evicted > before.evicted).then_some(Doubt::Evicted)
    }

    /// Whether its new history may be that of another instance. When its first replica or a backup by `redis-cli --rdb`
    /// comes, and when the backlog is dropped, Redis draws an id and clears the one before (`changeReplicationId`,
    /// `clearReplicationId2`); a replica that becomes a master keeps it (`shiftReplicationId`).
    fn continues_another(&self) -> bool {
        let keeps_none =
            !self.replid_before.is_empty() && self.replid_before.bytes().all(|it| it == b'0');
        self.bar == Some(Bar::Replica) || !keeps_none
    }
}

/// What has happened to a master's data without its mark telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Doubt {
    /// It was made a replica, and a master again.
    #[error("it followed another instance, and has that one's data")]
    Followed,
    /// It was short of memory.
    #[error("it has evicted keys")]
    Evicted,
}

/// By how much the clock of a master may be ahead of the time of day, in milliseconds: masters clean up [`SLACK_MS`] after
/// the end, and what is left is for clocks that drift until somebody looks.
pub const FARTHEST_AHEAD_MS: i64 = (SLACK_MS / 2).cast_signed();

/// What no vote of a master can be trusted with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Bar {
    /// It follows another instance, which may take its locks away.
    #[error("it is a replica: name its master instead")]
    Replica,
    /// It keeps a part of the keys only.
    #[error("it is a node of a cluster: name independent masters")]
    ClusterNode,
    /// It deletes locks when memory runs short.
    #[error("it may evict locks: set maxmemory-policy to noeviction, not {0}")]
    Evicts(String),
    /// It cleans up by its own clock what has not ended by that of the others.
    #[error("its clock is more than 30 s ahead of the other masters': set it")]
    Ahead,
}

/// The fields of an `INFO` text.
#[derive(Debug)]
pub struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    /// Reads `name:value` lines.
    pub fn parse(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.split_once(':')).collect())
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied()
    }

    /// The value of a field that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Why this master must not vote, as far as `INFO` says it.
    pub fn bar(&self) -> Option<Bar> {
        if self.get("role").is_some_and(|role| role != "master") {
            Some(Bar::Replica)
        } else if self.get("cluster_enabled") == Some("1") {
            Some(Bar::ClusterNode)
        } else {
            // Also without a limit: that may be set at any time.
            let policy = self.get("maxmemory_policy").filter(|policy| *policy != "noeviction")?;
            Some(Bar::Evicts(policy.to_owned()))
        }
    }
}

#[cfg(test)]
impl Facts {
    /// What a master says of which nothing is to be said.
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
