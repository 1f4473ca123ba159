//! A password, kept out of logs.

use std::fmt;
use std::hint::black_box;

/// A password. `Debug` prints `***`; only [`Secret::expose`] shows it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps `password`, which is hidden from now on.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// Returns the password itself, for the one place that sends it to a master.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `given` is the password. The duration depends only on the length of `given`, as in
    /// `time_independent_strcmp` of Redis (`acl.c`), so it reveals nothing to an attacker.
    pub fn matches(&self, given: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let mut difference = u8::from(secret.len() != given.len());
        for (i, byte) in given.iter().enumerate() {
            // An empty secret has no byte to compare; the lengths already differ.
            let expected = secret.get(i % secret.len().max(1)).copied().unwrap_or(0);
            difference |= black_box(byte ^ expected);
        }
        black_box(difference) == 0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.0.as_bytes())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_password_matches() {
        let secret = Secret::new("abc");
        assert!(secret.matches(b"abc"));
        for wrong in ["", "a", "ab", "abd", "xbc", "abcd", "abcabc"] {
            assert!(!secret.matches(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn an_empty_password_matches_only_nothing() {
        assert!(Secret::new("").matches(b""));
        assert!(!Secret::new("").matches(b"\0"));
    }

    #[test]
    fn debug_never_shows_it() {
        assert_eq!(format!("{:?}", Some(Secret::new("hunter2"))), "Some(***)");
    }
}
