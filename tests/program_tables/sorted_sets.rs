//! Sorted sets, directly and in scripts.

pub(crate) const WRITES: &str = r#"
    ZADD z 1 a
    ZADD z 1 a
    ZADD z 2 a 3 b
    ZADD z NX 9 a 4 c
    ZADD z XX 5 a 9 absent
    ZADD z GT 1 a
    ZADD z LT 1 a
    ZADD z CH 7 a 8 b
    ZADD z INCR 1.5 a
    ZADD z NX INCR 1.5 a
    ZADD z XX INCR 1 absent
    ZADD z NX XX 1 a
    ZADD z GT LT 1 a
    ZADD z abc a
    ZADD z 1
    ZADD z 1 a 2
    ZADD z inf top -inf bottom
    ZADD z 0.1 tenth 1e3 thousand
    ZRANGE z 0 -1 WITHSCORES
    ZINCRBY z 2 a
    ZINCRBY z 0.3 new
    ZINCRBY z abc a
    ZINCRBY z -inf top
    ZREM z top
    ZREM z a b absent
    ZREM absent a
    ZCARD z
    ZPOPMIN z
    ZPOPMAX z
    ZPOPMIN z 2
    ZPOPMAX z 0
    ZPOPMIN absent
    ZPOPMIN absent 2
    ZPOPMIN z -1
    DEL z
    ZADD z 1 a 2 b 3 c 4 d 5 e
    ZREMRANGEBYRANK z 0 0
    ZREMRANGEBYSCORE z (2 3
    ZREMRANGEBYLEX absent - +
    ZRANGE z 0 -1
    ZMPOP 1 z MIN
    ZMPOP 2 absent z MAX COUNT 2
    ZMPOP 1 absent MIN
    EXISTS z
    ZADD a 1 x 2 y
    ZADD b 10 y 20 z
    ZUNIONSTORE d 2 a b
    ZRANGE d 0 -1 WITHSCORES
    ZUNIONSTORE d 2 a b WEIGHTS 2 1 AGGREGATE MAX
    ZRANGE d 0 -1 WITHSCORES
    ZINTERSTORE d 2 a b
    ZRANGE d 0 -1 WITHSCORES
    ZDIFFSTORE d 2 a b
    ZRANGE d 0 -1 WITHSCORES
    ZRANGESTORE d a 0 0
    ZRANGE d 0 -1 WITHSCORES
    ZINTERSTORE d 2 a absent
    EXISTS d
    EXPIRE a 100
    ZADD a 3 w
    [within 2] TTL a
    EVAL "redis.call('zadd', KEYS[1], 1.5, 'm') return redis.call('zincrby', KEYS[1], 0.25, 'm')" 1 scripted
    EVAL "return redis.call('zpopmin', KEYS[1])" 1 scripted
    EXISTS scripted
"#;

pub(crate) const READS: &str = r#"
    ZRANGE absent 0 -1
    ZRANGE absent 0 -1 WITHSCORES
    ZSCORE absent a
    ZMSCORE absent a b
    ZCARD absent
    ZCOUNT absent -inf +inf
    ZRANK absent a
    ZREVRANK absent a
    ZRANGEBYSCORE absent -inf +inf
    ZUNION 2 absent absent2
    ZSCAN absent 0
    ZADD z 1 a 2.5 b 3 c 1e20 d -0.1 e
    ZADD other 10 a 20 x
    ZRANGE z 0 -1
    ZRANGE z 0 -1 WITHSCORES
    ZRANGE z 1 2
    ZRANGE z -2 -1
    ZRANGE z 5 9
    ZRANGE z 0 -1 REV
    ZRANGE z 1 3 BYSCORE
    ZRANGE z (1 +inf BYSCORE LIMIT 1 1 WITHSCORES
    ZRANGE z [a [c BYLEX
    ZRANGE z abc 1
    ZREVRANGE z 0 1 WITHSCORES
    ZRANGEBYSCORE z -inf 3
    ZRANGEBYSCORE z (1 3 WITHSCORES
    ZRANGEBYSCORE z -inf +inf LIMIT 0 2
    ZREVRANGEBYSCORE z 3 1
    ZRANGEBYLEX z - +
    ZREVRANGEBYLEX z + -
    ZLEXCOUNT z - +
    ZRANGEBYSCORE z abc 1
    ZSCORE z b
    ZSCORE z d
    ZSCORE z e
    ZSCORE z absent
    ZMSCORE z a absent b
    ZCARD z
    ZCOUNT z 1 3
    ZCOUNT z (1 3
    ZCOUNT z abc 3
    ZRANK z a
    ZRANK z absent
    ZREVRANK z a
    ZUNION 2 z other
    ZUNION 2 z other WITHSCORES
    ZINTER 2 z other WITHSCORES
    ZINTERCARD 2 z other
    ZDIFF 2 z other
    ZDIFF 2 z other WITHSCORES
    ZSCAN z 0
    ZSCAN z 0 MATCH a
    ZUNION 0 z
    ZRANGE z
    EVAL "return redis.call('zrangebyscore', KEYS[1], '-inf', ARGV[1])" 1 z 2.5
    EVAL "return redis.call('zrange', KEYS[1], 0, 0, 'withscores')" 1 z
"#;
