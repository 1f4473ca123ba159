//! Keys or channels that a user may access.

use crate::resp::glob;

/// Glob patterns. A word that matches any of them is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patterns {
    /// All words.
    All,
    /// Words that match these patterns, in the order of the rules.
    Some(Vec<Box<[u8]>>),
}

impl Patterns {
    /// No words.
    pub const NONE: Self = Self::Some(Vec::new());

    /// Whether every word is allowed.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Whether this key or channel is allowed.
    pub fn allow(&self, word: &[u8]) -> bool {
        self.any(|pattern| glob::matches(pattern, word, false))
    }

    /// Whether a subscription to all channels that match `pattern` is allowed, which requires the very same pattern
    /// here (`ACLCheckChannelAgainstList` in Redis's `acl.c`).
    pub fn allow_pattern(&self, pattern: &[u8]) -> bool {
        self.any(|own| own == pattern)
    }

    fn any(&self, is_meant: impl Fn(&[u8]) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::Some(patterns) => patterns.iter().any(|pattern| is_meant(pattern)),
        }
    }

    /// Adds a pattern. Returns false if every word is already allowed.
    #[must_use]
    pub(super) fn add(&mut self, pattern: &[u8]) -> bool {
        match self {
            _ if pattern == b"*" => *self = Self::All,
            Self::All => return false,
            Self::Some(patterns) if patterns.iter().any(|known| **known == *pattern) => {}
            Self::Some(patterns) => patterns.push(pattern.into()),
        }
        true
    }

    /// Returns the patterns in the form of rules, each with a leading `sign`.
    pub fn described(&self, sign: u8) -> Vec<Vec<u8>> {
        let rule = |pattern: &[u8]| [&[sign][..], pattern].concat();
        match self {
            Self::All => vec![rule(b"*")],
            Self::Some(patterns) => patterns.iter().map(|pattern| rule(pattern)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pattern_is_enough() {
        let mut patterns = Patterns::NONE;
        assert!(!patterns.allow(b"a") && !patterns.allow_pattern(b"a*"));
        assert!(patterns.add(b"a*") && patterns.add(b"b") && patterns.add(b"b"));
        assert!(patterns.allow(b"ab") && patterns.allow(b"b") && !patterns.allow(b"bb"));
        assert_eq!(patterns.described(b'~'), [b"~a*".to_vec(), b"~b".to_vec()]);
    }

    #[test]
    fn who_listens_by_pattern_needs_that_very_pattern() {
        let mut patterns = Patterns::NONE;
        assert!(patterns.add(b"news*"));
        assert!(patterns.allow_pattern(b"news*"));
        assert!(!patterns.allow_pattern(b"news.*") && !patterns.allow_pattern(b"news"));
    }

    #[test]
    fn nothing_is_added_to_everything() {
        let mut patterns = Patterns::NONE;
        assert!(patterns.add(b"*") && patterns.is_all());
        assert!(!patterns.add(b"a") && patterns.add(b"*"));
    }
}
