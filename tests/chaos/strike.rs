//! Causes and undoes each fault.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};

use crate::bed::Bed;
use crate::fault::Fault;
use crate::history::{Nanos, Outage, now};
use crate::orders::PATIENCE_MS;
use crate::support::Reply;
use crate::traffic::Traffic;

/// Strikes faults in turn for this long, and until each of the deck has happened once.
pub(crate) async fn strikes(
    mut deck: Vec<Fault>,
    lasting: Duration,
    seed: u64,
    bed: &mut Bed,
    traffic: &impl Traffic,
) -> Vec<Struck> {
    let mut random = Rng::with_seed(seed);
    let end = Instant::now() + lasting;
    let mut struck = Vec::new();
    while struck.len() < deck.len() || Instant::now() < end {
        let turn = struck.len() % deck.len();
        if turn == 0 {
            random.shuffle(&mut deck);
        }
        struck.push(strike(deck[turn], bed, traffic, &mut random).await);
        bed.recovers().await;
    }
    struck
}

/// A past fault, its victim if it hit one master, and its time.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "it is shown with a history")]
pub(crate) struct Struck {
    fault: Fault,
    victim: usize,
    from: Nanos,
    until: Nanos,
}

/// One fault, once, on a randomly chosen master, at a moment when it would affect clients.
struct Strike<'a, T> {
    bed: &'a mut Bed,
    traffic: &'a T,
    random: &'a mut Rng,
    victim: usize,
}

/// Strikes once. On return the cause is gone, but the effect may last.
async fn strike(fault: Fault, bed: &mut Bed, traffic: &impl Traffic, random: &mut Rng) -> Struck {
    let victim = random.usize(..bed.masters.len());
    let mut strike = Strike { bed, traffic, random, victim };
    if fault.is_bare() {
        strike.shut_one_out().await;
    } else {
        traffic.is_under_way().await;
    }
    let from = now();
    strike.make(fault).await;
    traffic.is_let_alone();
    Struck { fault, victim, from, until: now() }
}

