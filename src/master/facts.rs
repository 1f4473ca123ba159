//! What a master says about itself, and what in it keeps the master from voting.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Instant;

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
    /// A restart makes it forget nothing: `appendonly yes` with `appendfsync always`.
    pub is_durable: bool,
    /// How often its data was replaced as a whole, by anybody but a proxy.
    pub losses: u64,
    /// When it was asked.
    pub at: Instant,
}

impl Facts {
    /// When the process was started, if our clock goes back that far.
    pub fn started(&self) -> Option<Instant> {
        self.at.checked_sub(self.uptime)
    }
}

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
}

/// Commands after which a master holds other data than before.
const REPLACING: [&str; 5] = ["flushall", "flushdb", "swapdb", "replicaof", "slaveof"];

/// Those of them that a proxy sends with `--allow-flush`. It announces each by one that fails.
const ANNOUNCED: [&str; 2] = ["flushall", "flushdb"];

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

    /// How often its data was replaced as a whole, or a part of it taken away, by anybody but a proxy.
    ///
    /// `commandstats` counts commands wherever they came from, also from scripts.
    pub fn losses(&self) -> u64 {
        let replaced: u64 = REPLACING.iter().map(|name| self.replacements(name)).sum();
        replaced + self.number("evicted_keys").unwrap_or(0)
    }

    fn replacements(&self, name: &str) -> u64 {
        let Some(stats) = self.get(&format!("cmdstat_{name}")) else { return 0 };
        let field = |wanted: &str| -> u64 {
            let fields = stats.split(',').filter_map(|field| field.split_once('='));
            let mut found = fields.filter(|(name, _)| *name == wanted);
            found.next().and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
        };
        let failed = field("failed_calls");
        let done = field("calls").saturating_sub(failed);
        if ANNOUNCED.contains(&name) { done.saturating_sub(failed) } else { done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_flush_counts_unless_a_proxy_has_announced_it() {
        let losses = |calls: u64, failed: u64| {
            let line = format!("cmdstat_flushall:calls={calls},usec=9,failed_calls={failed}\r\n");
            Info::parse(&line).losses()
        };
        assert_eq!(losses(1, 0), 1, "somebody's");
        assert_eq!(losses(2, 1), 0, "a proxy's");
        assert_eq!(losses(5, 2), 1, "two of a proxy and one of somebody else");
        assert_eq!(Info::parse("evicted_keys:3\r\n").losses(), 3);
        assert_eq!(Info::parse("cmdstat_swapdb:calls=2,failed_calls=1\r\n").losses(), 1);
        assert_eq!(Info::parse("").losses(), 0);
    }
}
