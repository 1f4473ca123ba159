//! Failed logins, and the delay that they impose before the next password is checked.
//!
//! No client is locked out. A connection waits twice as long after each wrong password, up to five seconds. After many
//! wrong passwords from one home, every connection from there waits up to a second, and the right password then lets it
//! in. Hanging up early gains a client nothing: the proxy then never checks the password.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::registry::Peer;
use crate::net::address;
use crate::time::clock::Instant;

/// Delay after the first wrong password of a connection, and the delay that each one adds for its home. Ten per second
/// come from a person or a fleet with an old password, not from a dictionary attack.
const STEP: Duration = Duration::from_millis(100);

/// Longest delay for a connection's own wrong passwords: a person who types them gives up sooner.
const LONGEST_OF_CONNECTION: Duration = Duration::from_secs(5);

/// Longest delay for the wrong passwords of others. It is below the shortest default timeouts of drivers (Jedis: 2 s),
/// so that a guesser behind the same NAT does not keep them out.
const LONGEST_OF_HOME: Duration = Duration::from_secs(1);

/// Delay that a home is forgiven: its clients wait only for what exceeds ten wrong passwords in one second.
const FORGIVEN: Duration = Duration::from_secs(1);

/// Maximum homes told apart, some 100 kB. Homes that share a place share the delay, which is bounded.
const PLACES: u64 = 4096;

/// The wrong passwords of all connections of a process.
#[derive(Debug, Default)]
pub struct Guesses {
    /// Time at which each home's wrong passwords are worked off, by the home's place.
    ends: Mutex<HashMap<u64, Instant, foldhash::fast::RandomState>>,
    hasher: foldhash::fast::RandomState,
    denied: AtomicU64,
}

/// The wrong passwords of one connection.
#[derive(Debug, Default)]
pub struct Attempts {
    failures: u32,
    /// Time from which the pending password may be checked.
    due: Option<Instant>,
}

