//! The use that a command makes of each key, as answered by `COMMAND GETKEYSANDFLAGS`.
//!
//! `RO` reads, `RW` reads and writes, `OW` overwrites, and `RM` removes a key. `access`, `insert`, `update`, and
//! `delete` describe the effect on its value (the key specifications in Redis's `commands.c`).

use super::table::Spec;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Flags of a key, in Redis's terms.
pub type Flags = &'static [&'static str];

/// Flags of the first key and of the other keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFlags {
    first: Flags,
    others: Flags,
}

impl KeyFlags {
    /// Returns the flags for the keys of this request, or none for a command without keys.
    pub fn of(spec: &Spec, args: Args<'_>) -> Self {
        let flags = match spec.name {
            "set" if (3..args.len()).any(|at| is(args.at(at), &["get"])) => READ_AND_UPDATED,
            "set" => OVERWRITTEN,
            "bitfield" if only_gets(args) => READ,
            "bitfield" => READ_AND_UPDATED,
            name => return Self::listed(name, args),
        };
        Self { first: flags, others: flags }
    }

    fn listed(name: &str, args: Args<'_>) -> Self {
        let subcommand = args.get(1).map(<[u8]>::to_ascii_lowercase).unwrap_or_default();
        let is_listed = |listed: &str| match listed.split_once('|') {
            Some((command, of)) => command == name && of.as_bytes() == subcommand,
            None => listed == name,
        };
        let row = ROWS.iter().find(|(.., names)| names.split_whitespace().any(is_listed));
        row.map_or(Self { first: &[], others: &[] }, |(first, others, _)| Self { first, others })
    }

    /// Returns the flags of the key at `index` among the request's keys.
    pub fn at(self, index: usize) -> Flags {
        if index == 0 { self.first } else { self.others }
    }
}

/// Whether `BITFIELD` only reads (`bitfieldGetKeys` in `db.c`).
fn only_gets(args: Args<'_>) -> bool {
    let mut at = 2;
    while at + 2 < args.len() && is(args.at(at), &["get"]) {
        at += 3;
    }
    at >= args.len()
}

const READ: Flags = &["RO", "access"];
const READ_AND_UPDATED: Flags = &["RW", "access", "update"];
const OVERWRITTEN: Flags = &["OW", "update"];

/// Commands by the flags of their first key and of their other keys.
static ROWS: &[(Flags, Flags, &str)] = &[
    (
        &["RO"],
        &["RO"],
        "exists hexists hlen hstrlen llen object|encoding object|freq object|idletime object|refcount scard \
         sismember strlen touch type watch xlen zcard",
    ),
    (
        &["RO", "access"],
        &["RO", "access"],
        "bitcount bitfield_ro bitpos dump eval_ro evalsha_ro expiretime fcall_ro geodist geohash geopos georadius_ro \
         georadiusbymember_ro geosearch get getbit getrange hget hgetall hkeys hmget hrandfield hscan hvals lcs lindex lpos lrange \
         mget pexpiretime pttl sdiff sinter sintercard smembers smismember sort_ro srandmember sscan substr sunion \
         ttl xinfo|consumers xinfo|groups xinfo|stream xpending xrange xrevrange zcount zdiff zinter \
         zintercard zlexcount zmscore zrandmember zrange zrangebylex zrangebyscore zrank zrevrange \
         zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion xread xreadgroup",
    ),
    (&["RO", "access"], &["OW", "update"], "copy georadius georadiusbymember sort"),
    (&["RW", "access"], &["RW", "access"], "pfcount"),
    (
        &["RW", "access", "update"],
        &["RW", "access", "update"],
        "decr decrby eval evalsha fcall getex getset hincrby hincrbyfloat incr incrby incrbyfloat setbit zincrby",
    ),
    (&["RW", "access", "insert"], &["RO", "access"], "pfmerge"),
    (
        &["RW", "access", "delete"],
        &["RW", "access", "delete"],
        "blmpop blpop brpop bzmpop bzpopmax bzpopmin getdel lmpop lpop rpop spop zmpop zpopmax zpopmin",
    ),
    (&["RW", "access", "delete"], &["RW", "insert"], "blmove brpoplpush lmove rpoplpush smove"),
    (&["RW", "access", "delete"], &["OW", "update"], "rename"),
    (&["RW", "access", "delete"], &["OW", "insert"], "renamenx"),
    (
        &["RW", "insert"],
        &["RW", "insert"],
        "append hsetnx linsert lpush lpushx pfadd rpush rpushx sadd xgroup|create xgroup|createconsumer",
    ),
    (
        &["RW", "update"],
        &["RW", "update"],
        "expire expireat geoadd hmset hset lset persist pexpire pexpireat setrange xack xadd xclaim \
         xgroup|setid xsetid zadd",
    ),
    (&["RW", "update"], &["RO", "access"], "sinterstore"),
    (
        &["RW", "delete"],
        &["RW", "delete"],
        "hdel lrem ltrim srem xautoclaim xdel xgroup|delconsumer xgroup|destroy xtrim zrem zremrangebylex \
         zremrangebyrank zremrangebyscore",
    ),
    (&["RM", "delete"], &["RM", "delete"], "del delex delifeq unlink"),
    (&["OW", "update"], &["OW", "update"], "mset psetex restore setex"),
    (
        &["OW", "update"],
        &["RO", "access"],
        "bitop geosearchstore sdiffstore sunionstore zdiffstore zinterstore zrangestore zunionstore",
    ),
    (&["OW", "insert"], &["OW", "insert"], "msetnx setnx"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::table;

    #[test]
    fn every_command_with_keys_has_flags_for_them() {
        let by_request = ["set", "bitfield"];
        for spec in table::all() {
            let has_keys = spec.first_key > 0 || spec.flags.contains(&"movablekeys");
            let is_channel = spec.family == table::Family::Pubsub;
            let of = |listed: &str| listed.split('|').next() == Some(spec.name);
            let is_listed = ROWS.iter().any(|(.., names)| names.split_whitespace().any(of));
            let is_known = is_listed || by_request.contains(&spec.name);
            assert_eq!(is_known, has_keys && !is_channel, "{}", spec.name);
        }
    }
}
