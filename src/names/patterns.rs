//! Derives from lock names the fewest patterns that catch them all, but no name that is only data.
//!
//! # The rule
//! 1. Names that share a [`Skeleton`] form one pattern.
//! 2. Where [`MANY`] patterns differ in only one word, that word becomes `*`.
//! 3. Where [`MANY`] of the remaining patterns begin with the same word and the same byte after it, everything that
//!    follows becomes `*`.
//!
//! A step is skipped if it would catch a data name or leave no letter. If the first step is skipped, the names are
//! listed literally. As in the proxy, a pattern catches a whole name or its hash tag.

use std::collections::{BTreeMap, BTreeSet};

use super::lock_names::LockNames;
use super::skeleton::{Part, Skeleton};
use crate::resp::glob;

/// Number of different words in one position from which the position counts as variable.
pub const MANY: usize = 3;

/// Maximum names listed literally where no pattern applies. More would be too many for a list of settings.
pub const MOST_LISTED: usize = 64;

/// Patterns that catch the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockPatterns {
    /// The patterns in the form of `--lock-keys`, sorted.
    pub all: Vec<String>,
    /// Lock names too similar to data for a pattern and too many to list.
    pub left_out: Vec<Box<[u8]>>,
    /// Data names that are caught nevertheless, by their hash tag or because two names look the same in a pattern.
    pub caught: Vec<Box<[u8]>>,
}

/// Returns the patterns of `locks` that catch none of `data`.
pub fn of(locks: &BTreeSet<Box<[u8]>>, data: &[&[u8]]) -> LockPatterns {
    let mut by_skeleton: BTreeMap<Skeleton, Vec<&[u8]>> = BTreeMap::new();
    for name in locks {
        by_skeleton.entry(Skeleton::of(name)).or_default().push(name);
    }
    let (mut skeletons, mut patterns) = (BTreeSet::new(), LockPatterns::default());
    for (skeleton, names) in by_skeleton {
        // A name that does not vary catches itself. An empty one cannot be named in the settings.
        if names == [b""] {
            patterns.left_out.push(Box::default());
            continue;
        }
        if !skeleton.varies() || is_allowed(&skeleton, data) {
            skeletons.insert(skeleton);
            continue;
        }
        let listed = names.len().min(MOST_LISTED);
        skeletons.extend(names[..listed].iter().map(|name| Skeleton::exactly(name)));
        patterns.left_out.extend(names[listed..].iter().map(|name| Box::from(*name)));
    }
    merge_words(&mut skeletons, data);
    merge_beginnings(&mut skeletons, data);
    patterns.all = without_the_caught(&skeletons);
    let settings = lock_names(&patterns.all);
    let caught = data.iter().filter(|name| settings.has_key(name) && !locks.contains(**name));
    patterns.caught = caught.map(|name| Box::from(*name)).collect();
    patterns
}

/// Returns the lock names that a proxy derives from these patterns.
pub fn lock_names(patterns: &[String]) -> LockNames {
    let keys = patterns.iter().map(|pattern| pattern.as_bytes().into()).collect();
    LockNames { keys, channels: Vec::new() }
}

fn is_allowed(skeleton: &Skeleton, data: &[&[u8]]) -> bool {
    let settings = lock_names(&[skeleton.pattern()]);
    skeleton.says_something() && !data.iter().any(|name| settings.has_key(name))
}

/// Merges words that vary, starting with the last, because names mostly go from the general to the specific.
fn merge_words(skeletons: &mut BTreeSet<Skeleton>, data: &[&[u8]]) {
    let longest = skeletons.iter().map(|it| it.parts().len()).max().unwrap_or(0);
    for at in (0..longest).rev() {
        let mut alike: BTreeMap<Skeleton, Vec<Skeleton>> = BTreeMap::new();
        for skeleton in skeletons.iter() {
            if let Some(merged) = skeleton.without_word(at) {
                alike.entry(merged).or_default().push(skeleton.clone());
            }
        }
        for (merged, parts) in alike {
            if parts.len() >= MANY && is_allowed(&merged, data) {
                replace(skeletons, &parts, merged);
            }
        }
    }
}

fn merge_beginnings(skeletons: &mut BTreeSet<Skeleton>, data: &[&[u8]]) {
    let mut alike: BTreeMap<Skeleton, Vec<Skeleton>> = BTreeMap::new();
    for skeleton in skeletons.iter() {
        if let [word @ Part::Word(_), between @ Part::Between(_), ..] = skeleton.parts() {
            let merged = Skeleton::from_parts(vec![word.clone(), between.clone(), Part::Any]);
            alike.entry(merged).or_default().push(skeleton.clone());
        }
    }
    for (merged, parts) in alike {
        if parts.len() >= MANY && is_allowed(&merged, data) {
            replace(skeletons, &parts, merged);
        }
    }
}

fn replace(skeletons: &mut BTreeSet<Skeleton>, parts: &[Skeleton], by: Skeleton) {
    skeletons.retain(|it| !parts.contains(it));
    skeletons.insert(by);
}

/// Drops patterns that another pattern matches as if they were names, because they catch nothing more.
fn without_the_caught(skeletons: &BTreeSet<Skeleton>) -> Vec<String> {
    let all: BTreeSet<String> = skeletons.iter().map(Skeleton::pattern).collect();
    let varies: BTreeSet<String> =
        skeletons.iter().filter(|it| it.varies()).map(Skeleton::pattern).collect();
    let is_caught = |pattern: &String| {
        let mut others = varies.iter().filter(|other| *other != pattern);
        others.any(|other| catches_pattern(other, pattern))
    };
    all.iter().filter(|pattern| !is_caught(pattern)).cloned().collect()
}

