//! Debts to masters: take-backs and releases that could not be delivered.
//!
//! Debts are kept, bounded, until the link is back or the key would have expired anyway. So a healed partition leaves
//! no ghost locks behind. Each debt names the attempt it is meant for, so it can affect nothing else, whenever it
//! arrives.

use std::collections::VecDeque;
use std::time::Duration;

use super::request::{self, Form};
use crate::decision::lease::attempt::Attempt;
use crate::time::clock::{self, Instant};

/// Maximum debts kept per master. Beyond that, the oldest is dropped and its key stays on that one master until its TTL
/// ends.
pub const MAX_DEFERRED: usize = 65_536;

/// Maximum bytes of keys and tokens kept per master, well below a link's limit for unsent data.
const MAX_DEFERRED_BYTES: usize = 8 << 20;

/// A request still owed to one master.
#[derive(Clone, Debug)]
pub enum Debt {
    /// A value to delete.
    Lease(OwedLease),
    /// A note to keep that an attempt is over.
    Note(Note),
}

/// An attempt that is over, although some masters may have missed its end.
#[derive(Clone, Debug)]
pub struct Note {
    /// Database of its key.
    pub db: u32,
    /// The attempt.
    pub attempt: Attempt,
    /// When its remains expire by themselves.
    pub end: Instant,
}

/// A lease that is over.
#[derive(Clone, Debug)]
pub struct OwedLease {
    /// Database of the key.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
    /// The part of the lease that is over.
    pub over: OverLease,
    /// When the key expires by itself.
    pub end: Instant,
}

/// See [`OwedLease`].
#[derive(Clone, Debug)]
pub enum OverLease {
    /// Exactly this value, tag and token: takes back an attempt that nothing has confirmed.
    Value(Box<[u8]>),
    /// The attempt, however often it was prolonged: its holder has given it back.
    Attempt(Attempt),
}

impl Debt {
    /// Returns the database of the request.
    pub fn db(&self) -> u32 {
        match self {
            Self::Lease(lease) => lease.db,
            Self::Note(note) => note.db,
        }
    }

    /// Appends the request.
    pub fn encode(&self, form: Form, out: &mut Vec<u8>) {
        match self {
            Self::Lease(OwedLease { key, over: OverLease::Value(value), .. }) => {
                request::take_back(out, form, key, value);
            }
            Self::Lease(OwedLease { key, over: OverLease::Attempt(attempt), .. }) => {
                request::deliver(out, form, key, *attempt);
            }
            Self::Note(note) => {
                let left = note.end.saturating_duration_since(clock::now()) + NOTED_LONGER;
                let left_ms = i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
                request::note(out, form, note.attempt, left_ms);
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Lease(lease) => lease.bytes(),
            Self::Note(_) => size_of::<Note>(),
        }
    }

    fn end(&self) -> Instant {
        match self {
            Self::Lease(lease) => lease.end,
            Self::Note(note) => note.end,
        }
    }
}

impl OwedLease {
    fn bytes(&self) -> usize {
        let value = match &self.over {
            OverLease::Value(value) => value.len(),
            OverLease::Attempt(_) => size_of::<Attempt>(),
        };
        self.key.len() + value
    }
}

/// Additional time for which a note is kept, beyond the end of its subject: a master that was away may have missed that
/// the expiry was shortened.
const NOTED_LONGER: Duration = Duration::from_secs(600);

/// The debts to one master.
#[derive(Debug, Default)]
pub struct Deferred {
    waiting: VecDeque<(Instant, Debt)>,
    bytes: usize,
    dropped: u64,
}

impl Deferred {
    /// Keeps `debt` until the link is back.
    pub fn push(&mut self, debt: Debt, now: Instant) {
        while self.waiting.front().is_some_and(|(end, _)| *end <= now) {
            self.pop();
        }
        self.bytes += debt.bytes();
        self.waiting.push_back((debt.end(), debt));
        while self.waiting.len() > MAX_DEFERRED || self.bytes > MAX_DEFERRED_BYTES {
            self.pop();
            self.dropped += 1;
        }
    }

