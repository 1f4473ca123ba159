//! Our own scripts, one per thing a master must do atomically.

use std::sync::LazyLock;

/// One of our scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canonical {
    /// Delete if the token is held.
    Release,
    /// `DEL` that tells what it deleted.
    Delete,
    /// Prolong if the token is held.
    Extend,
    /// Take if free, prolong if held.
    Acquire,
    /// Make a provisional claim persistent.
    Persist,
    /// Take a claim back.
    Rollback,
    /// Type, value and TTL of a key.
    Inspect,
    /// Compare and set.
    Swap,
    /// Take an extension back.
    Shorten,
    /// Give keys back what they held before a program.
    Restore,
    /// Look whether a script is Lua.
    Compile,
    /// Digest of what a key holds.
    Digest,
    /// Empty a database, or all, and say that it was a proxy that did.
    Flush,
}

impl Canonical {
    /// All of them, as they are loaded on every master.
    pub const ALL: [Self; 13] = [
        Self::Release,
        Self::Delete,
        Self::Extend,
        Self::Acquire,
        Self::Persist,
        Self::Rollback,
        Self::Inspect,
        Self::Swap,
        Self::Shorten,
        Self::Restore,
        Self::Compile,
        Self::Digest,
        Self::Flush,
    ];

    /// The script's text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Release => include_str!("canonical/release.lua"),
            Self::Delete => include_str!("canonical/delete.lua"),
            Self::Extend => include_str!("canonical/extend.lua"),
            Self::Acquire => include_str!("canonical/acquire.lua"),
            Self::Persist => include_str!("canonical/persist.lua"),
            Self::Rollback => include_str!("canonical/rollback.lua"),
            Self::Inspect => include_str!("canonical/inspect.lua"),
            Self::Swap => include_str!("canonical/swap.lua"),
            Self::Shorten => include_str!("canonical/shorten.lua"),
            Self::Restore => include_str!("canonical/restore.lua"),
            Self::Compile => include_str!("canonical/compile.lua"),
            Self::Flush => include_str!("canonical/flush.lua"),
            Self::Digest => {
                concat!(include_str!("program/digest.lua"), include_str!("canonical/digest.lua"))
            }
        }
    }

    /// The SHA1 by which a master knows the script, in hex.
    pub fn sha(self) -> &'static str {
        static SHAS: LazyLock<[String; 13]> =
            LazyLock::new(|| Canonical::ALL.map(|s| sha1_smol::Sha1::from(s.text()).hexdigest()));
        &SHAS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_has_its_own_sha() {
        for (index, script) in Canonical::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, index);
            assert_eq!(script.sha(), sha1_smol::Sha1::from(script.text()).hexdigest());
        }
    }
}
