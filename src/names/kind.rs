//! By what it is seen that a key is a lock.

/// One way to take, prolong or release a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `SET key token NX PX ttl`
    Claim,
    /// `SET key token NX`
    ClaimForGood,
    /// `SETNX`, and `EXPIRE` of the same key by the same client.
    SetNxExpire,
    /// `SETNX`, and `DEL` of the same key by the same client.
    SetNxDel,
    /// `SETNX` and `GETSET` of the same key: the lock with a time in its value.
    GetSet,
    /// A script that only does `SET NX PX`.
    ClaimScript,
    /// A script that takes or prolongs.
    AcquireScript,
    /// A script that prolongs what holds the token.
    ExtendScript,
    /// A script that deletes what holds the token.
    ReleaseScript,
    /// `DELEX key IFEQ token`, `DELIFEQ key token`.
    DeleteIfEqual,
    /// `WATCH key`, a look at it, and a transaction that deletes it.
    Watch,
    /// A channel or queue of Redisson's with the key in its name.
    Redisson,
    /// A script that has what a script of a lock has, and more.
    LockScript,
}

impl Kind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Claim,
        Self::ClaimForGood,
        Self::SetNxExpire,
        Self::SetNxDel,
        Self::GetSet,
        Self::ClaimScript,
        Self::AcquireScript,
        Self::ExtendScript,
        Self::ReleaseScript,
        Self::DeleteIfEqual,
        Self::Watch,
        Self::Redisson,
        Self::LockScript,
    ];

    /// What a reader of the report sees.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claim => "SET NX with a TTL",
            Self::ClaimForGood => "SET NX without a TTL",
            Self::SetNxExpire => "SETNX, then EXPIRE",
            Self::SetNxDel => "SETNX, then DEL",
            Self::GetSet => "SETNX and GETSET",
            Self::ClaimScript => "script that claims",
            Self::AcquireScript => "script that claims or prolongs",
            Self::ExtendScript => "script that prolongs",
            Self::ReleaseScript => "script that releases",
            Self::DeleteIfEqual => "DELEX or DELIFEQ",
            Self::Watch => "WATCH, MULTI, DEL, EXEC",
            Self::Redisson => "Redisson's channel or queue",
            Self::LockScript => "script that looks like a lock's",
        }
    }
}
