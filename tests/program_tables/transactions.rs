//! MULTI, EXEC and DISCARD.

pub(crate) const QUEUE: &str = r#"
    MULTI
    SET k v
    GET k
    EXEC
    GET k
    MULTI
    EXEC
    EXEC
    DISCARD
    multi
    incr n
    exec
    MULTI
    INCR n
    DISCARD
    GET n
    EXEC
    MULTI
    MULTI
    INCR n
    EXEC
    MULTI
    INCR n
    DISCARD
    DISCARD
    MULTI a
    EXEC a
    DISCARD a
    MULTI
    EXEC a
    EXEC
    MULTI
    GET absent
    EXISTS absent
    MGET absent absent2
    LRANGE absent 0 -1
    HGETALL absent
    EXEC
    MULTI
    PING
    PING hello
    ECHO hello
    TYPE k
    EXEC
    MULTI
    INCR n
    INCR n
    INCR n
    EXEC
    MULTI
    SET k w
    [other] GET k
    EXEC
    [other] GET k
"#;

pub(crate) const ERRORS: &str = r#"
    MULTI
    INCR once
    LMPOP 10 l l LEFT
    LMPOP 1 l
    LMPOP 0x1 l LEFT
    LMPOP 1.0 l LEFT
    ZMPOP 2 z MIN
    EXEC
    GET once
    DEL once
    RPUSH moved a
    MULTI
    RPUSH moved b
    SELECT 1
    SET elsewhere 1
    EXEC
    SELECT 0
    LRANGE moved 0 -1
    DEL moved
    SET text abc
    MULTI
    NOSUCHCOMMAND
    EXEC
    MULTI
    SET k v
    NOSUCHCOMMAND a b
    SET k w
    EXEC
    EXISTS k
    MULTI
    GET
    SET k v
    EXEC
    EXISTS k
    MULTI
    SET k v EX abc
    INCR text
    HSET text f v
    SET k v
    LPUSH k a
    GET k
    EXEC
    GET k
    GET text
    MULTI
    NOSUCHCOMMAND
    DISCARD
    GET k
    MULTI
    WATCH k
    GET k
    EXEC
    MULTI
    UNWATCH
    GET k
    EXEC
    MULTI
    GET
    MULTI
    EXEC
    MULTI
    EVAL
    EXEC
    MULTI
    EVAL "return (" 0
    GET k
    EXEC
    MULTI
    SUBSCRIBE channel extra
    DISCARD
    MULTI
    SET k v EX
    SET k
    EXEC
    EXEC
    MULTI
    "" a
    EXEC
"#;

/// Every common type in one transaction.
pub(crate) const TYPES: &str = r#"
    MULTI
    SET lock token NX PX 100000
    SET lock other NX PX 100000
    GET lock
    DEL lock
    GET lock
    SET lock again NX EX 100
    EXEC
    [within 2] TTL lock
    MULTI
    HSET h a 1 b 2
    HINCRBY h a 5
    HGETALL h
    HDEL h a
    HLEN h
    HSETNX h c 3
    HMGET h a b c
    EXPIRE h 100
    EXEC
    [within 2] TTL h
    MULTI
    SADD s a b
    SADD s b c
    SCARD s
    SISMEMBER s a
    SMISMEMBER s a x
    SREM s a b
    SMEMBERS s
    EXEC
    MULTI
    ZADD z 1 a 2 b 3 c
    ZINCRBY z 1.5 a
    ZSCORE z a
    ZRANGE z 0 -1 WITHSCORES
    ZREM z c
    ZCARD z
    ZPOPMIN z
    EXEC
    MULTI
    RPUSH l a b c
    LPUSH l z
    LRANGE l 0 -1
    LPOP l
    RPOP l
    LLEN l
    LREM l 0 b
    RPOPLPUSH l l2
    EXEC
    EXISTS l
    MULTI
    SET n 10
    INCR n
    INCRBY n 5
    DECR n
    APPEND n 0
    GETSET n 1
    INCRBYFLOAT n 0.5
    GETDEL n
    EXISTS n
    EXEC
    MULTI
    SETBIT b 7 1
    BITCOUNT b
    PFADD p a b c
    PFCOUNT p
    XADD x 1-1 f v
    XLEN x
    XRANGE x - +
    GEOADD g 13.361389 38.115556 Palermo
    EXEC
    MULTI
    RENAME h h2
    TYPE h2
    COPY h2 h3
    PERSIST h3
    EXISTS h h2 h3
    UNLINK h2
    EXEC
    TTL h3
    MULTI
    MSET a 1 b 2
    MSETNX a 9 c 9
    MGET a b c
    DBSIZE
    EXEC
"#;

pub(crate) const TIMES: &str = r#"
    [within 2000] MULTI
    SET k v PX 100000
    PTTL k
    TTL k
    PEXPIRE k 200000
    PTTL k
    PERSIST k
    PTTL k
    PTTL absent
    [within 4000] EXEC
    MULTI
    SET k v EX 100
    EXPIRE k 50 GT
    EXPIRE k 500 GT
    TTL k
    [within 10] EXEC
    [within 10] TTL k
    MULTI
    EXPIREAT k {now+100}
    PEXPIREAT k {nowms+100000}
    PTTL k
    [within 2000] EXEC
    MULTI
    EXPIRE k -1
    EXISTS k
    SET k v PX 0
    SET k v
    SETEX k 100 v
    PSETEX k 200000 v
    GETEX k PERSIST
    TTL k
    EXEC
    GET k
