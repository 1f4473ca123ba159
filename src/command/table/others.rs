//! The commands of Redis 7.0 that the proxy does not answer.

/// In alphabetical order, lower case.
#[rustfmt::skip]
pub(super) static OTHERS: &[&str] = &[
    "asking", "bgrewriteaof", "bgsave", "bitcount", "bitfield", "bitfield_ro", "bitop",
    "bitpos", "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax",
    "bzpopmin", "copy", "debug", "discard", "dump", "eval_ro", "evalsha_ro", "exec", "failover",
    "fcall", "fcall_ro", "function", "geoadd", "geodist", "geohash", "geopos", "georadius",
    "georadius_ro", "georadiusbymember", "georadiusbymember_ro", "geosearch", "geosearchstore",
    "getbit", "hdel", "hexists", "hget", "hgetall", "hincrby", "hincrbyfloat", "hkeys", "hlen",
    "hmget", "hmset", "hrandfield", "hscan", "hset", "hsetnx", "hstrlen", "hvals",
    "incrbyfloat", "lastsave", "latency", "lcs", "lindex", "linsert", "llen", "lmove", "lmpop",
    "lolwut", "lpop", "lpos", "lpush", "lpushx", "lrange", "lrem", "lset", "ltrim", "memory",
    "migrate", "module", "monitor", "move", "mset", "msetnx", "multi", "object", "pfadd",
    "pfcount", "pfdebug", "pfmerge", "pfselftest", "psubscribe", "psync", "publish", "pubsub",
    "punsubscribe", "randomkey", "rename", "renamenx", "replconf", "replicaof", "restore",
    "restore-asking", "rpop", "rpoplpush", "rpush", "rpushx", "sadd", "save", "scard", "sdiff",
    "sdiffstore", "setbit", "setrange", "shutdown", "sinter", "sintercard", "sinterstore",
    "sismember", "slaveof", "slowlog", "smembers", "smismember", "smove", "sort", "sort_ro",
    "spop", "spublish", "srandmember", "srem", "sscan", "ssubscribe", "subscribe", "sunion",
    "sunionstore", "sunsubscribe", "swapdb", "sync", "unsubscribe", "unwatch", "watch", "xack",
    "xadd", "xautoclaim", "xclaim", "xdel", "xgroup", "xinfo", "xlen", "xpending", "xrange",
    "xread", "xreadgroup", "xrevrange", "xsetid", "xtrim", "zadd", "zcard", "zcount", "zdiff",
    "zdiffstore", "zincrby", "zinter", "zintercard", "zinterstore", "zlexcount", "zmpop",
    "zmscore", "zpopmax", "zpopmin", "zrandmember", "zrange", "zrangebylex", "zrangebyscore",
    "zrangestore", "zrank", "zrem", "zremrangebylex", "zremrangebyrank", "zremrangebyscore",
    "zrevrange", "zrevrangebylex", "zrevrangebyscore", "zrevrank", "zscan", "zscore", "zunion",
    "zunionstore",
];
