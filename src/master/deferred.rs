//! Releases and rollbacks that could not be delivered to a master.
//!
//! They are kept, bounded, until the link is back or the key would have expired anyway, so that a
//! healed partition leaves no ghost locks behind. Each is a compare-and-delete that also looks at
//! the remaining TTL: sent late, it cannot hit a younger lock.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::master::link::longest_silence;
use crate::operation::program::Change;
use crate::operation::request::{self, Form};
use crate::quorum::validity::{Pad, TtlWindow};

/// The most that are kept for one master. Beyond it the oldest is dropped, and its key stays on that
/// one master until its TTL ends.
pub const MAX_DEFERRED: usize = 65_536;

/// The most bytes of keys and tokens that are kept for one master, well below what a link may have
/// unsent.
const MAX_DEFERRED_BYTES: usize = 8 << 20;

/// How long a release is kept whose lock has no known end.
const UNKNOWN_END: Duration = Duration::from_secs(600);

/// Why a key has to go, and hence what TTL it must show.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    /// A claim that set it with `ttl_ms`.
    Claim {
        /// The TTL on the masters, in milliseconds.
        ttl_ms: i64,
        /// When the claim was first sent.
        since: Instant,
        /// When it must have been executed, if at all; `None`: by now.
        until: Option<Instant>,
        /// The master has said that it found the key free.
        confirmed: bool,
    },
    /// A lock that was released at `since`, when other masters saw it end in `remaining_ms`.
    Release {
        /// The largest remaining TTL seen, -1 for none.
        remaining_ms: i64,
        /// When it was seen.
        since: Instant,
    },
    /// A claim that may have become persistent.
    Persisted,
}

/// What one master still has to get.
#[derive(Clone, Debug)]
pub enum Debt {
    /// A key is to be given back.
    Rollback(Rollback),
    /// Keys are to hold again what they held before a program.
    Restore(Restore),
}

impl Debt {
    /// The database it is sent to.
    pub fn db(&self) -> u32 {
        match self {
            Self::Rollback(rollback) => rollback.db,
            // The script selects what it needs.
            Self::Restore(_) => 0,
        }
    }

    /// Appends the request as it has to be sent at `now`.
    pub fn encode(&self, pad: Pad, now: Instant, form: Form, out: &mut Vec<u8>) {
        match self {
            Self::Rollback(rollback) => rollback.encode(pad, now, form, out),
            Self::Restore(restore) => request::restore(out, form, &restore.changes),
        }
    }

    /// The same, to be sent at any time after `now`; `None` when it could then do harm.
    pub fn for_later(self, now: Instant) -> Option<Self> {
        match self {
            Self::Rollback(rollback) => rollback.for_later(now).map(Self::Rollback),
            restore => Some(restore),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Rollback(rollback) => rollback.bytes(),
            Self::Restore(restore) => restore.bytes(),
        }
    }

    fn end(&self) -> Instant {
        match self {
            Self::Rollback(rollback) => rollback.end(),
            Self::Restore(restore) => restore.end,
        }
    }
}

/// Keys that a program has set on one master only. Each is restored if it still is what the program
/// left, down to the millisecond at which it ends, so that it may be sent at any time.
#[derive(Clone, Debug)]
pub struct Restore {
    changes: Vec<Change>,
    end: Instant,
}

impl Restore {
    /// Takes these changes back, as far as that can be done later. What has no end cannot be told from
    /// a younger key that holds the same, and what was deleted may have been given up for good since.
    /// It is `unix_ms` by the clock of that master now.
    pub fn later(changes: &[Change], unix_ms: i64) -> Option<Self> {
        let has_end = |change: &&Change| !change.left.is_empty() && change.end_left_ms >= 0;
        let changes: Vec<Change> = changes.iter().filter(has_end).cloned().collect();
        let last_ms = changes.iter().map(|change| change.end_left_ms).max()?;
        let left_ms = u64::try_from(last_ms.saturating_sub(unix_ms)).unwrap_or(0);
        let end = clock::now() + Duration::from_millis(left_ms).min(FOREVER);
        Some(Self { changes, end })
    }

    fn bytes(&self) -> usize {
        let value = |change: &Change| change.before.as_ref().map_or(0, |before| before.len());
        self.changes.iter().map(|change| change.key.len() + value(change)).sum()
    }
}

/// A compare-and-delete that one master still has to get.
#[derive(Clone, Debug)]
pub struct Rollback {
    /// The key's database.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
    /// The value it must hold.
    pub token: Box<[u8]>,
    /// Why.
    pub cause: Cause,
}

impl Rollback {
    /// Appends the request as it has to be sent at `now`.
    pub fn encode(&self, pad: Pad, now: Instant, form: Form, out: &mut Vec<u8>) {
        request::rollback(out, form, &self.key, &self.token, self.window(pad, now));
    }

