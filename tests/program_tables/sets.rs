//! Sets, directly and in scripts. Members of a set of strings come in no order.

pub(crate) const WRITES: &str = r#"
    SADD s a
    SADD s a
    SADD s a b c
    SCARD s
    SREM s a
    SREM s a
    SREM s b absent
    SREM absent a
    [any order] SMEMBERS s
    SADD s 1 2 3
    SMOVE s t 1
    SMOVE s t absent
    SMOVE absent t a
    [any order] SMEMBERS s
    SMEMBERS t
    EXISTS t
    SADD p a b c d e
    SCARD p
    SCARD p
    EXISTS p
    SADD i 3 1 2
    SMEMBERS i
    SADD a 1 2 3 4
    SADD b 3 4 5
    SINTERSTORE d a b
    SMEMBERS d
    SUNIONSTORE d a b
    SMEMBERS d
    SDIFFSTORE d a b
    SMEMBERS d
    SINTERSTORE d a absent
    EXISTS d
    EXPIRE a 100
    SADD a 9
    [within 2] TTL a
    SADD s
    SREM s
    EVAL "redis.call('sadd', KEYS[1], 'm') return redis.call('srem', KEYS[1], 'm')" 1 scripted
    EXISTS scripted
    EVAL "local popped = redis.call('spop', KEYS[1]) return redis.call('sismember', KEYS[1], popped)" 1 a
    SCARD a
"#;

pub(crate) const READS: &str = r#"
    SMEMBERS absent
    SCARD absent
    SISMEMBER absent a
    SMISMEMBER absent a b
    SINTER absent absent2
    SUNION absent absent2
    SDIFF absent absent2
    SSCAN absent 0
    SADD a 1 2 3 4
    SADD b 3 4 5
    SADD w x y
    SMEMBERS a
    [any order] SMEMBERS w
    SCARD a
    SISMEMBER a 1
    SISMEMBER a 9
    SMISMEMBER a 1 9 2
    SINTER a b
    [any order] SUNION a b
    [any order] SUNION a w
    [any order] SDIFF a b
    SDIFF a a
    SINTERCARD 2 a b
    SINTERCARD 2 a b LIMIT 1
    SINTERCARD 0 a
    SINTERCARD 3 a b
    SSCAN a 0
    [any order] SSCAN w 0
    SSCAN a 0 MATCH 1 COUNT 10
    SINTER
    SISMEMBER a
    [any order] EVAL "return redis.call('smembers', KEYS[1])" 1 w
    EVAL "local members = redis.call('smembers', KEYS[1]) table.sort(members) return members" 1 w
    [any order] EVAL "return redis.call('sunion', KEYS[1], KEYS[2])" 2 a w
"#;
