//! Sets, directly and in scripts. The members of a set of strings have no order.

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

/// Random elements in scripts: the same on all masters, and in every form of command that Redis has for it.
pub(crate) const DRAWN: &str = r#"
    SADD s a
    EVAL "return redis.call('spop', KEYS[1])" 1 s
    EXISTS s
    EVAL "return redis.call('spop', KEYS[1])" 1 s
    EVAL "return redis.call('spop', KEYS[1], 2)" 1 s
    EVAL "redis.setresp(3) return redis.call('spop', KEYS[1], 2)" 1 s
    EVAL "redis.setresp(3) return redis.call('spop', KEYS[1])" 1 s
    SADD s a b c d e f g h
    EVAL "return redis.call('spop', KEYS[1], 0)" 1 s
    EVAL "return #redis.call('spop', KEYS[1], 3)" 1 s
    SCARD s
    EVAL "return redis.call('spop', KEYS[1], 'x')" 1 s
    EVAL "return redis.call('spop', KEYS[1], -1)" 1 s
    EVAL "return redis.call('spop', KEYS[1], 1.5)" 1 s
    EVAL "return redis.call('spop', KEYS[1], '01')" 1 s
    EVAL "return redis.call('spop', KEYS[1], 1, 2)" 1 s
    EVAL "return redis.pcall('spop', KEYS[1], 'x').err" 1 s
    EVAL "return redis.pcall('spop').err" 1 s
    SCARD s
    EVAL "redis.setresp(3) local n = 0 for _ in pairs(redis.call('spop', KEYS[1], '2').set) do n = n + 1 end return n" 1 s
    [shape: chosen at random] EVAL "return redis.call('spop', KEYS[1])" 1 s
    [shape: chosen at random] EVAL "redis.setresp(3) return redis.call('spop', KEYS[1])" 1 s
    DEL s
    SADD s a b c
    [any order] EVAL "return redis.call('spop', KEYS[1], 100)" 1 s
    EXISTS s
    SADD s a b c
    [any order] EVAL "redis.setresp(3) return redis.call('spop', KEYS[1], 3)" 1 s
    SADD n 5
    EVAL "return redis.call('spop', KEYS[1])" 1 n
    SET text v
    EVAL "return redis.call('spop', KEYS[1])" 1 text
    EVAL "return redis.call('spop', KEYS[1], 0)" 1 text
    EVAL "return redis.call('spop', KEYS[1], 'x')" 1 text
    EVAL "return redis.call('srandmember', KEYS[1])" 1 text
    EVAL "return redis.call('srandmember', KEYS[1])" 1 absent
    EVAL "return redis.call('srandmember', KEYS[1], 3)" 1 absent
    EVAL "redis.setresp(3) return redis.call('srandmember', KEYS[1], 3)" 1 absent
    SADD r x y z
    [shape: chosen at random] EVAL "return redis.call('srandmember', KEYS[1])" 1 r
    [any order] EVAL "return redis.call('srandmember', KEYS[1], 3)" 1 r
    [any order] EVAL "redis.setresp(3) return redis.call('srandmember', KEYS[1], 9)" 1 r
    EVAL "return #redis.call('srandmember', KEYS[1], -7)" 1 r
    EVAL "return #redis.call('srandmember', KEYS[1], '2')" 1 r
    EVAL "return redis.call('srandmember', KEYS[1], 0)" 1 r
    EVAL "return redis.call('srandmember', KEYS[1], 'x')" 1 r
    EVAL "return redis.call('srandmember', KEYS[1], 1, 2)" 1 r
    EVAL_RO "return #redis.call('srandmember', KEYS[1], 2)" 1 r
    EVAL_RO "return redis.call('spop', KEYS[1])" 1 r
    HSET h f v
    EVAL "return redis.call('hrandfield', KEYS[1])" 1 h
    EVAL "return redis.call('hrandfield', KEYS[1], 4)" 1 h
    EVAL "return redis.call('hrandfield', KEYS[1], -3, 'withvalues')" 1 h
    EVAL "redis.setresp(3) return redis.call('hrandfield', KEYS[1], 2, 'WITHVALUES')" 1 h
    EVAL "return redis.call('hrandfield', KEYS[1], 2, 'nothing')" 1 h
    EVAL "return redis.call('hrandfield', KEYS[1], 'x', 'withvalues')" 1 h
    EVAL "return redis.call('hrandfield', KEYS[1], 2, 'withvalues')" 1 absent
    EVAL "return redis.call('hrandfield', KEYS[1])" 1 r
    ZADD z 1.5 m
    EVAL "return redis.call('zrandmember', KEYS[1])" 1 z
    EVAL "return redis.call('zrandmember', KEYS[1], 4)" 1 z
    EVAL "return redis.call('zrandmember', KEYS[1], -3, 'withscores')" 1 z
    EVAL "redis.setresp(3) return redis.call('zrandmember', KEYS[1], 2, 'withscores')" 1 z
    EVAL "return redis.call('zrandmember', KEYS[1], 2, 'withvalues')" 1 z
    EVAL "return redis.call('zrandmember', KEYS[1], 2)" 1 absent
    EVAL "return redis.call('zrandmember', KEYS[1])" 1 absent
    EVAL "return redis.call('randomkey', 'x')" 0
    FLUSHALL
    EVAL "return redis.call('randomkey')" 0
    SET only v
    EVAL "return redis.call('randomkey')" 0
