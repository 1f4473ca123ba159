//! How each fault is made, and undone.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};

use crate::bed::Bed;
use crate::fault::Fault;
use crate::history::{MILLISECOND, Nanos, Outage, now};
use crate::journal::Journal;
use crate::orders::{Habits, PATIENCE_MS, PATIENT};
use crate::support::Reply;

/// One fault, once, on a master that is chosen by lot while somebody holds a lock.
pub(crate) struct Strike<'a> {
    bed: &'a mut Bed,
    journal: &'a Journal,
    random: &'a mut Rng,
    victim: usize,
}

/// When it returns, the cause is gone. The effect may last.
pub(crate) async fn strike(fault: Fault, bed: &mut Bed, journal: &Journal, random: &mut Rng) {
    let victim = random.usize(..bed.masters.len());
    let mut strike = Strike { bed, journal, random, victim };
    let usual = journal.books().orders.habits;
    if fault.is_bare() {
        journal.books().orders.habits =
            Habits { extends: usual.extends, repeats: usual.repeats, ..PATIENT };
        strike.shut_one_out().await;
    } else {
        strike.somebody_holds(now(), 200).await;
    }
    strike.make(fault).await;
    journal.books().orders.habits = usual;
}

impl Strike<'_> {
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

    /// Waits until somebody has come in who may stay for so many milliseconds more.
    async fn somebody_holds(&self, after: Nanos, left_ms: u64) {
        let limit = Instant::now() + WAIT_FOR_HOLDER;
        while !self.is_held(after, left_ms) && Instant::now() < limit {
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn is_held(&self, after: Nanos, left_ms: u64) -> bool {
        let until = now() + left_ms * MILLISECOND;
        let books = self.journal.books();
        books.witness.visits().any(|visit| visit.since >= after && visit.until >= until)
    }

    /// One master is away while somebody takes a lock, and back before the lock has ended.
    async fn shut_one_out(&mut self) {
        let absent = (self.victim + 1) % self.bed.masters.len();
        self.bed.relays[absent].cut();
        // What everybody holds has to be taken without it.
        self.somebody_holds(now(), 2500).await;
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
        let outage = Outage { server, from, until: now() };
        self.journal.books().history.outages.push(outage);
    }

    fn kill_proxy(&mut self) {
        let index = self.random.usize(..self.bed.proxies.len());
        let outage = self.bed.replace_proxy(index);
        let mut books = self.journal.books();
        books.history.outages.push(outage);
        books.orders.routes = self.bed.routes();
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

    /// Every master is far away, each by another way. All answer within a vote timeout.
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

    /// One byte is less than any Redis uses.
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

    /// Tells the victim something that it has to do.
    async fn ask(&self, words: &[&str]) {
        let reply = self.bed.masters[self.victim].ask(words).await;
        assert!(!reply.is_error(""), "{words:?}: {reply:?}");
    }
}

/// Longer than most TTLs, so that what was held when it began is over when it ends.
const LASTING: Duration = Duration::from_millis(1800);

/// While others may get in.
const AFTERMATH: Duration = Duration::from_millis(1000);

/// A proxy that is not asked for a lock looks at its masters once a second.
const UNTIL_SEEN: Duration = Duration::from_millis(2000);

/// The clients have to give up and go elsewhere.
const LONGER_THAN_PATIENCE: Duration = Duration::from_millis(PATIENCE_MS + 500);

/// Where nobody can take a lock, the fault comes all the same.
const WAIT_FOR_HOLDER: Duration = Duration::from_secs(6);