/// Whether a pattern obviously catches everything that another one catches.
pub fn catches_pattern(pattern: &str, other: &str) -> bool {
    // A character with a special meaning in a pattern is not the same as in a name.
    let are_plain = ![pattern, other].iter().any(|it| it.contains(['\\', '?']));
    are_plain && glob::matches(pattern.as_bytes(), other.as_bytes(), false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(locks: &[&str], data: &[&str]) -> LockPatterns {
        let data: Vec<&[u8]> = data.iter().map(|name| name.as_bytes()).collect();
        of(&locks.iter().map(|name| name.as_bytes().into()).collect(), &data)
    }

    #[track_caller]
    fn assert_patterns(locks: &[&str], data: &[&str], expected: &[&str]) {
        let found = found(locks, data);
        assert_eq!(found.all, expected);
        assert!(found.left_out.is_empty() && found.caught.is_empty(), "{found:?}");
    }

    #[test]
    fn numbers_and_many_words_become_stars() {
        assert_patterns(&["lock:1", "lock:2"], &[], &["lock:*"]);
        assert_patterns(&["lock:a", "lock:b"], &[], &["lock:a", "lock:b"]);
        assert_patterns(&["lock:a", "lock:b", "lock:c"], &[], &["lock:*"]);
        assert_patterns(&["a:lock", "b:lock", "c:lock"], &[], &["*:lock"]);
        assert_patterns(&["lock:a", "lock:b:1", "lock:c:d:e"], &[], &["lock:*"]);
        assert_patterns(&["alpha", "beta", "gamma"], &[], &["alpha", "beta", "gamma"]);
        assert_patterns(&["lock:1", "lock:a:b"], &[], &["lock:*"]);
    }

    #[test]
    fn nothing_catches_data() {
        assert_patterns(&["app:a", "app:b", "app:c"], &["app:d"], &["app:a", "app:b", "app:c"]);
        assert_patterns(&["app:1", "app:2"], &["app:3"], &["app:1", "app:2"]);
        assert_patterns(&["app:a", "app:b", "app:c"], &["x:{app:d}"], &["app:a", "app:b", "app:c"]);
        assert_patterns(&["app:a", "app:b", "app:c"], &["page:1"], &["app:*"]);
    }

    #[test]
    fn no_pattern_catches_everything() {
        assert_patterns(&["1", "2", "3"], &[], &["1", "2", "3"]);
        assert_patterns(&["1:a", "2:b"], &[], &["*:a", "*:b"]);
    }

    #[test]
    fn what_cannot_be_kept_apart_is_said() {
        let same = found(&["lock:a"], &["cart:{lock:a}"]);
        assert_eq!(same.caught, [Box::from(&b"cart:{lock:a}"[..])]);
        let many: Vec<String> = (0..100).map(|number| format!("k:{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let too_many = found(&many[..99], &many[99..]);
        assert_eq!((too_many.all.len(), too_many.left_out.len()), (MOST_LISTED, 99 - MOST_LISTED));
    }

    fn name() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            "[abc]{1,2}".prop_map(String::into_bytes),
            "[0-9]{1,3}".prop_map(String::into_bytes),
            Just(b"lock".to_vec()),
            Just(b"{lock:a}".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..3),
        ];
        proptest::collection::vec(word, 1..4).prop_map(|words| words.join(&b':'))
    }

    fn names() -> impl Strategy<Value = BTreeSet<Box<[u8]>>> {
        proptest::collection::btree_set(name().prop_map(Vec::into_boxed_slice), 0..40)
    }

    proptest! {
        #[test]
        fn every_lock_is_caught_and_no_data_unless_it_is_said(locks in names(), data in names()) {
            let data: Vec<&[u8]> =
                data.iter().filter(|name| !locks.contains(*name)).map(|name| &**name).collect();
            let found = of(&locks, &data);
            let settings = lock_names(&found.all);
            for lock in locks.iter().filter(|lock| !found.left_out.contains(lock)) {
                prop_assert!(settings.has_key(lock), "{}", lock.escape_ascii());
            }
            for name in data {
                prop_assert_eq!(settings.has_key(name), found.caught.contains(&Box::from(name)));
            }
        }

        /// Only names with unusual bytes or hash tags can be caught nevertheless.
        #[test]
        fn plain_data_is_never_caught(
            locks in proptest::collection::btree_set("[a-c]{1,2}(:[a-c0-2]{1,2}){0,2}", 0..40),
            data in proptest::collection::btree_set("[a-c]{1,2}(:[a-c0-2]{1,2}){0,2}", 0..40),
        ) {
            let locks: BTreeSet<Box<[u8]>> = locks.iter().map(|it| it.as_bytes().into()).collect();
            let data: Vec<&[u8]> =
                data.iter().map(|it| it.as_bytes()).filter(|it| !locks.contains(*it)).collect();
            let found = of(&locks, &data);
            let settings = lock_names(&found.all);
            prop_assert!(!data.iter().any(|name| settings.has_key(name)));
            prop_assert!(locks.iter().all(|name| settings.has_key(name)));
        }
    }
}
