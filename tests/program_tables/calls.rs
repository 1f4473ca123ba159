//! Command calls from scripts.

pub(crate) const ARGUMENTS: &str = r#"
    EVAL "return redis.call()" 0
    EVAL "return redis.call('')" 0
    EVAL "return redis.call(1)" 0
    EVAL "return redis.call(nil)" 0
    EVAL "return redis.call({})" 0
    EVAL "return redis.call({'get', 'k'})" 0
    EVAL "return redis.call('set', KEYS[1])" 1 k
    EVAL "return redis.call('set', KEYS[1], nil)" 1 k
    EVAL "return redis.call('set', KEYS[1], true)" 1 k
    EVAL "return redis.call('set', KEYS[1], {})" 1 k
    EVAL "return redis.call('set', KEYS[1], function() end)" 1 k
    EVAL "return redis.call('set', KEYS[2], 'v')" 1 k
    EVAL "return redis.call('get', KEYS[1], nil)" 1 k
    EXISTS k
    EVAL "redis.call('set', KEYS[1], 1) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], -7) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 1.5) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 0.1) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 1e15) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 1e20) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 2^53) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 3.0) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 1/3) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 1/0) return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 'v', 'ex', 100) return redis.call('ttl', KEYS[1]) > 90" 1 k
    EVAL "redis.call('set', KEYS[1], 'v', 'ex', 100.0) return redis.call('ttl', KEYS[1]) > 90" 1 k
    EVAL "redis.call('set', KEYS[1], 'v', 'ex', 100.5) return redis.call('ttl', KEYS[1]) > 90" 1 k
    EVAL "return redis.call('SET', KEYS[1], 'v')" 1 k
    EVAL "return redis.call('sEt', KEYS[1], 'v', 'Px', 100000, 'Nx')" 1 k
    EVAL "return redis.call(' get', KEYS[1])" 1 k
    EVAL "return redis.call('mset', KEYS[1])" 1 k
    EVAL "return redis.call('hset', KEYS[1], 'f')" 1 h
    EVAL "return redis.call('get', KEYS[1], 'extra')" 1 k
    EVAL "return redis.call('object')" 0
    EVAL "return redis.call('object', 'nosuchsubcommand', KEYS[1])" 1 k
    EVAL "local arguments = {} for i = 1, 1000 do arguments[i] = i end
        return redis.call('rpush', KEYS[1], unpack(arguments))" 1 long
    LINDEX long -1
    EVAL "return redis.call('get', 'undeclared')" 0
    EVAL "redis.call('set', 'undeclared', 'v') return redis.call('get', 'undeclared')" 0
    GET undeclared
"#;

/// Commands that Redis refuses inside scripts, and some that it allows.
pub(crate) const NOT_ALLOWED: &str = r#"
    EVAL "return redis.call('subscribe', 'channel')" 0
    EVAL "return redis.call('psubscribe', 'channel*')" 0
    EVAL "return redis.call('ssubscribe', 'channel')" 0
    EVAL "return redis.call('unsubscribe')" 0
    EVAL "return redis.call('multi')" 0
    EVAL "return redis.call('exec')" 0
    EVAL "return redis.call('discard')" 0
    EVAL "return redis.call('watch', 'k')" 0
    EVAL "return redis.call('unwatch')" 0
    EVAL "return redis.call('eval', 'return 1', 0)" 0
    EVAL "return redis.call('evalsha', 'da39a3ee5e6b4b0d3255bfef95601890afd80709', 0)" 0
    EVAL "return redis.call('script', 'flush')" 0
    EVAL "return redis.call('fcall', 'f', 0)" 0
    EVAL "return redis.call('auth', 'secret')" 0
    EVAL "return redis.call('hello', '3')" 0
    EVAL "return redis.call('client', 'id')" 0
    EVAL "return redis.call('config', 'get', 'databases')" 0
    EVAL "return redis.call('debug', 'sleep', '0')" 0
    EVAL "return redis.call('shutdown')" 0
    EVAL "return redis.call('save')" 0
    EVAL "return redis.call('monitor')" 0
    EVAL "return redis.call('wait', 0, 0)" 0
    EVAL "return redis.call('role')" 0
    EVAL "return redis.call('quit')" 0
    EVAL "return redis.call('reset')" 0
    EVAL "return redis.call('replicaof', 'no', 'one')" 0
    EVAL "return redis.call('slaveof', 'no', 'one')" 0
    EVAL "return redis.call('acl', 'whoami')" 0
    EVAL "return redis.call('latency', 'latest')" 0
    EVAL "return redis.call('slowlog', 'reset')" 0
    EVAL "return redis.call('module', 'list')" 0
    EVAL "return redis.call('cluster', 'info')" 0
    EVAL "return redis.pcall('subscribe', 'channel')['err']" 0
    EVAL "return redis.call('blpop', KEYS[1], 0)" 1 absent
    EVAL "return redis.call('brpop', KEYS[1], 10)" 1 absent
    EVAL "return redis.call('bzpopmin', KEYS[1], 0)" 1 absent
    EVAL "return redis.call('blmove', KEYS[1], KEYS[2], 'left', 'left', 0)" 2 absent absent2
    EVAL "redis.call('rpush', KEYS[1], 'a') return redis.call('blpop', KEYS[1], 0)" 1 list
    EVAL "return redis.call('publish', 'nobody listens', 'message')" 0
    EVAL "return redis.call('keys', '*')" 0
    EVAL "return redis.call('dbsize')" 0
    EVAL "return redis.call('randomkey')" 0
    EVAL "return redis.call('command', 'getkeys', 'get', 'k')" 0
    EVAL "redis.call('set', KEYS[1], 'v') return redis.call('dbsize')" 1 k
    [shape: chosen at random] EVAL "return redis.call('randomkey')" 0
    [any order] EVAL "return redis.call('scan', 0, 'count', 1000)" 0