"#;

/// Random elements outside scripts, and in commands queued by `MULTI`.
pub(crate) const DRAWN_ALONE: &str = r#"
    RANDOMKEY
    RANDOMKEY x
    SRANDMEMBER absent
    SRANDMEMBER absent 3
    SRANDMEMBER absent -3
    SADD s a
    SRANDMEMBER s
    SRANDMEMBER s 3
    SRANDMEMBER s -3
    SRANDMEMBER s 0
    SRANDMEMBER s x
    SRANDMEMBER s 1.5
    SRANDMEMBER s 1 2
    SRANDMEMBER s -9223372036854775808
    SRANDMEMBER s 9223372036854775808
    SRANDMEMBER
    RANDOMKEY
    SPOP s x
    SPOP s -1
    SPOP s 0
    SPOP s 1 2
    SPOP
    SPOP s
    EXISTS s
    SPOP s
    SPOP s 2
    SADD s a b c
    [any order] SPOP s 100
    EXISTS s
    SADD s a b c
    [any order] SPOP s 3
    SADD s a b c d
    [shape: chosen at random] SPOP s
    SCARD s
    [shape: chosen at random] SPOP s 2
    SCARD s
    [shape: chosen at random] SRANDMEMBER s
    SET text v
    SPOP text
    SPOP text 0
    SPOP text x
    SRANDMEMBER text
    SRANDMEMBER text 2
    SET lock v NX PX 100000
    SPOP lock
    SRANDMEMBER lock
    HRANDFIELD lock 1 WITHVALUES
    ZRANDMEMBER lock 1
    HSET h f v
    HRANDFIELD h
    HRANDFIELD h 4
    HRANDFIELD h -3
    HRANDFIELD h -3 WITHVALUES
    HRANDFIELD h 2 withvalues
    HRANDFIELD h 0 withvalues
    HRANDFIELD h 2 nothing
    HRANDFIELD h 2 withvalues more
    HRANDFIELD h x withvalues
    HRANDFIELD h -9223372036854775808 withvalues
    HRANDFIELD absent
    HRANDFIELD absent 2
    HRANDFIELD absent 2 withvalues
    HRANDFIELD s
    HRANDFIELD
    HSET withvalues f v
    HRANDFIELD withvalues 2
    ZADD z 1.5 m
    ZRANDMEMBER z
    ZRANDMEMBER z 4
    ZRANDMEMBER z -3
    ZRANDMEMBER z -3 WITHSCORES
    ZRANDMEMBER z 2 withscores
    ZRANDMEMBER z 2 withvalues
    ZRANDMEMBER z x
    ZRANDMEMBER absent
    ZRANDMEMBER absent 2
    ZRANDMEMBER absent 2 WITHSCORES
    ZRANDMEMBER s
    ZRANDMEMBER
    DEL s
    SADD s a
    MULTI
    SRANDMEMBER s
    SRANDMEMBER s 2
    SRANDMEMBER s -2
    SRANDMEMBER absent
    SRANDMEMBER absent 2
    SRANDMEMBER text
    HRANDFIELD h
    HRANDFIELD h 2
    HRANDFIELD h -2 WITHVALUES
    HRANDFIELD absent 2
    ZRANDMEMBER z
    ZRANDMEMBER z -2
    ZRANDMEMBER z -2 WITHSCORES
    ZRANDMEMBER absent
    SPOP s
    SPOP s
    SPOP s 2
    SPOP text
    EXEC
    EXISTS s
    SADD s a b c
    MULTI
    SPOP s 1
    SPOP s
    SPOP
    SCARD s
    EXEC
    MULTI
    SPOP s 0
    [shape: queued] SPOP s 5
    SCARD s
    [any order] EXEC
    FLUSHALL
    MULTI
    RANDOMKEY
    SET only v
    RANDOMKEY
    EXEC
    RANDOMKEY
    SET lock v NX PX 100000
    DEL only
    RANDOMKEY
    SELECT 3
    RANDOMKEY
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
