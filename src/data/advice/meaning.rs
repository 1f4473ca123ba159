//! Meaning of a script for locks, as far as its text shows.

use crate::lua::program::ProgramText;
use crate::lua::{LockMeaning, recognise};
use crate::names::kind::LockSign;
use crate::resp::word::is;

/// Whether a script does the same with all its keys, as far as its text shows.
pub fn goes_through_all_keys(text: &[u8]) -> bool {
    text.windows(12).any(|it| it == b"ipairs(KEYS)")
}

/// Returns what a script does with its first key, if it is an operation of locks.
pub fn kind_of(text: &[u8]) -> Option<LockSign> {
    match recognise(text) {
        Some(LockMeaning::Claim { .. }) => Some(LockSign::ClaimScript),
        Some(LockMeaning::Acquire { .. }) => Some(LockSign::AcquireScript),
        Some(LockMeaning::Extend { .. }) => Some(LockSign::ExtendScript),
        Some(LockMeaning::Release { .. }) => Some(LockSign::ReleaseScript),
        None => looks_like_a_lock(text).then_some(LockSign::LockScript),
    }
}

/// Whether a script calls only commands of locks, and takes something with a TTL only if it is free, as Redisson's and
/// node-redlock's do. A counter (`INCR`), a cache (`SETEX`) and a queue (`RPOP`) do more.
fn looks_like_a_lock(text: &[u8]) -> bool {
    let Some(commands) = ProgramText::commands_of(text) else { return false };
    let commands: Vec<_> = commands.iter().map(|name| name.to_ascii_lowercase()).collect();
    let calls = |names: &[&str]| commands.iter().any(|name| names.contains(&name.as_str()));
    let has_word = |words: [&str; 2]| text.windows(4).any(|quoted| is(quoted, &words));
    let may_find_it_taken =
        calls(&["exists", "hexists", "get", "setnx", "hsetnx"]) || has_word(["'nx'", "\"nx\""]);
    let takes = calls(&["set", "setnx", "hset", "hsetnx", "hincrby", "hmset"]);
    let ends = calls(&["expire", "pexpire", "expireat", "pexpireat"])
        || has_word(["'px'", "\"px\""])
        || has_word(["'ex'", "\"ex\""]);
    let only_of_locks = commands.iter().all(|name| OF_LOCKS.contains(&name.as_str()));
    let compares_and_deletes = calls(&["get"])
        && commands.iter().all(|name| ["get", "del", "unlink"].contains(&name.as_str()))
        && commands.len() > 1
        && text.windows(4).any(|it| it == b"ARGV");
    only_of_locks && may_find_it_taken && takes && ends || compares_and_deletes
}

/// Commands that scripts of locks call.
const OF_LOCKS: [&str; 31] = [
    "get",
    "set",
    "setnx",
    "exists",
    "del",
    "unlink",
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "ttl",
    "pttl",
    "hexists",
    "hget",
    "hset",
    "hsetnx",
    "hmset",
    "hincrby",
    "hdel",
    "hlen",
    "hkeys",
    "hgetall",
    "publish",
    "spublish",
    "time",
    "type",
    "lindex",
    "lpop",
    "zrem",
    "zscore",
    "lpush",
];