"#;

/// A script may select another database. Its connection keeps the one it has.
pub(crate) const DATABASES: &str = r#"
    EVAL "redis.call('select', 1) return redis.call('set', KEYS[1], 'one')" 1 k
    GET k
    EVAL "redis.call('set', KEYS[1], 'zero') redis.call('select', 1) return redis.call('get', KEYS[1])" 1 k
    GET k
    SELECT 1
    GET k
    EVAL "return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('select', 0) return redis.call('get', KEYS[1])" 1 k
    EVAL "return redis.call('select', 99)" 0
    EVAL "return redis.call('select', 'text')" 0
    EVAL "return redis.call('select', 2)" 0
    GET k
    EVAL "redis.call('set', KEYS[1], 'changed') redis.call('select', 0)
        redis.call('set', KEYS[1], 'changed too') return redis.call('get', KEYS[1])" 1 k
    GET k
    SELECT 0
    GET k
    SELECT 3
    GET k
"#;

/// Times to live that a script sets and reads.
pub(crate) const TIMES: &str = r#"
    EVAL "redis.call('set', KEYS[1], 'v', 'px', 100000) return redis.call('ttl', KEYS[1])" 1 k
    [within 2000] EVAL "redis.call('set', KEYS[1], 'v', 'px', 100000) return redis.call('pttl', KEYS[1])" 1 k
    [within 2000] PTTL k
    [within 2000] EVAL "redis.call('psetex', KEYS[1], 100000, 'v') return redis.call('pttl', KEYS[1])" 1 k
    [within 2] EVAL "redis.call('setex', KEYS[1], 100, 'v') return redis.call('ttl', KEYS[1])" 1 k
    [within 2000] EVAL "redis.call('hset', KEYS[1], 'f', 1) redis.call('pexpire', KEYS[1], ARGV[1])
        return redis.call('pttl', KEYS[1])" 1 h 100000
    [within 2000] PTTL h
    [within 2000] EVAL "return {redis.call('hget', KEYS[1], 'f'), redis.call('pttl', KEYS[1])}" 1 h
    [within 2000] EVAL "return {1, {redis.call('pttl', KEYS[1])}, -1}" 1 h
    EVAL "return redis.call('pttl', KEYS[1]) > 98000" 1 h
    EVAL "return redis.call('pttl', KEYS[1]) <= 100000" 1 h
    [within 2] EVAL "redis.call('expire', KEYS[1], 100) return redis.call('ttl', KEYS[1])" 1 h
    [within 4] EVAL "redis.call('expireat', KEYS[1], ARGV[1]) return redis.call('ttl', KEYS[1])" 1 h {now+200}
    [within 4000] EVAL "redis.call('pexpireat', KEYS[1], ARGV[1]) return redis.call('pttl', KEYS[1])" 1 h {nowms+200000}
    [within 4] EVAL "return redis.call('expiretime', KEYS[1])" 1 h
    [within 4000] EVAL "return redis.call('pexpiretime', KEYS[1])" 1 h
    EVAL "return redis.call('expire', KEYS[1], 100, 'nx')" 1 h
    EVAL "return redis.call('expire', KEYS[1], 100, 'gt')" 1 h
    EVAL "return redis.call('expire', KEYS[1], 300, 'gt')" 1 h
    [within 6] TTL h
    EVAL "return redis.call('expire', KEYS[1], 290, 'lt')" 1 h
    [within 6] TTL h
    EVAL "redis.call('persist', KEYS[1]) return redis.call('pttl', KEYS[1])" 1 h
    TTL h
    EVAL "return redis.call('pttl', KEYS[1])" 1 absent
    EVAL "return {redis.call('ttl', KEYS[1]), redis.call('pttl', KEYS[2])}" 2 absent h
    EVAL "return redis.call('pexpire', KEYS[1], 0)" 1 h
    EXISTS h
    EVAL "redis.call('set', KEYS[1], 'v', 'ex', 100) redis.call('set', KEYS[1], 'w', 'keepttl')
        return redis.call('get', KEYS[1])" 1 k
    [within 2] TTL k
    EVAL "redis.call('getex', KEYS[1], 'px', 300000) return redis.call('get', KEYS[1])" 1 k
    [within 6000] PTTL k
    EVAL "redis.call('set', KEYS[1], 'w') return redis.call('ttl', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 'v', 'px', 100000) redis.call('rename', KEYS[1], KEYS[2])
        return redis.call('exists', KEYS[1])" 2 k renamed
    [within 2000] PTTL renamed
    EVAL "redis.call('copy', KEYS[1], KEYS[2]) return 1" 2 renamed copied
    [within 2000] PTTL copied
    EVAL "return redis.call('set', KEYS[1], 'v', 'px', 0)" 1 k
    EVAL "return redis.call('set', KEYS[1], 'v', 'px', -1)" 1 k
    EVAL "return redis.call('pexpire', KEYS[1], '9223372036854775807')" 1 copied
    EVAL "return redis.call('expire', KEYS[1], 'abc')" 1 copied
    [shape: time goes on] EVAL "return redis.call('time')" 0
    EVAL "return #redis.call('time')" 0
    EVAL "return type(redis.call('time')[1]) .. #redis.call('time')[1]" 0
"#;
