//! Scripts of the proxy, one for each operation that a master must do atomically.

use std::sync::LazyLock;

/// One of the proxy's scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canonical {
    /// Takes the lock if it is free, prolongs it if it is held.
    Acquire,
    /// Prolongs the lock if the token is held.
    Extend,
    /// Returns the tag under which a token is held.
    Look,
    /// Deletes the key if it holds exactly this tag and token.
    Release,
    /// Deletes the key if it holds this attempt, however often it was prolonged.
    Deliver,
    /// Deletes the key if it holds exactly this value.
    TakeBack,
    /// Notes that attempts are over.
    Note,
    /// Makes exactly this value expire sooner.
    Shorten,
    /// `DEL` that returns what it deleted.
    Delete,
    /// Checks whether a script is Lua.
    Compile,
    /// Counts the keys of a database.
    Count,
    /// `SORT` by patterns that its elements complete.
    Sort,
}

/// Text of a script that reads tags, and leaves registers alone.
macro_rules! of_leases {
    ($name:literal) => {
        concat!(
            include_str!("canonical/tags.lua"),
            include_str!("canonical/registers.lua"),
            include_str!($name)
        )
    };
}

impl Canonical {
    /// All scripts, as they are loaded on every master.
    pub const ALL: [Self; 12] = [
        Self::Acquire,
        Self::Extend,
        Self::Look,
        Self::Release,
        Self::Deliver,
        Self::TakeBack,
        Self::Note,
        Self::Shorten,
        Self::Delete,
        Self::Compile,
        Self::Count,
        Self::Sort,
    ];

    /// Returns the script's text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Acquire => of_leases!("canonical/acquire.lua"),
            Self::Extend => of_leases!("canonical/extend.lua"),
            Self::Look => of_leases!("canonical/look.lua"),
            Self::Release => {
                concat!(include_str!("canonical/known.lua"), of_leases!("canonical/release.lua"))
            }
            Self::Deliver => include_str!("canonical/deliver.lua"),
            Self::TakeBack => include_str!("canonical/take_back.lua"),
            Self::Note => include_str!("canonical/note.lua"),
            Self::Shorten => include_str!("canonical/shorten.lua"),
            Self::Delete => of_leases!("canonical/delete.lua"),
            Self::Compile => include_str!("canonical/compile.lua"),
            Self::Count => include_str!("canonical/count.lua"),
            Self::Sort => {
                concat!(include_str!("program/completes.lua"), include_str!("canonical/sort.lua"))
            }
        }
    }

    /// Returns the SHA1 by which a master knows the script, in hex.
    pub fn sha(self) -> &'static str {
        static SHAS: LazyLock<[String; Canonical::ALL.len()]> =
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

    #[test]
    fn no_key_of_the_proxies_is_counted() {
        for key in crate::catalogue::reserved::KEYS {
            assert!(Canonical::Count.text().contains(&format!("'{key}'")), "{key}");
        }
    }
}
