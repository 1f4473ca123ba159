//! Patterns that have matched nothing yet.
//!
//! Usually every pattern matches within seconds, and then names are no longer examined. Only seconds with at least one
//! request count as time, so a quiet night does not lead to warnings in the morning.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::Advice;
use crate::names::lock_names::{LockNames, hash_tag};
use crate::resp::glob;

/// Maximum names examined per request: more of them are alike.
const NAMES_OF_A_REQUEST: usize = 64;

/// Patterns, and whether each has matched.
#[derive(Debug, Default)]
pub struct Unmatched {
    patterns: Vec<Pattern>,
    /// Number of patterns that have not matched.
    awaited: AtomicUsize,
    /// Seconds with traffic since the start.
    seconds: AtomicU64,
    /// Traffic after which a pattern is reported; zero: never.
    after: Duration,
}

#[derive(Debug)]
struct Pattern {
    glob: Box<[u8]>,
    is_of_channels: bool,
    has_matched: AtomicBool,
    is_told: AtomicBool,
}

impl Unmatched {
    /// Returns these patterns, none of which has matched.
    pub fn new(locks: &LockNames, after: Duration) -> Self {
        let mut all: Vec<(&[u8], bool)> = Vec::new();
        let keys = locks.keys.iter().map(|glob| (&**glob, false));
        for pattern in keys.chain(locks.channels.iter().map(|glob| (&**glob, true))) {
            if !all.contains(&pattern) {
                all.push(pattern);
            }
        }
        let new = |(glob, is_of_channels): (&[u8], bool)| Pattern {
            glob: glob.into(),
            is_of_channels,
            has_matched: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
        };
        let patterns: Vec<_> = all.into_iter().map(new).collect();
        let awaited = AtomicUsize::new(if after.is_zero() { 0 } else { patterns.len() });
        Self { patterns, awaited, seconds: AtomicU64::new(0), after }
    }

    /// Whether a pattern has not matched yet, and is to be reported.
    #[inline]
    pub fn is_awaiting(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    /// Notes that a request named these keys.
    pub fn see_keys<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) {
        self.see(keys, |pattern, key| !pattern.is_of_channels && pattern.matches(key));
    }