impl Guesses {
    /// Returns the number of wrong passwords.
    pub fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }

    fn failed(&self, peer: &Peer, now: Instant) {
        self.denied.fetch_add(1, Ordering::Relaxed);
        let mut ends = self.ends();
        let end = ends.entry(self.place(peer)).or_insert(now);
        *end = ((*end).max(now) + STEP).min(now + FORGIVEN + LONGEST_OF_HOME);
    }

    fn wait(&self, peer: &Peer, now: Instant) -> Duration {
        let end = self.ends().get(&self.place(peer)).copied();
        end.map_or(Duration::ZERO, |end| (end - now).saturating_sub(FORGIVEN))
    }

    /// Returns the place of the peer's home. All clients that connect through the Unix socket share one home.
    fn place(&self, peer: &Peer) -> u64 {
        let home: Option<IpAddr> = match peer {
            Peer::Tcp(address) => Some(address::home(address.ip())),
            Peer::Unix(_) => None,
        };
        self.hasher.hash_one(home) % PLACES
    }

    /// No code under this lock can panic.
    fn ends(&self) -> MutexGuard<'_, HashMap<u64, Instant, foldhash::fast::RandomState>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempts {
    /// Takes over a count of failures from another process.
    pub fn after(failures: u32) -> Self {
        Self { failures, due: None }
    }

    /// Returns the number of wrong passwords since the last right one.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the time from which the pending password of `peer` may be checked, or `None` if it may be checked at
    /// once. The first call sets that time from `now`; later calls for the same password keep it.
    pub fn due(&mut self, guesses: &Guesses, peer: &Peer, now: Instant) -> Option<Instant> {
        let own = self.wait();
        let due = *self.due.get_or_insert_with(|| now + own.max(guesses.wait(peer, now)));
        if due > now {
            return Some(due);
        }
        self.due = None;
        None
    }

    /// Records a wrong password.
    pub fn failed(&mut self, guesses: &Guesses, peer: &Peer, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        guesses.failed(peer, now);
    }

    /// Records a right password.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    fn wait(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => {
                let factor = 2_u32.saturating_pow(failures - 1);
                STEP.saturating_mul(factor).min(LONGEST_OF_CONNECTION)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock;

    fn peer(host: &str) -> Peer {
        Peer::Tcp((host.parse::<IpAddr>().expect("an address"), 1).into())
    }

    /// Returns the number of wrong passwords checked within `time`, each sent on a connection as soon as it may be.
    async fn looked_at(
        guesses: &Guesses,
        host: &str,
        time: Duration,
        mut connection: impl FnMut(&mut Attempts),
    ) -> u64 {
        let (peer, mut attempts, before) = (peer(host), Attempts::default(), guesses.denied());
        let end = clock::now() + time;
        loop {
            connection(&mut attempts);
            if let Some(due) = attempts.due(guesses, &peer, clock::now()) {
                tokio::time::sleep_until(due).await;
                assert_eq!(attempts.due(guesses, &peer, clock::now()), None, "it waits once");
            }
            let count = guesses.denied() - before;
            // Time only passes while a client waits.
            if clock::now() >= end || count > 100_000 {
                return count;
            }
            attempts.failed(guesses, &peer, clock::now());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_wrong_password_of_a_connection_makes_the_next_wait_twice_as_long() {
        let (guesses, peer, mut attempts) =
            (Guesses::default(), peer("10.0.0.1"), Attempts::default());
        let mut waits = Vec::new();
        for _ in 0..9 {
            let now = clock::now();
            let due = attempts.due(&guesses, &peer, now).unwrap_or(now);
            waits.push((due - now).as_millis());
            tokio::time::sleep_until(due).await;
            assert_eq!(attempts.due(&guesses, &peer, clock::now()), None);
            attempts.failed(&guesses, &peer, clock::now());
        }
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        attempts.succeeded();
        assert_eq!(attempts.due(&guesses, &peer, clock::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_minute_of_guessing_over_new_connections_comes_to_ten_a_second() {
        let guesses = Guesses::default();
        let renew = |attempts: &mut Attempts| *attempts = Attempts::default();
        let count = looked_at(&guesses, "10.0.0.1", Duration::from_secs(60), renew).await;
        assert!((500..700).contains(&count), "{count}");
        // Parallel guesses gain nothing: another host does not wait at all, and this one waits a second at most.
        let now = clock::now();
        (0..1000).for_each(|_| guesses.failed(&peer("10.0.0.1"), now));
        assert_eq!(Attempts::default().due(&guesses, &peer("10.0.0.2"), now), None);
        let due = Attempts::default().due(&guesses, &peer("10.0.0.1"), now);
        assert_eq!(due, Some(now + LONGEST_OF_HOME));
        tokio::time::sleep(FORGIVEN + LONGEST_OF_HOME).await;
        assert_eq!(Attempts::default().due(&guesses, &peer("10.0.0.1"), clock::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_minute_of_guessing_over_one_connection_comes_to_a_few() {
        let guesses = Guesses::default();
        let count = looked_at(&guesses, "10.0.0.1", Duration::from_secs(60), |_| {}).await;
        assert!((10..25).contains(&count), "{count}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_wrong_passwords_make_nobody_else_wait() {
        let (guesses, peer) = (Guesses::default(), peer("10.0.0.1"));
        (0..10).for_each(|_| Attempts::default().failed(&guesses, &peer, clock::now()));
        assert_eq!(Attempts::default().due(&guesses, &peer, clock::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_homes_of_guessers_take_bounded_room() {
        let guesses = Guesses::default();
        for number in 0..100_000_u32 {
            let address = IpAddr::from(number.to_be_bytes());
            guesses.failed(&Peer::Tcp((address, 1).into()), clock::now());
        }
        assert!(guesses.ends().len() as u64 <= PLACES);
        let network = |last: u16| peer(&format!("2001:db8::{last:x}"));
        (0..30).for_each(|last| guesses.failed(&network(last), clock::now()));
        assert!(guesses.wait(&network(99), clock::now()) > Duration::ZERO, "one /64 is one home");
    }
}
