//! Whether a key or channel belongs to a lock, judging by its name.
//!
//! Libraries derive further names from a lock's name: `lock:a` and `lock-signal:a`, `a` and `a:wait`, `lock:a` and
//! `redisson_lock_queue:{lock:a}`.

use std::collections::BTreeSet;

use super::Name;
use super::lock_names::hash_tag;

/// Whether `other`, which was named together with `lock`, is derived from its name. It may begin or end with the lock's
/// name, or have it in a hash tag. It may also end like the lock's name does after its first word.
pub fn is_made_of(lock: &[u8], other: &[u8]) -> bool {
    let rest = rest_of(lock);
    !lock.is_empty()
        && (belongs_by_tag(lock, other)
            || prefixes(other).any(|it| it == lock)
            || suffixes(other).any(|it| it == lock || Some(it) == rest))
}

/// Whether the proxy counts `other` as part of this lock.
pub fn belongs_by_tag(lock: &[u8], other: &[u8]) -> bool {
    hash_tag(other).is_some_and(|tag| tag == lock || Some(tag) == hash_tag(lock))
}

/// Lock names, indexed to find the locks that a channel belongs to.
#[derive(Debug, Default)]
pub struct Kinship<'a> {
    names: BTreeSet<&'a [u8]>,
    rests: BTreeSet<&'a [u8]>,
}

impl<'a> Kinship<'a> {
    /// Indexes the names of these locks.
    pub fn of(locks: impl IntoIterator<Item = &'a Name>) -> Self {
        let names: BTreeSet<&[u8]> = locks.into_iter().map(|name| &**name).collect();
        let rests = names.iter().filter_map(|name| rest_of(name)).collect();
        Self { names, rests }
    }

    /// Whether a channel, which is never named together with a lock, belongs to one. It must contain the whole name,
    /// or state that it is about locks.
    pub fn has_channel(&self, channel: &[u8]) -> bool {
        let has_whole =
            prefixes(channel).chain(suffixes(channel)).any(|it| self.names.contains(it));
        let has_rest = || suffixes(channel).any(|it| self.rests.contains(it));
        has_whole || says_lock(channel) && has_rest()
    }
}

fn says_lock(channel: &[u8]) -> bool {
    let text = channel.to_ascii_lowercase();
    let says = |word: &[u8]| text.windows(word.len()).any(|it| it == word);
    says(b"lock") || says(b"mutex") || says(b"release") || says(b"semaphore")
}

/// Returns the part of a name after its first word and the byte that follows it.
fn rest_of(name: &[u8]) -> Option<&[u8]> {
    let first = name.iter().position(|byte| is_border(*byte))?;
    name.get(first + 1..).filter(|rest| !rest.is_empty())
}

/// Returns proper prefixes that end before a character other than a letter or digit.
fn prefixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    (1..name.len()).filter(|at| is_border(name[*at])).map(|at| &name[..at])
}

/// Returns proper suffixes that begin after a character other than a letter or digit.
fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    (1..name.len()).filter(|at| is_border(name[*at - 1])).map(|at| &name[at..])
}

fn is_border(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && byte < 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_make_names_of_the_name_of_a_lock() {
        for (lock, other, is_kin) in [
            ("lock:a", "lock-signal:a", true),
            ("a", "a:wait", true),
            ("a", "wait:a", true),
            ("lock:a", "redisson_lock_queue:{lock:a}", true),
            ("{x}lock", "{x}queue", true),
            ("lock:a", "page:b", false),
            ("lock:a", "page:ba", false),
            ("a", "ab", false),
            ("lock:a", "lock", false),
            ("", "x", false),
        ] {
            assert_eq!(is_made_of(lock.as_bytes(), other.as_bytes()), is_kin, "{lock} {other}");
        }
    }

    #[test]
    fn a_channel_must_say_more_to_belong_to_a_lock() {
        let locks: Vec<Name> = vec![b"lock:orders"[..].into()];
        let kinship = Kinship::of(&locks);
        for (channel, is_kin) in [
            ("lock-released:orders", true),
            ("free:lock:orders", true),
            ("lock:orders:free", true),
            ("events:orders", false),
            ("lock", false),
        ] {
            assert_eq!(kinship.has_channel(channel.as_bytes()), is_kin, "{channel}");
        }
    }
}
