//! The processes of one test: masters with clocks and disks of their own, a network before each, and what is
//! tested in front of them.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::disk::Disk;
use crate::history::{MILLISECOND, Nanos, Outage, now};
use crate::support::{Clock, Master, Proxy, Raw, Relay};
use crate::system::VOTE_TIMEOUT;

/// Whatever is dropped first ends first: proxies, networks, masters.
pub(crate) struct Bed {
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) relays: Vec<Relay>,
    pub(crate) masters: Vec<Master>,
    pub(crate) clocks: Vec<Clock>,
    pub(crate) disks: Vec<Disk>,
}

impl Bed {
    /// `master_flags` are `redis-server`'s.
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

    /// The addresses of which a client is given one: of a proxy, or of all masters.
    pub(crate) fn routes(&self) -> Vec<String> {
        if self.proxies.is_empty() {
            return vec![self.addresses().join(",")];
        }
        self.proxies.iter().map(|proxy| proxy.address().to_owned()).collect()
    }

    /// Kills a proxy, and returns what its clients will see of it.
    pub(crate) fn replace_proxy(&mut self, index: usize) -> Outage {
        let from = now();
        let old = self.proxies.remove(index);
        let server = old.address().to_owned();
        drop(old);
        let new = self.new_proxy();
        self.proxies.insert(index, new);
        Outage { server, from, until: now() + LONGEST_ORDER }
    }

    /// Whether everything works again: every proxy counts every master's vote.
    pub(crate) async fn recovers(&self) {
        let limit = Instant::now() + RECOVERY;
        while !self.is_whole().await {
            assert!(Instant::now() < limit, "the masters do not all vote: {:#?}", self.logs());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Everything that the proxies have said.
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

/// Both libraries at once.
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

/// For so long a client may still ask a proxy that is gone: it holds a lock of the longest kind.
const LONGEST_ORDER: Nanos = 15_000 * MILLISECOND;

/// A master is admitted again within seconds; a busy machine needs longer.
const RECOVERY: Duration = Duration::from_secs(60);
