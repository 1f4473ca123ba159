//! Which requests for the data Redis are short: those that may travel together with requests of other clients.
//!
//! Such a request needs nothing of the connection it comes by, takes the data Redis next to no time, and is answered by a
//! short reply; or it changes nothing, so that it can be asked again when the reply is long after all.

use crate::client::decoder::Args;
use crate::command::table;
use crate::command::word::is;

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

/// Whether a short request changes nothing; `None`: it is not short.
pub(super) fn is_read(args: Args<'_>) -> Option<bool> {
    let spec = table::lookup(args.at(0)).filter(|spec| spec.accepts(args.len()))?;
    if args.iter().map(<[u8]>::len).sum::<usize>() > SHORT {
        return None;
    }
    if READS.contains(&spec.name) {
        return Some(true);
    }
    let is_write = WRITES.contains(&spec.name) && !(spec.name == "set" && has_get(args));
    is_write.then_some(false)
}

/// `SET key value GET` is answered with what was there.
fn has_get(args: Args<'_>) -> bool {
    args.from(3).iter().any(|word| is(word, &["get"]))
}
