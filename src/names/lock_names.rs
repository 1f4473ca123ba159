//! Decides which names are locks.

use crate::catalogue::channel::{Topic, TopicKind};
use crate::resp::glob;

/// Patterns for the keys and channels that belong to locks. All others are data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockNames {
    /// Patterns for keys.
    pub keys: Vec<Box<[u8]>>,
    /// Patterns for channels.
    pub channels: Vec<Box<[u8]>>,
}

/// Servers on which a topic is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// All masters.
    Masters,
    /// The data Redis.
    Data,
    /// Both, because a pattern may match channels of either kind.
    Both,
}

impl LockNames {
    /// Returns the servers on which a topic is heard.
    pub fn home(&self, topic: &Topic) -> Home {
        let has_any = !self.keys.is_empty() || !self.channels.is_empty();
        match topic.kind {
            TopicKind::Pattern if has_any => Home::Both,
            TopicKind::Pattern => Home::Data,
            TopicKind::Channel | TopicKind::Shard if self.has_channel(&topic.name) => Home::Masters,
            TopicKind::Channel | TopicKind::Shard => Home::Data,
        }
    }

    /// Whether a key belongs to a lock.
    pub fn has_key(&self, key: &[u8]) -> bool {
        is_one_of(&self.keys, key)
    }

    /// Whether a channel belongs to a lock. A channel whose hash tag is a lock's key always does, whatever the channel
    /// patterns are: Redisson's `redisson_lock__channel:{name}` is among the keys of its scripts.
    pub fn has_channel(&self, channel: &[u8]) -> bool {
        is_one_of(&self.channels, channel)
            || hash_tag(channel).is_some_and(|tag| matches_any(&self.keys, tag))
    }
}

/// Whether a name, or its hash tag, matches a pattern. A name with a lock's name as its hash tag belongs to that lock.
fn is_one_of(patterns: &[Box<[u8]>], name: &[u8]) -> bool {
    matches_any(patterns, name) || hash_tag(name).is_some_and(|tag| matches_any(patterns, tag))
}

fn matches_any(patterns: &[Box<[u8]>], name: &[u8]) -> bool {
    patterns.iter().any(|pattern| glob::matches(pattern, name, false))
}

/// Returns the non-empty text between the first `{` and the next `}` (`keyHashSlot` in Redis's `cluster.c`).
pub fn hash_tag(name: &[u8]) -> Option<&[u8]> {
    let open = name.iter().position(|byte| *byte == b'{')?;
    let rest = &name[open + 1..];
    let close = rest.iter().position(|byte| *byte == b'}')?;
    Some(&rest[..close]).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(keys: &[&str], channels: &[&str]) -> LockNames {
        let all = |patterns: &[&str]| patterns.iter().map(|it| it.as_bytes().into()).collect();
        LockNames { keys: all(keys), channels: all(channels) }
    }

    #[test]
    fn a_pattern_names_keys_by_their_whole_name() {
        let names = names(&["lock:*", "mutex"], &[]);
        assert!(names.has_key(b"lock:a") && names.has_key(b"mutex"));
        assert!(!names.has_key(b"locks") && !names.has_key(b"mutex2") && !names.has_key(b""));
    }

    #[test]
    fn a_hash_tag_belongs_where_its_name_belongs() {
        let names = names(&["lock:*"], &[]);
        assert!(names.has_key(b"redisson_lock_timeout:{lock:a}"));
        assert!(names.has_channel(b"redisson_lock__channel:{lock:a}"));
        assert!(names.has_key(b"lock:{a}"), "its own name is one");
        for other in [&b"x:{y}"[..], b"x:{}lock:a", b"x:{lock:a", b"{y}{lock:a}"] {
            assert!(!names.has_key(other) && !names.has_channel(other), "{other:?}");
        }
    }

    #[test]
    fn channels_have_patterns_of_their_own() {
        let names = names(&["lock:*"], &["released:*"]);
        assert!(names.has_channel(b"released:a") && !names.has_channel(b"lock:a"));
        assert!(!names.has_key(b"released:a"));
    }
}
