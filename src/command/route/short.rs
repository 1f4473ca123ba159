//! Short requests for the data Redis: those that may travel together with requests of other clients.
//!
//! A short request does not depend on the state of its connection, takes the data Redis next to no time, and has a
//! short reply. Or it changes nothing, so that it can be repeated if the reply turns out to be long.

use std::sync::LazyLock;

use crate::catalogue::table::{self, Command, Spec};
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Maximum bytes of a short request.
const SHORT: usize = 16 << 10;

/// Commands that change nothing: a long reply can be skipped.
const READS: [&str; 24] = [
    "exists",
    "get",
    "getbit",
    "hexists",
    "hget",
    "hlen",
    "hmget",
    "hstrlen",
    "llen",
    "mget",
    "pttl",
    "scard",
    "sismember",
    "smismember",
    "strlen",
    "ttl",
    "type",
    "xlen",
    "zcard",
    "zmscore",
    "zrank",
    "zrevrank",
    "zscore",
    "zcount",
];

/// Commands that change something, with a reply that is always short.
const WRITES: [&str; 34] = [
    "append",
    "decr",
    "decrby",
    "del",
    "expire",
    "expireat",
    "hdel",
    "hincrby",
    "hincrbyfloat",
    "hmset",
    "hset",
    "hsetnx",
    "incr",
    "incrby",
    "incrbyfloat",
    "lpush",
    "lpushx",
    "mset",
    "persist",
    "pexpire",
    "pexpireat",
    "pfadd",
    "psetex",
    "publish",
    "rpush",
    "rpushx",
    "sadd",
    "set",
    "setex",
    "setnx",
    "srem",
    "unlink",
    "zadd",
    "zrem",
];

/// The result of [`is_read`] by the command's place in the table, if the request is short: it doesn't consider the
/// arguments.
static KINDS: LazyLock<Vec<Option<bool>>> = LazyLock::new(|| {
    let kind = |spec: &Spec| {
        let is_read = READS.contains(&spec.name);
        (is_read || WRITES.contains(&spec.name)).then_some(is_read)
    };
    table::all().iter().map(kind).collect()
});

/// Whether a short request changes nothing, given its command's place in the table. Returns `None` if the request is
/// not short.
pub(super) fn is_read(command: u16, args: Args<'_>) -> Option<bool> {
    let is_read = (*KINDS.get(usize::from(command))?)?;
    let spec = table::at(command).filter(|spec| spec.accepts(args.len()))?;
    let is_short = args.iter().map(<[u8]>::len).sum::<usize>() <= SHORT;
    let is_answered_at_length = spec.id == Command::Set && has_get(args);
    (is_short && !is_answered_at_length).then_some(is_read)
}

/// Whether this is `SET key value GET`, which returns the old value.
fn has_get(args: Args<'_>) -> bool {
    args.from(3).iter().any(|word| is(word, &["get"]))
}