    fn window(&self, pad: Pad, now: Instant) -> TtlWindow {
        match self.cause {
            Cause::Claim { ttl_ms, since, until, confirmed } => {
                let latest = now - until.unwrap_or(now);
                TtlWindow::of_claim(pad, ttl_ms, now - since + on_its_way(pad, confirmed), latest)
            }
            Cause::Release { remaining_ms, since } => {
                TtlWindow::of_release(pad, remaining_ms, now - since)
            }
            Cause::Persisted => TtlWindow::ANY,
        }
    }

    /// The same, to be sent at any time after `now`; `None` when it could then hit a younger lock.
    ///
    /// A claim that nobody answered counts as executed by now or never. Should a master that was
    /// stopped execute it later, the key stays there until its TTL ends. That is the safe side: a
    /// client that was told to try again may by then hold a lock with the same token.
    pub fn for_later(mut self, now: Instant) -> Option<Self> {
        match &mut self.cause {
            Cause::Claim { until, .. } => _ = until.get_or_insert(now),
            Cause::Release { .. } => {}
            Cause::Persisted => return None,
        }
        Some(self)
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.token.len()
    }

    /// When the key is gone by itself.
    fn end(&self) -> Instant {
        let (ttl_ms, since) = match self.cause {
            Cause::Claim { ttl_ms, since, .. } => (ttl_ms, since),
            Cause::Release { remaining_ms, since } => (remaining_ms, since),
            Cause::Persisted => return clock::now(),
        };
        match u64::try_from(ttl_ms) {
            // A little longer, for a clock that is slower than ours.
            Ok(ms) => since + Duration::from_millis(ms.saturating_add(ms / 64)).min(FOREVER),
            Err(_) => since + UNKNOWN_END,
        }
    }
}

/// How long a rollback may take to its master: the TTL goes down on the way.
///
/// Where the claim found the key free, no older key with the same token can be hit, and it may take as
/// long as the link bears; later the link is torn down, and the rollback is sent anew.
fn on_its_way(pad: Pad, confirmed: bool) -> Duration {
    let vote_timeout = pad.vote_timeout();
    if confirmed { longest_silence(vote_timeout) } else { vote_timeout }
}

