//! Keys that are used as locks and that no pattern names, in bounded memory.
//!
//! They are grouped as [`learn`](crate::names::patterns) does it: names with one [`Skeleton`] are one pattern. Where
//! [`MANY`] patterns differ in one word only, that word becomes `*`. Unlike `learn`, the proxy does not know which
//! other names the patterns would match.

use std::collections::BTreeMap;

use super::Advice;
use crate::names::LONGEST_NAME;
use crate::names::patterns::{MANY, catches_pattern};
use crate::names::skeleton::Skeleton;
use crate::resp::glob;

/// Maximum patterns kept, for the status page.
pub const MOST_PATTERNS: usize = 64;

/// Maximum patterns logged since the start: nobody reads more lines of one kind.
pub const MOST_TOLD: usize = 16;

/// Maximum new names examined per second: an application whose names have nothing in common must not keep a worker
/// busy.
const NEW_NAMES_PER_SECOND: usize = 64;

/// Unnamed keys used as locks, grouped by pattern.
#[derive(Debug)]
pub struct Unguarded {
    kept: BTreeMap<Skeleton, Kept>,
    /// Names whose pattern would be nothing but `*`.
    nameless: Option<Kept>,
    /// Whether there were more than are kept.
    has_more: bool,
    is_more_told: bool,
    /// Number of patterns logged.
    told: usize,
    /// New names that may still be examined in this second.
    looks: usize,
}

#[derive(Debug)]
struct Kept {
    pattern: String,
    /// The first name of its kind.
    example: Box<[u8]>,
    /// Signs that it is a lock.
    signs: Vec<&'static str>,
    is_told: bool,
}

impl Default for Unguarded {
    fn default() -> Self {
        Self {
            kept: BTreeMap::new(),
            nameless: None,
            has_more: false,
            is_more_told: false,
            told: 0,
            looks: NEW_NAMES_PER_SECOND,
        }
    }
}

impl Unguarded {
    /// Notes that a key was used as a lock.
    pub fn see(&mut self, name: &[u8], sign: &'static str) {
        if name.len() > LONGEST_NAME {
            self.has_more = true;
            return;
        }
        let skeleton = Skeleton::of(name);
        if let Some(known) = self.known(&skeleton, name) {
            known.add_sign(sign);
        } else if self.looks > 0 {
            self.looks -= 1;
            self.keep(skeleton, Kept::new(name, sign));
        }
    }

    fn known(&mut self, skeleton: &Skeleton, name: &[u8]) -> Option<&mut Kept> {
        if !skeleton.says_something() {
            return self.nameless.as_mut();
        }
        if self.kept.contains_key(skeleton) {
            return self.kept.get_mut(skeleton);
        }
        self.kept.values_mut().find(|kept| kept.catches(name))
    }

    fn keep(&mut self, skeleton: Skeleton, new: Kept) {
        if !skeleton.says_something() {
            self.nameless = Some(new);
        } else if self.kept.len() >= MOST_PATTERNS {
            self.has_more = true;
        } else {
            self.put(skeleton, new);
        }
    }

    /// Adds a pattern, and merges others into it. Each step leaves fewer patterns than before.
    fn put(&mut self, skeleton: Skeleton, mut new: Kept) {
        new.pattern = skeleton.pattern();
        let Some((place, wider)) = self.wider(&skeleton) else {
            self.kept.insert(skeleton, new);
            return;
        };
        let pattern = wider.pattern();
        self.kept.retain(|other, kept| {
            let is_part = skeleton.differs_in_a_word(other) == Some(place);
            let is_caught = is_part || catches_pattern(&pattern, &kept.pattern);
            if is_caught {
                kept.signs.iter().for_each(|sign| new.add_sign(sign));
            }
            !is_caught
        });
        self.put(wider, new);
    }

    /// Returns the pattern that merges this one with others that differ in the same word, and that word's place.
    /// Prefers the last such word.
    fn wider(&self, skeleton: &Skeleton) -> Option<(usize, Skeleton)> {
        let places = self.kept.keys().filter_map(|other| skeleton.differs_in_a_word(other));
        let places: Vec<usize> = places.collect();
        let is_many = |at: &&usize| places.iter().filter(|other| other == at).count() + 1 >= MANY;
        let place = *places.iter().filter(is_many).max()?;
        let wider = skeleton.without_word(place)?;
        wider.says_something().then_some((place, wider))
    }

    /// Returns the hints not reported yet. Called once a second.
    pub fn tick(&mut self) -> Vec<Advice> {
        self.looks = NEW_NAMES_PER_SECOND;
        let kept = self.kept.values_mut().chain(&mut self.nameless);
        let mut untold = kept.filter(|kept| !kept.is_told);
        let mut news = Vec::new();
        for kept in untold.by_ref().take(MOST_TOLD - self.told) {
            kept.is_told = true;
            news.push(kept.advice());
        }
        let is_more = self.has_more || untold.next().is_some();
        self.told += news.len();
        if is_more && !self.is_more_told {
            self.is_more_told = true;
            news.push(Advice::More);
        }
        news
    }

    /// Returns hints for all that is kept.
    pub fn all(&self) -> Vec<Advice> {
        let kept = self.kept.values().chain(&self.nameless).map(Kept::advice);
        kept.chain(self.has_more.then_some(Advice::More)).collect()
    }

