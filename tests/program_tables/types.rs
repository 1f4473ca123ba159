//! Commands on a key of another type. In every table `k` holds a list and `s` a string.

pub(crate) const WRONG_READS: &str = r#"
    RPUSH k a
    SET s text
    GET k
    GETRANGE k 0 1
    STRLEN k
    MGET k s
    GETBIT k 0
    BITCOUNT k
    PFCOUNT k
    HGET k f
    HGETALL s
    HMGET s f
    HEXISTS s f
    HLEN s
    HKEYS s
    HVALS s
    HSTRLEN s f
    HSCAN s 0
    SMEMBERS s
    SCARD s
    SISMEMBER s a
    SMISMEMBER s a
    SINTER k s
    SUNION k s
    SDIFF k s
    SSCAN s 0
    ZRANGE s 0 -1
    ZSCORE s a
    ZCARD s
    ZCOUNT s 0 1
    ZRANK s a
    ZRANGEBYSCORE s 0 1
    ZUNION 1 s
    ZSCAN s 0
    LRANGE s 0 -1
    LLEN s
    LINDEX s 0
    LPOS s a
    XLEN s
    XRANGE s - +
    GEOPOS s a
    EVAL "return redis.call('hget', KEYS[1], 'f')" 1 s
    EVAL "return redis.pcall('smembers', KEYS[1])['err']" 1 s
"#;

pub(crate) const WRONG_WRITES: &str = r#"
    RPUSH k a
    SET s text
    INCR k
    INCRBYFLOAT k 1
    APPEND k x
    SETRANGE k 0 x
    GETSET k x
    GETDEL k
    GETEX k
    SET k x GET
    SETBIT k 0 1
    BITFIELD k SET u8 0 1
    PFADD k a
    HSET s f v
    HSETNX s f v
    HINCRBY s f 1
    HINCRBYFLOAT s f 1
    HDEL s f
    SADD s a
    SREM s a
    SMOVE s other a
    SINTERSTORE other s
    ZADD s 1 a
    ZINCRBY s 1 a
    ZREM s a
    ZPOPMIN s
    ZREMRANGEBYSCORE s 0 1
    ZUNIONSTORE other 1 s
    LPUSH s a
    RPUSHX s a
    LPOP s
    LREM s 0 a
    LSET s 0 a
    LTRIM s 0 1
    LINSERT s BEFORE a b
    RPOPLPUSH s other
    LMOVE k s LEFT RIGHT
    BLPOP s 0.05
    XADD s 1-1 f v
    GEOADD s 1 1 a
    LRANGE k 0 -1
    GET s
    EXISTS other
    SET k now-a-string
    GET k
    SETNX k x
    DEL k s
"#;

/// Too few and too many arguments.
pub(crate) const ARITY: &str = r#"
    HSET h
    HSET h f
    HGET h f g
    HDEL h
    HINCRBY h f
    HSETNX h f
    SADD s
    SMEMBERS
    SMEMBERS a b
    SMOVE a b
    ZADD z
    ZADD z 1
    ZSCORE z
    ZINCRBY z 1
    ZPOPMIN z 1 2
    LPUSH l
    LPOP
    LSET l 0
    LREM l 0
    LINDEX l
    LLEN
    RPOPLPUSH a
    LMOVE a b LEFT
    BLPOP
    BLPOP k
    SETBIT b 0
    GETBIT b
    BITCOUNT
    BITCOUNT b 0
    PFADD
    PFMERGE
    XADD x
    XLEN
    XADD x * f
    GEOADD g 1 1
    GEOPOS
    MSET
    MSET a
    MSETNX a b c
    SETRANGE k 0
    INCRBYFLOAT k
    RENAME a
    COPY a
    SORT
    OBJECT
    OBJECT ENCODING
    OBJECT ENCODING a b
    DUMP
    RESTORE a
    WATCH
    MULTI a
"#;
