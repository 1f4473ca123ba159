//! Which requests for the data Redis are short: those that may travel together with requests of other clients.
//!
//! Such a request needs nothing of the connection it comes by, takes the data Redis next to no time, and is answered by a
//! short reply; or it changes nothing, so that it can be asked again when the reply is long after all.

use std::sync::LazyLock;

use crate::catalogue::table::{self, Command, Spec};
use crate::resp::requests::Args;
use crate::resp::word::is;

/// A request of more bytes is not short.
const SHORT: usize = 16 << 10;

/// Changes nothing: a long reply to it can be passed over.
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

/// Changes something, and the reply is short whatever that was.
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

/// What a request of each command changes if it is short, by the command's place in the table: [`is_read`] without a look
/// at the arguments.
static KINDS: LazyLock<Vec<Option<bool>>> = LazyLock::new(|| {
    let kind = |spec: &Spec| {
        let is_read = READS.contains(&spec.name);
        (is_read || WRITES.contains(&spec.name)).then_some(is_read)
    };
    table::all().iter().map(kind).collect()
});

/// Whether a short request changes nothing, given its command's place in the table; `None`: it is not short.
pub(super) fn is_read(command: u16, args: Args<'_>) -> Option<bool> {
    let is_read = (*KINDS.get(usize::from(command))?)?;
    let spec = table::at(command).filter(|spec| spec.accepts(args.len()))?;
    let is_short = args.iter().map(<[u8]>::len).sum::<usize>() <= SHORT;
    let is_answered_at_length = spec.id == Command::Set && has_get(args);
    (is_short && !is_answered_at_length).then_some(is_read)
}

/// `SET key value GET` is answered with what was there.
fn has_get(args: Args<'_>) -> bool {
    args.from(3).iter().any(|word| is(word, &["get"]))
}
