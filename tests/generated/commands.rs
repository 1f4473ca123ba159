//! Random commands over a few keys of every common type.
//!
//! Each key is named after its usual type. Now and then a command hits a key of another type, because errors must be
//! equal too.

use fastrand::Rng;

/// Keys of all programs: few, so that commands hit what earlier ones left behind.
pub(crate) const KEYS: [&str; 14] = [
    "string:1", "string:2", "number:1", "number:2", "hash:1", "hash:2", "set:1", "set:2", "zset:1",
    "zset:2", "list:1", "list:2", "bits:1", "stream:1",
];

/// Returns a command whose `{...}` placeholders [`word`] fills in.
pub(crate) fn template(rng: &mut Rng) -> &'static str {
    let family = FAMILIES[rng.usize(..FAMILIES.len())];
    family[rng.usize(..family.len())]
}

/// Returns a random command, ready to be sent.
pub(crate) fn command(rng: &mut Rng) -> Vec<String> {
    template(rng).split(' ').map(|part| word(rng, part)).collect()
}

/// Fills in one word of a template.
pub(crate) fn word(rng: &mut Rng, part: &str) -> String {
    match part {
        "{any}" => any_key(rng),
        "{value}" => VALUES[rng.usize(..VALUES.len())].to_owned(),
        "{field}" | "{member}" => ["a", "b", "c", "d", "7"][rng.usize(..5)].to_owned(),
        "{number}" => rng.i32(-5..20).to_string(),
        "{index}" => rng.i32(-4..4).to_string(),
        "{score}" => ["1", "2.5", "-3", "0.1", "1e3"][rng.usize(..5)].to_owned(),
        "{ms}" => rng.u64(FAR_MS..4 * FAR_MS).to_string(),
        "{s}" => rng.u64(FAR_MS / 1000..FAR_MS / 250).to_string(),
        _ => match part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(kind) => key(rng, kind),
            None => part.to_owned(),
        },
    }
}

/// Returns whether a word of a template stands for a key.
pub(crate) fn is_key(part: &str) -> bool {
    [
        "{any}",
        "{string}",
        "{number_key}",
        "{hash}",
        "{set}",
        "{zset}",
        "{list}",
        "{bits}",
        "{stream}",
    ]
    .contains(&part)
}

/// Returns whether Redis may choose the order of the elements in the reply.
pub(crate) fn is_unordered(text: &str) -> bool {
    let text = text.to_uppercase();
    UNORDERED.iter().any(|name| text.contains(name))
}

fn key(rng: &mut Rng, kind: &str) -> String {
    let kind = kind.strip_suffix("_key").unwrap_or(kind);
    let own: Vec<&str> = KEYS.into_iter().filter(|key| key.starts_with(kind)).collect();
    assert!(!own.is_empty(), "no key of kind {kind}");
    if rng.u8(..10) == 0 { any_key(rng) } else { own[rng.usize(..own.len())].to_owned() }
}

fn any_key(rng: &mut Rng) -> String {
    KEYS[rng.usize(..KEYS.len())].to_owned()
}

/// Every time to live is longer than this and every other number is shorter, so replies can be told apart. It also
/// means that nothing expires during the test.
pub(crate) const FAR_MS: u64 = 100_000_000;

const VALUES: [&str; 8] = ["", "a", "b", "7", "two words", "-1", "1.5", "größer"];

/// Commands with unordered replies, as clients send them and as they appear in scripts.
const UNORDERED: [&str; 9] =
    ["SMEMBERS", "SUNION", "SINTER", "SDIFF", "HGETALL", "HKEYS", "HVALS", "KEYS *", "'KEYS', '*'"];

const FAMILIES: [&[&str]; 9] =
    [STRINGS, STRINGS, NUMBERS, HASHES, SETS, SORTED_SETS, LISTS, OTHERS, ANY_TYPE];

const STRINGS: &[&str] = &[
    "SET {string} {value}",
    "SET {string} {value} NX",
    "SET {string} {value} XX",
    "SET {string} {value} NX PX {ms}",
    "SET {string} {value} PX {ms}",
    "SET {string} {value} EX {s} XX",
    "SET {string} {value} KEEPTTL",
    "SET {string} {value} GET",
    "SET {string} {value} PX 0",
    "SETNX {string} {value}",
    "SETEX {string} {s} {value}",
    "PSETEX {string} {ms} {value}",
    "GET {string}",
    "GETSET {string} {value}",
    "GETDEL {string}",
    "GETEX {string} PX {ms}",
    "GETEX {string} PERSIST",
    "MGET {string} {any} {string}",
    "MSET {string} {value} {string} {value}",
    "MSETNX {string} {value} {number_key} {number}",
    "APPEND {string} {value}",
    "STRLEN {string}",
    "GETRANGE {string} {index} {index}",
    "SETRANGE {string} 2 {value}",
];

