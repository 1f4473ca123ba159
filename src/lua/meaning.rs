//! Meanings that a lock script can have.

/// Effect of a recognised script on `KEYS[1]`.
///
/// A shape applies to one key and to well-formed arguments. The caller must check these before it runs a script as its
/// shape: `numkeys` is 1, at least [`arguments`](LockMeaning::arguments) values follow the key, and the TTL is a
/// positive number of milliseconds. Otherwise the text must run as it is: Lua and Redis then return the right error. A
/// script that compares reads the key with `GET` or `GETRANGE`, and ends with `WRONGTYPE` if it is not a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockMeaning {
    /// Deletes the key if it holds the token.
    Release {
        /// Token that the key must hold.
        token: Arg,
        /// Reply if the key was deleted.
        deleted: ScriptValue,
        /// Reply if the key does not exist.
        missing: ScriptValue,
        /// Reply if the key holds something else.
        other: ScriptValue,
    },
    /// Prolongs the key if it holds the token.
    Extend {
        /// Token that the key must hold.
        token: Arg,
        /// New TTL in milliseconds.
        ttl: Arg,
        /// Command that prolongs the key.
        how: Prolong,
        /// Reply if the key was prolonged.
        extended: ScriptValue,
        /// Reply if the key does not exist.
        missing: ScriptValue,
        /// Reply if the key holds something else.
        other: ScriptValue,
    },
    /// Takes the key if it is free: `SET NX PX` and nothing else.
    Claim {
        /// Token to write.
        token: Arg,
        /// TTL in milliseconds.
        ttl: Arg,
        /// Reply if the key was free.
        granted: ScriptValue,
        /// Reply if the key exists, whatever it holds.
        refused: ScriptValue,
    },
    /// Takes the key if it is free, and prolongs it if it already belongs to the caller.
    Acquire {
        /// Token to write, and to compare.
        token: Arg,
        /// TTL in milliseconds, for both.
        ttl: Arg,
        /// Command that prolongs the caller's own key.
        how: Prolong,
        /// Condition for taking a free key.
        create: Create,
        /// Condition under which an existing key belongs to the caller.
        own: Own,
        /// Reply if the key was free and has been taken.
        created: ScriptValue,
        /// Reply if the key belonged to the caller and has been prolonged.
        extended: ScriptValue,
        /// Reply if nothing was done.
        refused: ScriptValue,
    },
}

impl LockMeaning {
    /// Returns how many values of `ARGV` the script reads. With fewer of them, Lua would see nil.
    pub fn arguments(&self) -> usize {
        let last = match self {
            LockMeaning::Release { token, .. } => *token,
            LockMeaning::Extend { token, ttl, .. } | LockMeaning::Claim { token, ttl, .. } => {
                *token.max(ttl)
            }
            LockMeaning::Acquire { token, ttl, create, own, .. } => {
                let conditions = [create.arg(), own.arg()].into_iter().flatten();
                conditions.fold(*token.max(ttl), Arg::max)
            }
        };
        last.position() + 1
    }
}

/// One of the values in `ARGV`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arg(u8);

impl Arg {
    /// Returns the argument that Lua calls `ARGV[index]`, counted from one.
    pub(super) fn from_lua(index: i64) -> Option<Arg> {
        (1..=MAX_ARGUMENTS).contains(&index).then(|| Arg((index - 1) as u8))
    }

    /// Returns its position among the arguments after the keys, counted from zero: `ARGV[1]` is at 0.
    pub fn position(self) -> usize {
        usize::from(self.0)
    }

    /// Returns this argument of `argv`.
    pub fn of<T>(self, argv: &[T]) -> Option<&T> {
        argv.get(self.position())
    }
}

/// Reply of a script in one of its outcomes. Each library has its own convention, and expects nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptValue {
    /// Integer. Lua's `true` becomes 1.
    Int(i64),
    /// Status reply `OK`, as from `SET`.
    Ok,
    /// Bulk string from the text of the script.
    Bulk(String),
    /// Nil: Lua's `nil` and `false`, and the end of a script without `return`.
    Nil,
    /// Error reply. The text starts with its code, without a `-`.
    Error(String),
}

/// Command that prolongs a key with the right token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prolong {
    /// `PEXPIRE`: keeps the value. A TTL of zero or less would delete the key.
    Pexpire,
    /// `SET PX`: writes the token again. A TTL of zero or less is an error.
    SetPx,
}

/// Condition under which [`LockMeaning::Acquire`] takes a free key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Create {
    /// No condition.
    Always,
    /// Only if the argument has this value. Otherwise the script only prolongs.
    IfArg {
        /// Argument that decides.
        arg: Arg,
        /// Required value of the argument.
        equals: Vec<u8>,
    },
}

impl Create {
    pub(super) fn arg(&self) -> Option<Arg> {
        match self {
            Create::Always => None,
            Create::IfArg { arg, .. } => Some(*arg),
        }
    }
}

/// Condition under which an existing key belongs to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    /// It holds the same token.
    SameToken,
    /// It starts with the same bytes as the token. The rest may differ.
    ///
    /// This applies only to a length that is a positive decimal integer: `GETRANGE 0 -1` is the whole value, and
    /// anything but a number stops the script.
    SamePrefix {
        /// Number of bytes to compare. Both sides may be shorter.
        length: Arg,
    },
}

impl Own {
    pub(super) fn arg(&self) -> Option<Arg> {
        match self {
            Own::SameToken => None,
            Own::SamePrefix { length } => Some(*length),
        }
    }
}

/// Maximum arguments. The recognised lock scripts have 3 at most, and no client sends more than this.
const MAX_ARGUMENTS: i64 = 16;
