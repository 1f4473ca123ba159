//! The meanings a lock script can have.

/// What a recognised script does with `KEYS[1]`.
///
/// A shape holds for one key and for well-formed arguments. Before running a script as its shape the caller makes sure
/// that `numkeys` is 1, that at least [`arguments`](LockMeaning::arguments) values follow the key, and that the TTL is a
/// positive number of milliseconds. Otherwise the text has to run as it is: Lua and Redis then find the right error.
/// A script that compares reads the key with `GET` or `GETRANGE`, and ends with `WRONGTYPE` where it is no string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockMeaning {
    /// Delete the key if it holds the token.
    Release {
        /// The token the key must hold.
        token: Arg,
        /// The answer when the key was deleted.
        deleted: ScriptValue,
        /// The answer when there is no such key.
        missing: ScriptValue,
        /// The answer when the key holds something else.
        other: ScriptValue,
    },
    /// Prolong the key if it holds the token.
    Extend {
        /// The token the key must hold.
        token: Arg,
        /// The new TTL in milliseconds.
        ttl: Arg,
        /// The command that prolongs.
        how: Prolong,
        /// The answer when the key was prolonged.
        extended: ScriptValue,
        /// The answer when there is no such key.
        missing: ScriptValue,
        /// The answer when the key holds something else.
        other: ScriptValue,
    },
    /// Take the key if it is free: `SET NX PX` and nothing else.
    Claim {
        /// The token to write.
        token: Arg,
        /// The TTL in milliseconds.
        ttl: Arg,
        /// The answer when the key was free.
        granted: ScriptValue,
        /// The answer when the key exists, whatever it holds.
        refused: ScriptValue,
    },
    /// Take the key if it is free, prolong it if it is the caller's own already.
    Acquire {
        /// The token to write, and to find.
        token: Arg,
        /// The TTL in milliseconds, for both.
        ttl: Arg,
        /// The command that prolongs the caller's own key.
        how: Prolong,
        /// When a free key is taken.
        create: Create,
        /// What makes an existing key the caller's own.
        own: Own,
        /// The answer when the key was free and has been taken.
        created: ScriptValue,
        /// The answer when the key was the caller's own and has been prolonged.
        extended: ScriptValue,
        /// The answer when nothing was done.
        refused: ScriptValue,
    },
}

impl LockMeaning {
    /// How many values of `ARGV` the script reads: with fewer of them Lua would see nil.
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
    /// The argument that Lua calls `ARGV[index]`; Lua counts from one.
    pub(super) fn from_lua(index: i64) -> Option<Arg> {
        (1..=MAX_ARGUMENTS).contains(&index).then(|| Arg((index - 1) as u8))
    }

    /// Where it is among the arguments after the keys, counted from zero: `ARGV[1]` is at 0.
    pub fn position(self) -> usize {
        usize::from(self.0)
    }

    /// This argument of `argv`.
    pub fn of<T>(self, argv: &[T]) -> Option<&T> {
        argv.get(self.position())
    }
}

/// What a script answers in one of its outcomes: each library has its own convention, and reads nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptValue {
    /// An integer. Lua's `true` becomes 1.
    Int(i64),
    /// The status reply `OK`, as `SET` gives it.
    Ok,
    /// A bulk string that stands in the script.
    Bulk(String),
    /// Nil: Lua's `nil` and `false`, and a script that ends without `return`.
    Nil,
    /// An error reply; the text has its code in front and no `-`.
    Error(String),
}

/// How a key that holds the right token is prolonged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prolong {
    /// `PEXPIRE`: keeps the value. A TTL of zero or less would delete the key.
    Pexpire,
    /// `SET PX`: writes the token again. A TTL of zero or less is an error.
    SetPx,
}

/// Whether [`LockMeaning::Acquire`] takes a free key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Create {
    /// It always does.
    Always,
    /// It does if the argument says so; otherwise it only prolongs.
    IfArg {
        /// The argument that decides.
        arg: Arg,
        /// What it must be equal to.
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

/// What makes an existing key the caller's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    /// It holds the same token.
    SameToken,
    /// It begins with the same bytes as the token; the rest may differ.
    ///
    /// Holds for a length that is a positive decimal integer only: `GETRANGE 0 -1` is the whole value, and what is no
    /// number stops the script.
    SamePrefix {
        /// How many bytes are compared; both sides may be shorter.
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

/// The longest argument list of the lock scripts recognised is 3; beyond this nobody sends one.
const MAX_ARGUMENTS: i64 = 16;