const NUMBERS: &[&str] = &[
    "SET {number_key} {number}",
    "SET {number_key} {number} PX {ms}",
    "INCR {number_key}",
    "DECR {number_key}",
    "INCRBY {number_key} {number}",
    "DECRBY {number_key} {number}",
    "INCRBYFLOAT {number_key} 0.5",
    "GET {number_key}",
];

const HASHES: &[&str] = &[
    "HSET {hash} {field} {value}",
    "HSET {hash} {field} {number} {field} {value}",
    "HSETNX {hash} {field} {value}",
    "HINCRBY {hash} {field} {number}",
    "HINCRBYFLOAT {hash} {field} {score}",
    "HDEL {hash} {field}",
    "HDEL {hash} {field} {field}",
    "HGET {hash} {field}",
    "HMGET {hash} {field} {field}",
    "HGETALL {hash}",
    "HKEYS {hash}",
    "HVALS {hash}",
    "HLEN {hash}",
    "HEXISTS {hash} {field}",
    "HSTRLEN {hash} {field}",
];

const SETS: &[&str] = &[
    "SADD {set} {member}",
    "SADD {set} {member} {member} {number}",
    "SREM {set} {member}",
    "SREM {set} {member} {member}",
    "SMOVE {set} {set} {member}",
    "SISMEMBER {set} {member}",
    "SMISMEMBER {set} {member} {member}",
    "SMEMBERS {set}",
    "SCARD {set}",
    "SUNION {set} {set}",
    "SINTER {set} {set}",
    "SDIFF {set} {set}",
    "SUNIONSTORE {set} {set} {set}",
    "SDIFFSTORE {set} {set} {set}",
    "SINTERCARD 2 {set} {set}",
];

const SORTED_SETS: &[&str] = &[
    "ZADD {zset} {score} {member}",
    "ZADD {zset} NX {score} {member} {score} {member}",
    "ZADD {zset} GT CH {score} {member}",
    "ZADD {zset} INCR {score} {member}",
    "ZINCRBY {zset} {score} {member}",
    "ZREM {zset} {member}",
    "ZREMRANGEBYSCORE {zset} -inf {score}",
    "ZREMRANGEBYRANK {zset} 0 0",
    "ZPOPMIN {zset}",
    "ZPOPMAX {zset} 2",
    "ZSCORE {zset} {member}",
    "ZMSCORE {zset} {member} {member}",
    "ZRANK {zset} {member}",
    "ZCARD {zset}",
    "ZCOUNT {zset} -inf {score}",
    "ZRANGE {zset} 0 -1",
    "ZRANGE {zset} {index} {index} WITHSCORES",
    "ZRANGEBYSCORE {zset} -inf {score}",
    "ZUNIONSTORE {zset} 2 {zset} {zset}",
];

const LISTS: &[&str] = &[
    "LPUSH {list} {value}",
    "RPUSH {list} {value} {value}",
    "RPUSHX {list} {value}",
    "LPOP {list}",
    "RPOP {list} 2",
    "LRANGE {list} 0 -1",
    "LRANGE {list} {index} {index}",
    "LLEN {list}",
    "LINDEX {list} {index}",
    "LPOS {list} {value}",
    "LSET {list} {index} {value}",
    "LREM {list} {index} {value}",
    "LINSERT {list} BEFORE {value} {value}",
    "LTRIM {list} -5 -1",
    "RPOPLPUSH {list} {list}",
    "LMOVE {list} {list} LEFT RIGHT",
];

const OTHERS: &[&str] = &[
    "SETBIT {bits} 7 1",
    "SETBIT {bits} 12 0",
    "GETBIT {bits} 7",
    "BITCOUNT {bits}",
    "XADD {stream} 7-{number} {field} {value}",
    "XLEN {stream}",
    "XRANGE {stream} - +",
    "XDEL {stream} 7-3",
    "XREAD STREAMS {stream} 7-3",
    "XREAD COUNT 2 STREAMS {stream} {stream} 0 7-5",
    "XGROUP CREATE {stream} g 0 MKSTREAM",
    "XREADGROUP GROUP g {field} COUNT 1 STREAMS {stream} >",
    "XREADGROUP GROUP g {field} STREAMS {stream} 0",
    "XACK {stream} g 7-3",
    "PING",
    "ECHO {value}",
    "PUBLISH channel {value}",
    "DBSIZE",
    "KEYS *",
];

/// Leaves out `GT` and `LT`: a script that runs twice within a millisecond would not extend a key that it does extend a
/// moment later.
const ANY_TYPE: &[&str] = &[
    "DEL {any}",
    "DEL {any} {any}",
    "UNLINK {any}",
    "EXISTS {any} {any}",
    "TYPE {any}",
    "PEXPIRE {any} {ms}",
    "PEXPIRE {any} {ms} NX",
    "EXPIRE {any} {s}",
    "EXPIRE {any} {s} XX",
    "EXPIRE {any} -1",
    "PERSIST {any}",
    "PTTL {any}",
    "PTTL {any}",
    "TTL {any}",
    "RENAME {any} {any}",
    "RENAMENX {any} {any}",
    "COPY {any} {any}",
    "COPY {any} {any} REPLACE",
];