impl<T: Traffic> Strike<'_, T> {
    async fn make(&mut self, fault: Fault) {
        match fault {
            Fault::Calm | Fault::Sleepers => sleep(Duration::from_millis(500)).await,
            Fault::RestartEmpty | Fault::RestartEverysec | Fault::RestartAlways => {
                self.restart(300).await;
            }
            Fault::RestartEmptyBare => self.restart(0).await,
            Fault::StopMaster => self.stop_master().await,
            Fault::StopProxy => self.stop_proxy().await,
            Fault::KillProxy => self.kill_proxy(),
            Fault::Reset => self.reset().await,
            Fault::BlackHole => self.black_hole().await,
            Fault::Delay => self.delay().await,
            Fault::ClientKill => self.kill_clients().await,
            Fault::ScriptFlush => self.flush_scripts().await,
            Fault::SlowDisk => self.slow_disk().await,
            Fault::MaxMemory => self.fill_memory().await,
            Fault::ClockRate => self.hurry_clock().await,
            Fault::ClockStep => {
                let hour = if self.random.bool() { 3600.0 } else { -3600.0 };
                self.set_clock(hour).await;
            }
            Fault::ClockStepBare => self.set_clock(3600.0).await,
            Fault::Flush | Fault::FlushBare => self.flush().await,
            Fault::Mixed => unreachable!("it is a deck of others"),
        }
    }

    /// Cuts off one master during an operation, and restores it while clients rely on the result.
    async fn shut_one_out(&mut self) {
        let absent = (self.victim + 1) % self.bed.masters.len();
        self.bed.relays[absent].cut();
        self.traffic.goes_on_without_the_others().await;
        self.bed.relays[absent].heal();
        self.bed.recovers().await;
    }

    async fn restart(&mut self, longest_pause_ms: u64) {
        let pause = Duration::from_millis(self.random.u64(..=longest_pause_ms));
        let master = &mut self.bed.masters[self.victim];
        master.kill_9();
        sleep(pause).await;
        master.restart_empty();
        sleep(AFTERMATH).await;
    }

    async fn stop_master(&mut self) {
        self.bed.masters[self.victim].stop();
        sleep(LASTING).await;
        self.bed.masters[self.victim].cont();
    }

    async fn stop_proxy(&mut self) {
        let proxy = &self.bed.proxies[self.random.usize(..self.bed.proxies.len())];
        let (server, from) = (proxy.address().to_owned(), now());
        proxy.stop();
        sleep(LONGER_THAN_PATIENCE).await;
        proxy.cont();
        self.traffic.suffers(Outage { server, from, until: now() });
    }

    fn kill_proxy(&mut self) {
        let index = self.random.usize(..self.bed.proxies.len());
        self.traffic.suffers(self.bed.replace_proxy(index));
        self.traffic.moves_to(self.bed.routes());
    }

    async fn reset(&mut self) {
        for _ in 0..8 {
            let relay = self.random.usize(..self.bed.relays.len());
            self.bed.relays[relay].reset();
            sleep(Duration::from_millis(self.random.u64(50..250))).await;
        }
    }

    async fn black_hole(&mut self) {
        self.bed.relays[self.victim].black_hole();
        sleep(LASTING).await;
        self.bed.relays[self.victim].heal();
    }

    /// Delays every master, each by different times. All answer within a vote timeout.
    async fn delay(&mut self) {
        for relay in &self.bed.relays {
            let [there, back] = [(); 2].map(|()| Duration::from_millis(self.random.u64(20..80)));
            relay.delay(there, back);
        }
        sleep(LASTING).await;
        self.bed.relays.iter().for_each(crate::support::Relay::heal);
    }

    async fn kill_clients(&mut self) {
        for _ in 0..8 {
            self.ask(&["CLIENT", "KILL", "TYPE", "normal"]).await;
            sleep(Duration::from_millis(self.random.u64(50..250))).await;
            self.victim = self.random.usize(..self.bed.masters.len());
        }
    }

    async fn flush_scripts(&mut self) {
        for master in &self.bed.masters {
            assert_eq!(master.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
        }
        sleep(Duration::from_millis(200)).await;
    }

    async fn slow_disk(&mut self) {
        self.bed.disks[self.victim].delay(Duration::from_millis(self.random.u64(100..1000)));
        sleep(LASTING).await;
        self.bed.disks[self.victim].delay(Duration::ZERO);
    }

    /// Any Redis uses more than one byte.
    async fn fill_memory(&mut self) {
        self.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        sleep(LASTING).await;
        self.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
    }

    async fn hurry_clock(&mut self) {
        self.bed.clocks[self.victim].gain(0.2);
        sleep(LASTING).await;
        self.bed.clocks[self.victim].gain(0.0);
        sleep(UNTIL_SEEN).await;
    }

    async fn set_clock(&mut self, ahead_s: f64) {
        self.bed.clocks[self.victim].set_ahead_by(ahead_s);
        sleep(LASTING).await;
        self.bed.clocks[self.victim].set_ahead_by(0.0);
        sleep(UNTIL_SEEN).await;
    }

    async fn flush(&mut self) {
        self.ask(&["FLUSHALL"]).await;
        sleep(AFTERMATH).await;
    }

    /// Sends the victim a command that must succeed.
    async fn ask(&self, words: &[&str]) {
        let reply = self.bed.masters[self.victim].ask(words).await;
        assert!(!reply.is_error(""), "{words:?}: {reply:?}");
    }
}

/// Longer than most TTLs, so that locks held at the beginning are over at the end.
const LASTING: Duration = Duration::from_millis(1800);

/// Time for other clients to get in.
const AFTERMATH: Duration = Duration::from_millis(1000);

/// A proxy that gets no lock requests checks its masters once a second.
const UNTIL_SEEN: Duration = Duration::from_millis(2000);

/// Clients must give up and try another server.
const LONGER_THAN_PATIENCE: Duration = Duration::from_millis(PATIENCE_MS + 500);