    /// Notes that a request named these channels.
    pub fn see_channels<'a>(&self, channels: impl IntoIterator<Item = &'a [u8]>) {
        self.see(channels, |pattern, channel| match pattern.is_of_channels {
            true => pattern.matches(channel),
            false => hash_tag(channel).is_some_and(|tag| pattern.matches(tag)),
        });
    }

    /// Marks every pattern that matches: a name that one of them matched may have been meant for another one, too.
    fn see<'a>(
        &self,
        names: impl IntoIterator<Item = &'a [u8]>,
        matches: impl Fn(&Pattern, &[u8]) -> bool,
    ) {
        for name in names.into_iter().take(NAMES_OF_A_REQUEST) {
            let awaited = self.patterns.iter().filter(|pattern| !pattern.has_matched());
            for pattern in awaited.filter(|pattern| matches(pattern, name)) {
                if !pattern.has_matched.swap(true, Ordering::Relaxed) {
                    self.awaited.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns the patterns to report now. Called once a second.
    pub fn tick(&self, has_traffic: bool) -> Vec<Advice> {
        self.seconds.fetch_add(u64::from(has_traffic), Ordering::Relaxed);
        let news = |pattern: &&Pattern| !pattern.is_told.swap(true, Ordering::Relaxed);
        self.late().filter(news).map(|pattern| self.advice(pattern)).collect()
    }

    /// Returns the patterns that have matched nothing for too long.
    pub fn overdue(&self) -> Vec<Advice> {
        self.late().map(|pattern| self.advice(pattern)).collect()
    }

    fn late(&self) -> impl Iterator<Item = &Pattern> {
        let seconds = Duration::from_secs(self.seconds.load(Ordering::Relaxed));
        let is_time = self.is_awaiting() && seconds >= self.after;
        self.patterns.iter().filter(move |pattern| is_time && !pattern.has_matched())
    }

    fn advice(&self, pattern: &Pattern) -> Advice {
        let after = humantime::format_duration(self.after).to_string();
        let glob = String::from_utf8_lossy(&pattern.glob).into_owned();
        match pattern.is_of_channels {
            true => Advice::UnmatchedChannels { pattern: glob, after },
            false => Advice::UnmatchedKeys { pattern: glob, after },
        }
    }
}

impl Pattern {
    fn has_matched(&self) -> bool {
        self.has_matched.load(Ordering::Relaxed)
    }

    /// Matches as [`LockNames`] does: the whole name, or its hash tag.
    fn matches(&self, name: &[u8]) -> bool {
        let matches = |name: &[u8]| glob::matches(&self.glob, name, false);
        matches(name) || hash_tag(name).is_some_and(matches)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn names(keys: &[&str], channels: &[&str]) -> LockNames {
        let all = |patterns: &[&str]| patterns.iter().map(|it| it.as_bytes().into()).collect();
        LockNames { keys: all(keys), channels: all(channels) }
    }

    fn told(advice: &[Advice]) -> Vec<&str> {
        advice.iter().map(pattern_of).collect()
    }

    fn pattern_of(advice: &Advice) -> &str {
        match advice {
            Advice::UnmatchedKeys { pattern, .. } | Advice::UnmatchedChannels { pattern, .. } => {
                pattern
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn only_seconds_with_traffic_count() {
        let unmatched = Unmatched::new(&names(&["a:*"], &["b:*"]), HOUR);
        for _ in 0..10_000 {
            assert_eq!(unmatched.tick(false), []);
        }
        for second in 1..3600 {
            assert_eq!(unmatched.tick(true), [], "second {second}");
        }
        assert!(unmatched.overdue().is_empty());
        assert_eq!(told(&unmatched.tick(true)), ["a:*", "b:*"]);
        assert_eq!(unmatched.tick(true), []);
        assert_eq!(told(&unmatched.overdue()), ["a:*", "b:*"]);
        unmatched.see_keys([&b"a:1"[..]]);
        assert_eq!(told(&unmatched.overdue()), ["b:*"]);
        assert!(unmatched.is_awaiting());
        unmatched.see_channels([&b"b:1"[..]]);
        assert!(unmatched.overdue().is_empty() && !unmatched.is_awaiting());
    }

    #[test]
    fn a_pattern_matches_what_another_one_matches_too() {
        let unmatched = Unmatched::new(&names(&["*", "lock:*", "lock:a", "lock:a"], &[]), HOUR);
        unmatched.see_keys([&b"lock:a"[..]]);
        assert!(!unmatched.is_awaiting());
    }

    #[test]
    fn nobody_is_told_of_anything_after_no_time() {
        let unmatched = Unmatched::new(&names(&["a"], &[]), Duration::ZERO);
        assert!(!unmatched.is_awaiting());
        assert_eq!(unmatched.tick(true), []);
    }

    proptest! {
        /// A name that is routed to the masters is a match, and no other name is.
        #[test]
        fn a_name_that_is_a_lock_matches_one_pattern_at_least(
            keys in proptest::collection::vec("[ab*]{0,3}", 0..4),
            channels in proptest::collection::vec("[ab*]{0,3}", 0..4),
            name in "[ab{}]{0,6}",
            is_channel: bool,
        ) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
            let locks = names(&keys, &channels);
            let unmatched = Unmatched::new(&locks, HOUR);
            let before = unmatched.awaited.load(Ordering::Relaxed);
            let is_lock = if is_channel {
                unmatched.see_channels([name.as_bytes()]);
                locks.has_channel(name.as_bytes())
            } else {
                unmatched.see_keys([name.as_bytes()]);
                locks.has_key(name.as_bytes())
            };
            let after = unmatched.awaited.load(Ordering::Relaxed);
            prop_assert_eq!(after < before, is_lock);
        }
    }
}
