//! Evidence that a key is a lock.

/// One way to take, extend or release a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockSign {
    /// `SET key token NX PX ttl`
    Claim,
    /// `SET key token NX`
    ClaimForGood,
    /// `SETNX`, then `EXPIRE` of the same key by the same client.
    SetNxExpire,
    /// `SETNX`, then `DEL` of the same key by the same client.
    SetNxDel,
    /// `SETNX` and `GETSET` of the same key: a lock with a timestamp as its value.
    GetSet,
    /// A script that only does `SET NX PX`.
    ClaimScript,
    /// A script that takes or extends a lock.
    AcquireScript,
    /// A script that extends a lock if it holds the token.
    ExtendScript,
    /// A script that deletes a lock if it holds the token.
    ReleaseScript,
    /// `DELEX key IFEQ token`, `DELIFEQ key token`.
    DeleteIfEqual,
    /// `WATCH key`, a read of the key, and a transaction that deletes it.
    Watch,
    /// A channel or queue of Redisson with the key in its name.
    Redisson,
    /// A script that contains a lock script's elements, and more.
    LockScript,
}

impl LockSign {
    /// Title shown in the report.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claim => "SET NX with a TTL",
            Self::ClaimForGood => "SET NX without a TTL",
            Self::SetNxExpire => "SETNX, then EXPIRE",
            Self::SetNxDel => "SETNX, then DEL",
            Self::GetSet => "SETNX and GETSET",
            Self::ClaimScript => "script that claims",
            Self::AcquireScript => "script that claims or extends",
            Self::ExtendScript => "script that extends",
            Self::ReleaseScript => "script that releases",
            Self::DeleteIfEqual => "DELEX or DELIFEQ",
            Self::Watch => "WATCH, MULTI, DEL, EXEC",
            Self::Redisson => "Redisson's channel or queue",
            Self::LockScript => "script that looks like a lock's",
        }
    }
}
