//! Passwords. Only their SHA-256 digests are kept, as in Redis's `ACL LIST`.

use std::fmt;
use std::hint::black_box;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// The SHA-256 of a password. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hash([u8; SHA256_OUTPUT_LEN]);

impl Hash {
    /// Returns the digest of a password.
    pub(super) fn of(password: &[u8]) -> Self {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, password).as_ref());
        Self(hash)
    }

    /// Parses a digest as written in rules: 64 digits, letters in lower case (`ACLCheckPasswordHash`).
    pub(super) fn parse(hex: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; SHA256_OUTPUT_LEN];
        if hex.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(hash))
    }

    /// Whether both digests are equal. Takes the same time wherever they differ.
    pub(super) fn is(&self, other: &Self) -> bool {
        let differences = self.0.iter().zip(&other.0);
        let all = differences.fold(0, |all, (a, b)| all | black_box(a ^ b));
        black_box(all) == 0
    }

    /// Returns the digest in the form that [`Hash::parse`] reads.
    pub(super) fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_PW: &str = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";

    #[test]
    fn the_digest_is_that_of_redis() {
        let hash = Hash::of(b"pw");
        assert_eq!(hash.hex(), OF_PW);
        assert!(hash.is(&Hash::parse(OF_PW.as_bytes()).unwrap()));
        assert!(!hash.is(&Hash::of(b"pW")));
        assert_eq!(format!("{hash:?}"), "***");
    }

    #[test]
    fn only_64_digits_in_lower_case_are_a_digest() {
        for wrong in ["", "abc", &OF_PW[1..], &OF_PW.to_uppercase(), &OF_PW.replace('3', "g")] {
            assert_eq!(Hash::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
