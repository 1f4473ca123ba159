//! The leases of one worker: names for its attempts, and tags of the leases it has granted.

mod granted;

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::decision::lease::attempt::{Attempt, Tag, WorkerId};
use crate::time::clock::{self, Instant};
use granted::Granted;

/// Divisor that gives the weight of the latest round trip in the average.
const WEIGHT: u64 = 16;

/// The leases of one worker; see the module.
#[derive(Debug)]
pub struct Leases {
    worker: WorkerId,
    counter: Cell<u64>,
    started: Instant,
    /// The latest time passed to decisions, as both types.
    latest: Cell<(Instant, Duration)>,
    /// The average round trip in microseconds, times [`WEIGHT`].
    round_trips_us: Cell<u64>,
    granted: RefCell<Granted>,
    hasher: foldhash::quality::RandomState,
}

impl Default for Leases {
    fn default() -> Self {
        let started = clock::now();
        Self {
            worker: WorkerId::new(fastrand::u64(WorkerId::DRAWN)),
            counter: Cell::new(0),
            started,
            latest: Cell::new((started, Duration::ZERO)),
            round_trips_us: Cell::new(0),
            granted: RefCell::default(),
            hasher: foldhash::quality::RandomState::default(),
        }
    }
}

impl Leases {
    /// Returns a name that no attempt ever had.
    pub(super) fn next_attempt(&self) -> Attempt {
        let counter = self.counter.get() + 1;
        self.counter.set(counter);
        Attempt::new(self.worker, counter)
    }

    /// Converts `now` for decisions. Answers that were read together cost one conversion.
    pub(super) fn at(&self, now: Instant) -> Duration {
        let (latest, known) = self.latest.get();
        if latest == now {
            return known;
        }
        let at = now.saturating_duration_since(self.started);
        self.latest.set((now, at));
        at
    }

    /// Converts a time from decisions back.
    pub(super) fn moment(&self, at: Duration) -> Instant {
        self.started + at
    }

    /// Returns how long a master usually takes to answer.
    pub(super) fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trips_us.get() / WEIGHT)
    }

    /// Records a master's round trip.
    pub fn took(&self, round_trip_us: u64) {
        let usual = self.round_trips_us.get();
        self.round_trips_us.set((usual - usual / WEIGHT).saturating_add(round_trip_us));
    }

    /// Remembers that a quorum holds the lease under this tag.
    pub fn remember(&self, db: u32, key: &[u8], token: &[u8], tag: Tag) {
        // Only this worker's own claims are known to precede any request sent now, on the same links.
        if tag.attempt.worker() == self.worker {
            self.granted.borrow_mut().remember(self.name(db, key, token), tag);
        }
    }

    /// Returns the tag under which the lease was last granted or prolonged, and forgets it.
    pub(super) fn take(&self, db: u32, key: &[u8], token: &[u8]) -> Option<Tag> {
        self.granted.borrow_mut().take(self.name(db, key, token))
    }

    /// Returns the fingerprint of a lease.
    fn name(&self, db: u32, key: &[u8], token: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(db);
        hasher.write_usize(key.len());
        hasher.write(key);
        hasher.write(token);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_remembered_by_key_and_token_until_it_is_taken() {
        let leases = Leases::default();
        let tag = leases.next_attempt().fresh();
        leases.remember(0, b"k", b"t", tag);
        let others = [(1, b"k", b"t"), (0, b"j", b"t"), (0, b"k", b"u")];
        assert!(others.iter().all(|(db, key, token)| leases.take(*db, *key, *token).is_none()));
        assert_eq!(leases.take(0, b"k", b"t"), Some(tag));
        assert_eq!(leases.take(0, b"k", b"t"), None);
    }

    #[test]
    fn most_of_the_leases_granted_last_are_remembered() {
        let leases = Leases::default();
        let key = |number: usize| number.to_be_bytes();
        for number in 0..granted::LEASES {
            leases.remember(0, &key(number), b"t", leases.next_attempt().fresh());
        }
        let is_known = |number: &usize| leases.take(0, &key(*number), b"t").is_some();
        // About 79 % of random places are not overwritten by a later one.
        assert!((0..granted::LEASES).filter(is_known).count() > granted::LEASES * 3 / 4);
    }

    #[test]
    fn the_usual_round_trip_follows_the_latest() {
        let leases = Leases::default();
        assert_eq!(leases.round_trip(), Duration::ZERO);
        (0..200).for_each(|_| leases.took(800));
        let usual = leases.round_trip();
        assert!(usual > Duration::from_micros(780) && usual <= Duration::from_micros(800));
        leases.took(16_800);
        assert!(leases.round_trip() > usual + Duration::from_micros(900));
    }

    #[test]
    fn no_two_attempts_are_equal() {
        let (one, other) = (Leases::default(), Leases::default());
        assert_ne!(one.next_attempt(), one.next_attempt());
        assert_ne!(one.next_attempt(), other.next_attempt());
    }
}
