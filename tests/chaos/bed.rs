//! The processes of one test: masters with their own clocks and disks, a network in front of each,
//! and the system under test in front of them.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::disk::Disk;
use crate::history::{MILLISECOND, Nanos, Outage, now};
use crate::support::{Clock, Master, Proxy, Raw, Relay};
use crate::system::VOTE_TIMEOUT;

/// Fields drop in this order: proxies, networks, masters.
pub(crate) struct Bed {
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) relays: Vec<Relay>,
    pub(crate) masters: Vec<Master>,
    pub(crate) clocks: Vec<Clock>,
    pub(crate) disks: Vec<Disk>,
}

impl Bed {
    /// Starts everything. `master_flags` are passed to `redis-server`.
    pub(crate) fn start(
        masters: usize,
        proxies: usize,
        master_flags: &'static [&'static str],
    ) -> Bed {
        let clocks: Vec<Clock> = (0..masters).map(|_| Clock::new()).collect();
        let disks: Vec<Disk> = (0..masters).map(|_| Disk::new()).collect();
        let start = |(clock, disk)| Master::start_in(master_flags, environment(clock, disk));
        let masters: Vec<Master> = clocks.iter().zip(&disks).map(start).collect();
        let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
        let mut bed = Bed { proxies: Vec::new(), relays, masters, clocks, disks };
        bed.proxies = (0..proxies).map(|_| bed.new_proxy()).collect();
        bed
    }

    /// Addresses that clients may use: one per proxy, or a single route with all masters.
    pub(crate) fn routes(&self) -> Vec<String> {
        if self.proxies.is_empty() {
            return vec![self.addresses().join(",")];
        }
        self.proxies.iter().map(|proxy| proxy.address().to_owned()).collect()
    }

    /// Kills a proxy and starts a new one. Returns the outage that its clients will see.
    pub(crate) fn replace_proxy(&mut self, index: usize) -> Outage {
        let from = now();
        let old = self.proxies.remove(index);
        let server = old.address().to_owned();
        drop(old);
        let new = self.new_proxy();
        self.proxies.insert(index, new);
        Outage { server, from, until: now() + LONGEST_ORDER }
    }

    /// Waits until everything works again: every proxy counts every master's vote.
    pub(crate) async fn recovers(&self) {
        let limit = Instant::now() + RECOVERY;
        while !self.is_whole().await {
            assert!(Instant::now() < limit, "the masters do not all vote: {:#?}", self.logs());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Logs of all proxies.
    pub(crate) fn logs(&self) -> Vec<Vec<String>> {
        self.proxies.iter().map(Proxy::log).collect()
    }

    async fn is_whole(&self) -> bool {
        for proxy in &self.proxies {
            let info = Raw::connect(proxy.address()).await.ask(&["INFO", "redlock"]).await.text();
            if !info.lines().any(|line| line == format!("voters:{}", self.masters.len())) {
                return false;
            }
        }
        true
    }

    fn new_proxy(&self) -> Proxy {
        let proxy = Proxy::in_front_of(&self.addresses(), &["--vote-timeout", VOTE_TIMEOUT]);
        proxy.expect_warnings();
        proxy
    }

    fn addresses(&self) -> Vec<String> {
        self.relays.iter().map(Relay::address).collect()
    }
}

/// Environment that preloads both libraries at once.
fn environment(clock: &Clock, disk: &Disk) -> Vec<(&'static str, PathBuf)> {
    let mut environment = clock.environment();
    for (name, value) in &mut environment {
        if *name == "LD_PRELOAD" {
            let both = format!("{}:{}", value.display(), disk.library().display());
            *value = PathBuf::from(both);
        }
    }
    environment.push(("TEST_DISK", disk.setting()));
    environment
}

/// Time for which a client may still ask a proxy that is gone: it may hold a lock with the longest
/// time to live.
const LONGEST_ORDER: Nanos = 15_000 * MILLISECOND;

/// A master is readmitted within seconds; a busy machine needs longer.
const RECOVERY: Duration = Duration::from_secs(60);
