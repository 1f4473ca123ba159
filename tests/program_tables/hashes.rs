//! Hashes, directly and in scripts.

pub(crate) const WRITES: &str = r#"
    HSET h a 1
    HSET h a 2 b 3
    HSET h a 2
    HGETALL h
    HSET h a
    HSET h a 1 b
    HSETNX h a 9
    HSETNX h c 9
    HGET h c
    HMSET h d 4 e 5
    HMSET h d
    HINCRBY h a 5
    HINCRBY h a -10
    HINCRBY h new 1
    HINCRBY h a abc
    HSET h text abc
    HINCRBY h text 1
    HINCRBYFLOAT h a 0.5
    HINCRBYFLOAT h f 1.25
    HINCRBYFLOAT h text 1
    HINCRBYFLOAT h a abc
    HDEL h a
    HDEL h a
    HDEL h b c absent
    HDEL absent f
    HLEN h
    HSET h "" ""
    HGET h ""
    HKEYS h
    HDEL h d e new f text ""
    EXISTS h
    HSET h f v
    EXPIRE h 100
    HSET h g w
    [within 2] TTL h
    HINCRBY h n 1
    [within 2] TTL h
    DEL h
    TTL h
    EVAL "redis.call('hset', KEYS[1], 'f', 1) return redis.call('hincrby', KEYS[1], 'f', 2)" 1 h
    HGETALL h
    EVAL "local n = redis.call('hincrby', KEYS[1], 'f', -3)
        if n == 0 then return redis.call('hdel', KEYS[1], 'f') end" 1 h
    EXISTS h
"#;

pub(crate) const READS: &str = r#"
    HGET absent f
    HGETALL absent
    HMGET absent f g
    HEXISTS absent f
    HLEN absent
    HKEYS absent
    HVALS absent
    HSTRLEN absent f
    HSCAN absent 0
    HSET h a 1 b 2 c 3
    HGET h a
    HGET h absent
    HGETALL h
    HMGET h a absent c a
    HEXISTS h a
    HEXISTS h absent
    HLEN h
    HKEYS h
    HVALS h
    HSTRLEN h a
    HSTRLEN h absent
    HSCAN h 0
    HSCAN h 0 MATCH a*
    HSCAN h 0 COUNT 100
    HSCAN h abc
    HGET h
    HMGET h
    HGETALL
"#;

/// A hash that is not a listpack: each master has its own order.
pub(crate) const LARGE: &str = r#"
    EVAL "for i = 1, 200 do redis.call('hset', KEYS[1], 'field ' .. i, string.rep(i, 50)) end" 1 h
    OBJECT ENCODING h
    [any order] HGETALL h
    [any order] EVAL "return redis.call('hgetall', KEYS[1])" 1 h
    EVAL "
        local words, found = redis.call('hgetall', KEYS[1]), {}
        for at = 1, #words, 2 do found[words[at]] = words[at + 1] end
        return {#words, found['field 7'], found['field 200']}" 1 h
    EVAL "local size, h = 0, redis.call('hgetall', KEYS[1]) return #h" 1 h
    EVAL "return redis.pcall(ARGV[1], KEYS[1])[400] ~= nil" 1 h hgetall
    MULTI
    HGETALL h
    [any order] EXEC
"#;
