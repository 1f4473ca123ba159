//! Hints for the operator about the patterns in `--lock-keys` and `--lock-channels`, from the traffic. No decision
//! depends on them.
//!
//! * A pattern that has matched nothing during an hour of traffic may be misspelled ([`unmatched`]).
//! * A key that is used as a lock, and that no pattern names, is on one Redis only ([`unguarded`], `scripts`).
//!
//! Workers note what they see, and the [watch](super::watch) collects the hints once a second. Memory is bounded, and
//! so is a worker's effort for one request.

pub mod meaning;
mod scripts;
pub mod unguarded;
pub mod unmatched;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scripts::{LockScripts, Use};
use unguarded::Unguarded;
use unmatched::Unmatched;

use crate::names::lock_names::LockNames;

/// Observations of all workers since the start.
#[derive(Debug, Default)]
pub struct Notes {
    unmatched: Unmatched,
    /// Whether requests have been routed since the last tick.
    has_traffic: AtomicBool,
    unguarded: Mutex<Unguarded>,
    claims: AtomicU64,
    scripts: LockScripts,
}

/// A hint for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Advice {
    #[error(
        "no key has matched `{pattern}` of --lock-keys during {after} of traffic: correct it, if such locks should have been taken by now"
    )]
    UnmatchedKeys { pattern: String, after: String },
    #[error(
        "no channel has matched `{pattern}` of --lock-channels during {after} of traffic: correct it, if such channels should have been used by now"
    )]
    UnmatchedChannels { pattern: String, after: String },
    #[error(
        "keys like `{pattern}` are used as locks ({signs}), on one Redis only: name them with --lock-keys, if they are locks"
    )]
    Unguarded { pattern: String, signs: String },
    #[error(
        "keys such as `{example}` are used as locks ({signs}), on one Redis only, and have no word that a pattern could name: give them a prefix, and name it with --lock-keys, if they are locks"
    )]
    Nameless { example: String, signs: String },
    #[error(
        "more keys are used as locks, on one Redis only: see all of them with redlock-proxy learn"
    )]
    More,
}

impl Notes {
    /// Returns empty notes. A pattern may match nothing for `after` of traffic; zero: for ever.
    pub fn new(locks: &LockNames, after: Duration) -> Self {
        Self { unmatched: Unmatched::new(locks, after), ..Self::default() }
    }

    /// Notes a request with keys or channels, or one about the keyspace.
    #[inline]
    pub fn traffic(&self) {
        // Workers share the cache line as long as none of them writes.
        if !self.has_traffic.load(Ordering::Relaxed) {
            self.has_traffic.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the patterns that have not matched yet; `None`: all have, so names need no check.
    #[inline]
    pub fn awaited(&self) -> Option<&Unmatched> {
        self.unmatched.is_awaiting().then_some(&self.unmatched)
    }

    /// Returns the scripts that clients send to the data Redis, and their meaning for locks.
    pub fn scripts(&self) -> &LockScripts {
        &self.scripts
    }

    /// Notes that a key without a pattern was used as a lock, according to `sign`.
    pub fn claimed(&self, key: &[u8], sign: &'static str) {
        self.claims.fetch_add(1, Ordering::Relaxed);
        self.unguarded().see(key, sign);
    }

    /// Notes that a script was called with these keys, which no pattern names.
    pub fn ran(&self, script: Use, keys: &[&[u8]]) {
        let count = if script.is_of_all_keys { keys.len() } else { 1 };
        for key in keys.iter().take(count) {
            self.claimed(key, script.kind.title());
        }
    }

    /// Returns the hints not reported yet. Called once a second.
    pub fn tick(&self) -> Vec<Advice> {
        let has_traffic = self.has_traffic.swap(false, Ordering::Relaxed);
        let mut news = self.unmatched.tick(has_traffic);
        news.extend(self.unguarded().tick());
        news
    }

    /// Returns all current hints, reported or not.
    pub fn all(&self) -> Vec<Advice> {
        let mut all = self.unmatched.overdue();
        all.extend(self.unguarded().all());
        all
    }

    /// Returns how many patterns have matched nothing for too long.
    pub fn unmatched_patterns(&self) -> usize {
        self.unmatched.overdue().len()
    }

    /// Returns how many kinds of keys are used as locks without being named. The number is bounded.
    pub fn unguarded_patterns(&self) -> usize {
        self.unguarded().len()
    }

    /// Returns how often such a key was used as a lock.
    pub fn unguarded_claims(&self) -> u64 {
        self.claims.load(Ordering::Relaxed)
    }

    /// Locks the notes on unguarded keys. Nothing under this lock panics.
    fn unguarded(&self) -> MutexGuard<'_, Unguarded> {
        self.unguarded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_told_once_and_stays_to_be_seen() {
        let locks = LockNames { keys: vec![b"lokc:*"[..].into()], channels: Vec::new() };
        let notes = Notes::new(&locks, Duration::from_secs(2));
        notes.claimed(b"job:1", "SETNX");
        let unguarded = [Advice::Unguarded { pattern: "job:*".into(), signs: "SETNX".into() }];
        assert_eq!(notes.tick(), unguarded);
        notes.traffic();
        assert_eq!(notes.tick(), []);
        notes.traffic();
        let unmatched = [Advice::UnmatchedKeys { pattern: "lokc:*".into(), after: "2s".into() }];
        assert_eq!(notes.tick(), unmatched);
        notes.traffic();
        notes.claimed(b"job:2", "SETNX");
        assert_eq!(notes.tick(), []);
        assert_eq!(notes.all(), [unmatched, unguarded].concat());
        assert_eq!((notes.unmatched_patterns(), notes.unguarded_patterns()), (1, 1));
        assert_eq!(notes.unguarded_claims(), 2);
    }

    #[test]
    fn a_script_is_about_its_first_key_unless_it_goes_through_all() {
        for (is_of_all_keys, expected) in [(false, 1), (true, 2)] {
            let notes = Notes::default();
            let script = Use { kind: crate::names::kind::LockSign::ReleaseScript, is_of_all_keys };
            notes.ran(script, &[b"job", b"other"]);
            notes.ran(script, &[]);
            assert_eq!(notes.unguarded_patterns(), expected);
        }
    }
}
