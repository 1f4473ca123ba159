//! Lists, directly and in scripts.

pub(crate) const WRITES: &str = r#"
    LPUSH l a
    LPUSH l b c
    RPUSH l d
    LRANGE l 0 -1
    LPUSHX l e
    RPUSHX l f
    LPUSHX absent a
    RPUSHX absent a
    EXISTS absent
    LPOP l
    RPOP l
    LPOP l 2
    RPOP l 0
    LPOP l -1
    LPOP l abc
    LPOP absent
    LPOP absent 2
    RPOP absent
    LRANGE l 0 -1
    DEL l
    RPUSH l a b a c a
    LREM l 1 a
    LREM l -1 a
    LREM l 0 absent
    LREM absent 0 a
    LREM l abc a
    LRANGE l 0 -1
    LINSERT l BEFORE a x
    LINSERT l AFTER a y
    LINSERT l AFTER nothere y
    LINSERT absent AFTER a y
    LINSERT l BESIDE a y
    LSET l 0 z
    LSET l -1 last
    LSET l 99 z
    LSET absent 0 z
    LSET l abc z
    LRANGE l 0 -1
    LTRIM l 1 2
    LRANGE l 0 -1
    LTRIM l 5 9
    EXISTS l
    LTRIM absent 0 1
    RPUSH l a b c
    RPOPLPUSH l m
    RPOPLPUSH absent m
    RPOPLPUSH l l
    LMOVE l m LEFT RIGHT
    LMOVE l m RIGHT LEFT
    LMOVE absent m LEFT LEFT
    LMOVE l m UP DOWN
    LRANGE m 0 -1
    EXISTS l
    LMPOP 1 m LEFT
    LMPOP 2 absent m RIGHT COUNT 5
    LMPOP 1 absent LEFT
    LMPOP 0 m LEFT
    EXISTS m
    RPUSH l a
    EXPIRE l 100
    RPUSH l b
    [within 2] TTL l
    LPUSH l
    LPOP
    EVAL "redis.call('rpush', KEYS[1], 'x', 'y') return redis.call('lpop', KEYS[1])" 1 scripted
    EVAL "return redis.call('rpoplpush', KEYS[1], KEYS[2])" 2 scripted other
    EXISTS scripted other
"#;

pub(crate) const READS: &str = r#"
    LRANGE absent 0 -1
    LLEN absent
    LINDEX absent 0
    LPOS absent a
    LPOS absent a COUNT 2
    RPUSH l a b c b a
    LRANGE l 0 -1
    LRANGE l 1 2
    LRANGE l -2 -1
    LRANGE l 5 9
    LRANGE l 2 1
    LRANGE l abc 1
    LLEN l
    LINDEX l 0
    LINDEX l -1
    LINDEX l 99
    LINDEX l abc
    LPOS l b
    LPOS l b RANK 2
    LPOS l b RANK -1
    LPOS l b COUNT 0
    LPOS l b COUNT 1 MAXLEN 1
    LPOS l nothere
    LPOS l b RANK 0
    LRANGE l 0
    EVAL "return {redis.call('lindex', KEYS[1], 0), redis.call('llen', KEYS[1])}" 1 l
    LMPOP 9223372036854775807 l LEFT
    EVAL "return redis.call('lmpop', '9223372036854775807', KEYS[1], 'left')" 1 l
    EVAL "return redis.call('zmpop', 1e18, KEYS[1], 'min')" 1 absent
"#;