    /// Returns how many patterns are kept.
    pub fn len(&self) -> usize {
        self.kept.len() + usize::from(self.nameless.is_some())
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Kept {
    /// Returns an entry without a pattern: names without a word get none.
    fn new(name: &[u8], sign: &'static str) -> Self {
        Self { pattern: String::new(), example: name.into(), signs: vec![sign], is_told: false }
    }

    fn catches(&self, name: &[u8]) -> bool {
        glob::matches(self.pattern.as_bytes(), name, false)
    }

    fn add_sign(&mut self, sign: &'static str) {
        if !self.signs.contains(&sign) {
            self.signs.push(sign);
        }
    }

    fn advice(&self) -> Advice {
        let signs = self.signs.join(", ");
        if self.pattern.is_empty() {
            return Advice::Nameless { example: self.example.escape_ascii().to_string(), signs };
        }
        Advice::Unguarded { pattern: self.pattern.clone(), signs }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::skeleton::tests::word;

    fn patterns(unguarded: &Unguarded) -> Vec<String> {
        unguarded.kept.values().map(|kept| kept.pattern.clone()).collect()
    }

    fn seen(names: &[&str]) -> Unguarded {
        let mut unguarded = Unguarded::default();
        names.iter().for_each(|name| unguarded.see(name.as_bytes(), "SETNX"));
        unguarded
    }

    #[test]
    fn names_that_are_alike_are_one_pattern() {
        assert_eq!(patterns(&seen(&["job:1", "job:2", "mutex"])), ["job:*", "mutex"]);
        assert_eq!(patterns(&seen(&["job:a", "job:b"])), ["job:a", "job:b"]);
        assert_eq!(patterns(&seen(&["job:a", "job:b", "job:c", "job:d"])), ["job:*"]);
        assert_eq!(patterns(&seen(&["a:lock", "b:lock", "c:lock"])), ["*:lock"]);
        assert_eq!(patterns(&seen(&["a", "b", "c"])), ["a", "b", "c"], "no word would stay");
    }

    #[test]
    fn what_is_put_together_is_told_again_and_only_once() {
        let mut unguarded = seen(&["job:a", "job:b"]);
        assert_eq!((unguarded.tick().len(), unguarded.tick().len()), (2, 0));
        unguarded.see(b"job:c", "SET NX with a TTL");
        let signs = "SET NX with a TTL, SETNX".to_owned();
        assert_eq!(unguarded.tick(), [Advice::Unguarded { pattern: "job:*".into(), signs }]);
        unguarded.see(b"job:d", "SETNX");
        assert_eq!(unguarded.tick(), []);
    }

    #[test]
    fn names_without_a_word_have_no_pattern() {
        let mut unguarded = seen(&["1234", "12:34", ""]);
        let [Advice::Nameless { example, .. }] = &unguarded.tick()[..] else {
            panic!("{unguarded:?}")
        };
        assert_eq!(example, "1234");
        unguarded.see(b"job:1", "SETNX");
        assert_eq!(patterns(&unguarded), ["job:*"]);
    }

    #[test]
    fn neither_memory_nor_the_log_is_filled() {
        let mut unguarded = Unguarded::default();
        let mut news = Vec::new();
        for number in 0..10_000 {
            unguarded.see(word(number).as_bytes(), "SETNX");
            if number % 10 == 0 {
                news.extend(unguarded.tick());
            }
        }
        assert_eq!(unguarded.len(), MOST_PATTERNS);
        assert_eq!(news.len(), MOST_TOLD + 1);
        assert_eq!(news.iter().filter(|news| **news == Advice::More).count(), 1);
        assert_eq!(unguarded.all().len(), MOST_PATTERNS + 1);
    }

    #[test]
    fn only_some_new_names_are_looked_at_in_a_second() {
        let mut unguarded = Unguarded::default();
        let see = |unguarded: &mut Unguarded| {
            for number in 0..NEW_NAMES_PER_SECOND {
                unguarded.see(format!("{0}:{0}", word(number)).as_bytes(), "SETNX");
            }
            unguarded.see(b"other", "SETNX");
        };
        see(&mut unguarded);
        assert!(!unguarded.kept.contains_key(&Skeleton::of(b"other")));
        assert_eq!(unguarded.looks, 0);
    }

    proptest! {
        #[test]
        fn every_name_is_caught_while_there_is_room(
            names in proptest::collection::vec("[a-c]{1,2}(:[a-c0-2]{1,2}){0,2}", 0..40),
        ) {
            let mut unguarded = Unguarded::default();
            for name in &names {
                unguarded.see(name.as_bytes(), "SETNX");
                prop_assert!(unguarded.kept.values().any(|kept| kept.catches(name.as_bytes())));
            }
            for name in &names {
                prop_assert!(unguarded.kept.values().any(|kept| kept.catches(name.as_bytes())));
            }
            for (skeleton, kept) in &unguarded.kept {
                prop_assert!(skeleton.says_something());
                prop_assert_eq!(skeleton.pattern(), &kept.pattern[..]);
            }
        }

        #[test]
        fn any_bytes_may_be_a_name(
            names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..200),
        ) {
            let mut unguarded = Unguarded::default();
            for name in &names {
                unguarded.see(name, "SETNX");
                prop_assert!(unguarded.kept.len() <= MOST_PATTERNS);
            }
            for advice in unguarded.all() {
                prop_assert!(!advice.to_string().contains(char::is_control), "{}", advice);
            }
        }
    }
}