    fn pop(&mut self) {
        if let Some((_, oldest)) = self.waiting.pop_front() {
            self.bytes -= oldest.bytes();
        }
    }

    /// Takes all debts whose keys have not expired by `now`, oldest first.
    pub fn take(&mut self, now: Instant) -> Vec<Debt> {
        self.bytes = 0;
        let waiting = self.waiting.drain(..);
        waiting.filter(|(end, _)| *end > now).map(|(_, debt)| debt).collect()
    }

    /// Returns the number of waiting debts whose keys have not expired by `now`.
    pub fn count(&self, now: Instant) -> usize {
        self.waiting.iter().filter(|(end, _)| *end > now).count()
    }

    /// Returns the number of debts dropped because of the limits.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::attempt::WorkerId;

    const SECOND: Duration = Duration::from_secs(1);

    fn attempt() -> Attempt {
        Attempt::new(WorkerId::new(1), 2)
    }

    fn debt(over: OverLease, end: Instant) -> Debt {
        Debt::Lease(OwedLease { db: 3, key: (*b"k").into(), over, end })
    }

    fn take_back(end: Instant) -> Debt {
        debt(OverLease::Value((*b"t").into()), end)
    }

    #[test]
    fn what_is_kept_is_bounded_by_its_bytes_too() {
        let now = clock::now();
        let large =
            |bytes: usize| debt(OverLease::Value(vec![b't'; bytes - 1].into()), now + 60 * SECOND);
        let mut deferred = Deferred::default();
        for _ in 0..4 {
            deferred.push(large(MAX_DEFERRED_BYTES / 4), now);
        }
        assert_eq!((deferred.count(now), deferred.dropped()), (4, 0), "they fit exactly");
        deferred.push(large(2), now);
        deferred.push(large(MAX_DEFERRED_BYTES / 4), now);
        assert_eq!((deferred.count(now), deferred.dropped()), (4, 2));
        deferred.take(now);
        deferred.push(large(MAX_DEFERRED_BYTES), now);
        assert_eq!(
            (deferred.count(now), deferred.dropped()),
            (1, 2),
            "what was taken needs no room"
        );
    }

    #[test]
    fn what_has_expired_is_not_sent() {
        let now = clock::now();
        let mut deferred = Deferred::default();
        deferred.push(take_back(now + SECOND), now);
        deferred.push(take_back(now + 60 * SECOND), now);
        let later = now + 10 * SECOND;
        assert_eq!((deferred.count(now), deferred.count(later)), (2, 1));
        assert_eq!(deferred.take(later).len(), 1);
        assert_eq!(deferred.count(now), 0);
    }

    #[test]
    fn every_debt_is_a_request() {
        let now = clock::now();
        let release = debt(OverLease::Attempt(attempt()), now);
        assert_eq!((release.db(), release.bytes()), (3, 1 + size_of::<Attempt>()));
        let note = Debt::Note(Note { db: 3, attempt: attempt(), end: now });
        assert_eq!((note.db(), note.bytes()), (3, size_of::<Note>()));
        for debt in [take_back(now), release, note] {
            let mut request = Vec::new();
            debt.encode(Form::Sha, &mut request);
            assert!(request.starts_with(b"*") && request.ends_with(b"\r\n"));
        }
    }

    #[test]
    fn a_long_outage_keeps_a_bounded_number() {
        let now = clock::now();
        let mut deferred = Deferred::default();
        for _ in 0..MAX_DEFERRED + 3 {
            deferred.push(take_back(now + 60 * SECOND), now);
        }
        assert_eq!((deferred.count(now), deferred.dropped()), (MAX_DEFERRED, 3));
    }

    #[test]
    fn what_has_expired_makes_room_and_is_not_missed() {
        let now = clock::now();
        let mut deferred = Deferred::default();
        for _ in 0..MAX_DEFERRED {
            deferred.push(take_back(now + SECOND), now);
        }
        let later = now + 10 * SECOND;
        deferred.push(take_back(later + SECOND), later);
        assert_eq!((deferred.count(later), deferred.dropped()), (1, 0));
    }
}