"#;

/// The effect of `SELECT` in a script ends with the script, even if the script fails.
pub(crate) const DATABASES: &str = r#"
    MULTI
    EVAL "return redis.call('select', 1)" 0
    SET leaked x
    EXEC
    GET leaked
    MULTI
    EVAL "redis.call('select', 1) redis.call('set', KEYS[1], 'one') error('on purpose')" 1 k
    SET k zero
    EVAL "return redis.call('get', KEYS[1])" 1 k
    EXEC
    GET k
    MULTI
    EVAL "redis.pcall('select', 99) redis.pcall('select', 3) return redis.call('no such command')" 0
    GET k
    SELECT 2
    EVAL "return redis.call('select', 1)" 0
    SET k two
    EVAL "redis.call('select', 4) redis.call('set', KEYS[1], 'four') redis.call('select', 1)" 1 k
    APPEND k !
    SELECT 99
    EVAL "return {redis.call('get', KEYS[1]), redis.call('select', 1), redis.call('get', KEYS[1])}" 1 k
    GET k
    EXEC
    GET k
    SCRIPT LOAD "redis.call('select', 5) return redis.call('get', KEYS[1])"
    MULTI
    EVALSHA "{sha1 redis.call('select', 5) return redis.call('get', KEYS[1])}" 1 k
    GET k
    EVAL "local run = loadstring('redis.call(\'select\', 6) return redis.call(\'set\', KEYS[1], \'six\')') return run()" 1 k
    GET k
    EVAL_RO "redis.call('select', 6) return redis.call('get', KEYS[1])" 1 k
    GET k
    EXEC
    GET k
    SELECT 6
    GET k
    GET leaked
    SELECT 4
    GET k
    SELECT 1
    GET k
    GET leaked
    SET watched one
    WATCH watched
    SELECT 0
    MULTI
    EVAL "redis.call('select', 7) return redis.call('set', KEYS[1], 'seven')" 1 watched
    SET watched zero
    EXEC
    GET watched
    SELECT 7
    GET watched
"#;

pub(crate) const OTHER_COMMANDS: &str = r#"
    SET k zero
    MULTI
    SELECT 1
    SET k one
    SELECT 99
    GET k
    SELECT 0
    GET k
    SELECT 1
    EXEC
    GET k
    SELECT 0
    GET k
    MULTI
    PUBLISH channel message
    EXEC
    MULTI
    CLIENT SETNAME tester
    CLIENT GETNAME
    EXEC
    CLIENT GETNAME
    MULTI
    CONFIG GET databases
    DBSIZE
    KEYS *
    EXEC
    MULTI
    [shape: time goes on] TIME
    [shape: time goes on] EXEC
    MULTI
    SET k w
    RESET
    EXEC
    GET k
    MULTI
    SET k w
    HELLO nonsense
    EXEC
    MULTI
    AUTH secret
    WAIT 0 0
    EXEC
"#;

pub(crate) const SCRIPTS: &str = r#"
    SCRIPT LOAD "return {KEYS[1], ARGV[1]}"
    MULTI
    EVAL "return redis.call('incr', KEYS[1])" 1 n
    INCR n
    EVAL "return redis.call('incr', KEYS[1])" 1 n
    GET n
    EXEC
    MULTI
    EVALSHA "{sha1 return {KEYS[1], ARGV[1]}}" 1 k a
    EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 k a
    EVAL "return redis.call('nosuchcommand')" 0
    EVAL "error('x')" 0
    EVAL "return {1, {2, false}, 'three'}" 0
    EVAL "return 1" 5
    GET n
    EXEC
    SET lock mine PX 100000
    MULTI
    EVAL {release} 1 lock other
    EVAL {extend} 1 lock mine 200000
    EVAL {release} 1 lock mine
    EVAL {release} 1 lock mine
    EXEC
    EXISTS lock
    MULTI
    SCRIPT FLUSH
    SCRIPT LOAD "return 'loaded after a flush'"
    SCRIPT LOAD "return 'loaded inside'"
    EVALSHA "{sha1 return 'loaded inside'}" 0
    SCRIPT EXISTS ffffffffffffffffffffffffffffffffffffffff
    EXEC
    EVALSHA "{sha1 return 'loaded after a flush'}" 0
    MULTI
    EVAL "redis.call('set', KEYS[1], 'v') redis.call('nosuchcommand')" 1 half
    SET whole v
    EXEC
    MGET half whole
    MULTI
    EVAL "redis.setresp(3) return redis.call('hgetall', KEYS[1])" 1 absent
    EVAL "redis.setresp(3) return {double = 1.5}" 0
    EXEC
"#;

/// Blocking commands do not block inside a transaction.
pub(crate) const BLOCKING: &str = r#"
    MULTI
    BLPOP absent 0
    BRPOP absent 0
    BLMOVE absent absent2 LEFT RIGHT 0
    BRPOPLPUSH absent absent2 0
    BZPOPMIN absent 0
    BZPOPMAX absent 0
    BLMPOP 0 1 absent LEFT
    BZMPOP 0 1 absent MIN
    EXEC
    RPUSH l a b c d
    ZADD z 1 m 2 n
    MULTI
    BLPOP absent l 0
    BRPOP l 0
    BLMOVE l l2 LEFT RIGHT 0
    BZPOPMIN z 0
    BZPOPMAX z 0
    BLPOP l abc
    BLPOP l -1
    EXEC
"#;