/// What `Instant` can certainly still add up.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What one master still has to get.
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

    /// Takes everything whose key has not expired by `now`, oldest first.
    pub fn take(&mut self, now: Instant) -> Vec<Debt> {
        self.bytes = 0;
        let waiting = self.waiting.drain(..);
        waiting.filter(|(end, _)| *end > now).map(|(_, debt)| debt).collect()
    }

    /// How many are waiting whose key has not expired by `now`.
    pub fn count(&self, now: Instant) -> usize {
        self.waiting.iter().filter(|(end, _)| *end > now).count()
    }

    /// How many were dropped because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollback(ttl_ms: i64, since: Instant) -> Debt {
        let cause = Cause::Claim { ttl_ms, since, until: None, confirmed: true };
        Debt::Rollback(Rollback { db: 0, key: (*b"k").into(), token: (*b"t").into(), cause })
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn window(cause: Cause, now: Instant) -> TtlWindow {
        let (key, token) = ((*b"k").into(), (*b"t").into());
        Rollback { db: 0, key, token, cause }.window(Pad::new(SECOND / 20, 0.01), now)
    }

    /// 50 ms of the vote, or 500 ms of the link's patience, and what clocks may differ by in a second.
    #[test]
    fn a_rollback_takes_what_its_claim_may_have_left_and_nothing_else() {
        let since = clock::now();
        let claim = |until, confirmed| Cause::Claim { ttl_ms: 30_000, since, until, confirmed };
        let at_once = window(claim(None, false), since + SECOND);
        assert_eq!((at_once.least_ms, at_once.most_ms), (29_000 - 50 - 13, 30_000 + 2));
        let confirmed = window(claim(None, true), since + SECOND);
        assert_eq!((confirmed.least_ms, confirmed.most_ms), (29_000 - 500 - 17, 30_000 + 2));
        let later = window(claim(Some(since), false), since + SECOND);
        assert_eq!((later.least_ms, later.most_ms), (29_000 - 50 - 13, 29_000 + 12));
        let release = window(Cause::Release { remaining_ms: 5_000, since }, since + SECOND);
        assert_eq!((release.least_ms, release.most_ms), (0, 4_000 + 52));
        assert_eq!(window(Cause::Persisted, since + SECOND), TtlWindow::ANY);
    }

    #[test]
    fn a_claim_that_nobody_answered_counts_as_executed_when_its_link_is_lost() {
        let now = clock::now();
        let cause = Cause::Claim { ttl_ms: 30_000, since: now, until: None, confirmed: false };
        let (key, token) = ((*b"k").into(), (*b"t").into());
        let debt = Debt::Rollback(Rollback { db: 3, key, token, cause });
        assert_eq!(debt.db(), 3);
        let first = debt.for_later(now + SECOND).expect("a TTL tells it from younger ones");
        let again = first.for_later(now + 2 * SECOND).expect("still");
        let Debt::Rollback(Rollback { cause: Cause::Claim { until, .. }, .. }) = again else {
            panic!("a claim's");
        };
        assert_eq!(until, Some(now + SECOND), "when it was lost first");
    }

    /// A 64th longer than its key, for a clock that is slow.
    #[test]
    fn a_release_is_kept_for_as_long_as_its_key_may_be_there() {
        let now = clock::now();
        let is_kept = |remaining_ms, after| {
            let cause = Cause::Release { remaining_ms, since: now };
            let (key, token) = ((*b"k").into(), (*b"t").into());
            let mut deferred = Deferred::default();
            deferred.push(Debt::Rollback(Rollback { db: 0, key, token, cause }), now);
            !deferred.take(now + after).is_empty()
        };
        assert!(is_kept(64_000, 65 * SECOND - SECOND / 1_000) && !is_kept(64_000, 65 * SECOND));
        assert!(is_kept(-1, UNKNOWN_END - SECOND) && !is_kept(-1, UNKNOWN_END));
    }

    #[test]
    fn what_is_kept_is_bounded_by_its_bytes_too() {
        let now = clock::now();
        let large = |bytes: usize| {
            let cause = Cause::Claim { ttl_ms: 60_000, since: now, until: None, confirmed: true };
            let (key, token) = (vec![b'k'; bytes / 2].into(), vec![b't'; bytes / 2].into());
            Debt::Rollback(Rollback { db: 0, key, token, cause })
        };
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
        deferred.push(rollback(1_000, now), now);
        deferred.push(rollback(60_000, now), now);
        let later = now + Duration::from_secs(10);
        assert_eq!((deferred.count(now), deferred.count(later)), (2, 1));
        assert_eq!(deferred.take(later).len(), 1);
        assert_eq!(deferred.count(now), 0);
    }

    #[test]
    fn what_may_have_become_persistent_is_not_kept_for_later() {
        let now = clock::now();
        let (key, token) = ((*b"k").into(), (*b"t").into());
        let rollback = Rollback { db: 0, key, token, cause: Cause::Persisted };
        assert!(rollback.for_later(now).is_none(), "no TTL tells it from a younger lock");
    }

    fn change(left: &'static [u8], end_left_ms: i64) -> Change {
        let (db, key) = (bytes::Bytes::from_static(b"0"), bytes::Bytes::from_static(b"k"));
        let left = bytes::Bytes::from_static(left);
        Change { db, key, before: None, end_before_ms: -2, left, end_left_ms }
    }

    #[test]
    fn only_what_a_program_set_with_an_end_is_restored_later() {
        let unix_ms = 1_000_000;
        let soon = unix_ms + 10_000;
        let changes = [change(b"checksum", -1), change(b"", -2), change(b"checksum", soon)];
        let restore = Restore::later(&changes, unix_ms).expect("one of them");
        assert_eq!(restore.changes, [changes[2].clone()]);
        let left = restore.end - clock::now();
        assert!(left > 9 * SECOND && left <= 10 * SECOND, "{left:?}");
        assert!(Restore::later(&changes[..2], unix_ms).is_none());
    }

    #[test]
    fn what_is_kept_of_a_program_counts_with_its_keys_and_values() {
        let before = Some(bytes::Bytes::from_static(b"value before"));
        let change = Change { before, ..change(b"checksum", 10_000) };
        let restore = Restore::later(&[change.clone(), change], 0).expect("both");
        let debt = Debt::Restore(restore);
        assert_eq!((debt.bytes(), debt.db()), (2 * (1 + 12), 0));
    }

    #[test]
    fn every_debt_is_a_request() {
        let now = clock::now();
        let restore = Restore::later(&[change(b"checksum", 10_000)], 0).map(Debt::Restore);
        for debt in [rollback(1_000, now), restore.expect("it has an end")] {
            let mut request = Vec::new();
            debt.encode(Pad::new(SECOND, 0.01), now, Form::Sha, &mut request);
            assert!(request.starts_with(b"*") && request.ends_with(b"\r\n"));
            assert!(debt.for_later(now).is_some());
        }
    }

    #[test]
    fn a_thousand_years_can_be_deferred() {
        let now = clock::now();
        let mut deferred = Deferred::default();
        deferred.push(rollback(31_557_600_000_000, now), now);
        assert_eq!(deferred.take(now).len(), 1);
    }

    #[test]
    fn a_long_outage_keeps_a_bounded_number() {
        let now = clock::now();
        let mut deferred = Deferred::default();
        for _ in 0..MAX_DEFERRED + 3 {
            deferred.push(rollback(60_000, now), now);
        }
        assert_eq!((deferred.count(now), deferred.dropped()), (MAX_DEFERRED, 3));
    }

    #[test]
    fn what_has_expired_makes_room_and_is_not_missed() {
        let now = clock::now();
        let mut deferred = Deferred::default();
        for _ in 0..MAX_DEFERRED {
            deferred.push(rollback(1_000, now), now);
        }
        let later = now + Duration::from_secs(10);
        deferred.push(rollback(60_000, now), later);
        assert_eq!((deferred.count(later), deferred.dropped()), (1, 0));
    }
}
