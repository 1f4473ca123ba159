//! The leases of one worker: names for its attempts, and which of them it has granted.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::decision::lease::attempt::{Attempt, Tag, WorkerId};

/// Leases that are remembered at least, of those granted last; twice as many at most. A release of any other asks the
/// masters first which attempt it is.
const REMEMBERED: usize = 32_768;

/// Weight of the latest round trip in the usual one, as one of so many.
const WEIGHT: u32 = 16;

/// See the module.
#[derive(Debug)]
pub struct Leases {
    worker: WorkerId,
    counter: Cell<u64>,
    started: Instant,
    round_trip: Cell<Duration>,
    granted: RefCell<Granted>,
    hasher: foldhash::quality::RandomState,
}

/// Tags by fingerprint of database, key and token: those granted last, and those before them.
#[derive(Debug, Default)]
struct Granted {
    young: HashMap<u64, Tag, foldhash::fast::RandomState>,
    old: HashMap<u64, Tag, foldhash::fast::RandomState>,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            worker: WorkerId::new(fastrand::u64(1..1 << 48)),
            counter: Cell::new(0),
            started: clock::now(),
            round_trip: Cell::new(Duration::ZERO),
            granted: RefCell::default(),
            hasher: foldhash::quality::RandomState::default(),
        }
    }
}

impl Leases {
    /// A name that no attempt ever had.
    pub(super) fn next_attempt(&self) -> Attempt {
        let counter = self.counter.get() + 1;
        self.counter.set(counter);
        Attempt::new(self.worker, counter)
    }

    /// `now` as decisions have it.
    pub(super) fn at(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// How long a master usually takes to answer.
    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip.get()
    }

    /// A master has taken so long to answer.
    pub(super) fn took(&self, round_trip: Duration) {
        let usual = self.round_trip.get();
        self.round_trip.set(usual - usual / WEIGHT + round_trip / WEIGHT);
    }

    /// A quorum holds the lease under this tag.
    pub(super) fn remember(&self, db: u32, key: &[u8], token: &[u8], tag: Tag) {
        let name = self.name(db, key, token);
        let granted = &mut *self.granted.borrow_mut();
        if granted.young.len() >= REMEMBERED {
            granted.old = std::mem::take(&mut granted.young);
        }
        granted.young.insert(name, tag);
    }

    /// The tag under which the lease was granted or prolonged last, and forgets it.
    pub(super) fn take(&self, db: u32, key: &[u8], token: &[u8]) -> Option<Tag> {
        let name = self.name(db, key, token);
        let granted = &mut *self.granted.borrow_mut();
        let old = granted.old.remove(&name);
        granted.young.remove(&name).or(old)
    }

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
    fn the_leases_granted_last_are_remembered_and_the_number_is_bounded() {
        let leases = Leases::default();
        let key = |number: usize| number.to_be_bytes();
        for number in 0..3 * REMEMBERED {
            leases.remember(0, &key(number), b"t", leases.next_attempt().fresh());
        }
        let granted = leases.granted.borrow();
        assert_eq!(granted.young.len() + granted.old.len(), 2 * REMEMBERED);
        drop(granted);
        assert!(leases.take(0, &key(3 * REMEMBERED - 1), b"t").is_some());
        assert!(leases.take(0, &key(2 * REMEMBERED - 1), b"t").is_some());
        assert!(leases.take(0, &key(REMEMBERED - 1), b"t").is_none());
    }

    #[test]
    fn no_two_attempts_are_equal() {
        let (one, other) = (Leases::default(), Leases::default());
        assert_ne!(one.next_attempt(), one.next_attempt());
        assert_ne!(one.next_attempt(), other.next_attempt());
    }
}
