//! EVAL and its relatives, the script cache, and the flags at the beginning of a script.

pub(crate) const NUMBER_OF_KEYS: &str = r#"
    EVAL
    EVAL "return 1"
    EVAL "return 1" abc
    EVAL "return 1" 1.5
    EVAL "return 1" ""
    EVAL "return 1" -1
    EVAL "return 1" 1
    EVAL "return 1" 3 a b
    EVAL "return 1" 99999999999999999999
    EVAL "return 1" 9223372036854775807
    EVAL "return #KEYS" 0 a b
    EVAL "return #KEYS" 00 a b
    EVAL "return (" -1
    EVAL_RO
    EVAL_RO "return 1"
    EVAL_RO "return 1" -1
    EVAL_RO "return 1" 2 a
    EVALSHA
    EVALSHA 0123456789abcdef0123456789abcdef01234567
    EVALSHA 0123456789abcdef0123456789abcdef01234567 -1
    EVALSHA 0123456789abcdef0123456789abcdef01234567 1
    EVALSHA_RO 0123456789abcdef0123456789abcdef01234567 -1
"#;

pub(crate) const CACHE: &str = r#"
    EVALSHA "{sha1 return 1}" 0
    EVALSHA_RO "{sha1 return 1}" 0
    SCRIPT EXISTS "{sha1 return 1}"
    SCRIPT LOAD "return 1"
    SCRIPT EXISTS "{sha1 return 1}"
    EVALSHA "{sha1 return 1}" 0
    EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0
    EVALSHA_RO "{sha1 return 1}" 0
    SCRIPT EXISTS E0E1F9FABFC9D4800C877A703B823AC0578FF8DB
    SCRIPT EXISTS "{sha1 return 1}" 0123456789abcdef0123456789abcdef01234567 short
    SCRIPT FLUSH
    SCRIPT EXISTS "{sha1 return 1}"
    EVALSHA "{sha1 return 1}" 0
    EVAL "return 1" 0
    EVALSHA "{sha1 return 1}" 0
    SCRIPT EXISTS "{sha1 return 1}"
    [other] EVALSHA "{sha1 return 1}" 0
    SCRIPT FLUSH ASYNC
    EVALSHA "{sha1 return 1}" 0
    EVALSHA not-a-sha 0
    EVALSHA "" 0
    EVALSHA 0123456789abcdef0123456789abcdef0123456789 0
    EVAL "return redis.call('incr', KEYS[1])" 1 n
    EVALSHA "{sha1 return redis.call('incr', KEYS[1])}" 1 n
    SCRIPT LOAD "return redis.call('incr', KEYS[1])"
    EVALSHA "{sha1 return redis.call('incr', KEYS[1])}" 1 n
    GET n
    EVAL_RO "return 'read only'" 0
    EVALSHA "{sha1 return 'read only'}" 0
    SCRIPT KILL
    SCRIPT LOAD
    SCRIPT DEBUG
    SCRIPT DEBUG NO
    SCRIPT NOSUCHSUBCOMMAND
    script exists
"#;

pub(crate) const READ_ONLY: &str = r#"
    SET k v
    EVAL_RO "return redis.call('get', KEYS[1])" 1 k
    EVAL_RO "return redis.call('set', KEYS[1], 'w')" 1 k
    EVAL_RO "return redis.pcall('set', KEYS[1], 'w')" 1 k
    EVAL_RO "return redis.pcall('set', KEYS[1], 'w')['err']" 1 k
    EVAL_RO "
        local held = redis.call('get', KEYS[1])
        redis.call('del', KEYS[1])
        return held" 1 k
    EVAL_RO "return redis.call('expire', KEYS[1], 10)" 1 k
    EVAL_RO "return redis.call('publish', 'c', 'm')" 1 k
    EVAL_RO "return redis.call('incr', KEYS[1])" 1 k
    EVAL_RO "return redis.call('getex', KEYS[1])" 1 k
    EVAL_RO "return {redis.call('exists', KEYS[1]), redis.call('ttl', KEYS[1])}" 1 k
    EVAL_RO "error('x')" 0
    EVAL_RO "return (" 0
    SCRIPT LOAD "return redis.call('set', KEYS[1], 'w')"
    EVALSHA_RO "{sha1 return redis.call('set', KEYS[1], 'w')}" 1 k
    GET k
"#;

pub(crate) const FLAGS: &str = r##"
    SET k v
    EVAL "#!lua
return 1" 0
    EVAL "#!lua
        return {KEYS[1], ARGV[1]}" 1 k a
    EVAL "#!lua
        return redis.call('set', KEYS[1], 'w')" 1 k
    EVAL "#!lua flags=no-writes
        return redis.call('get', KEYS[1])" 1 k
    EVAL "#!lua flags=no-writes
        return redis.call('set', KEYS[1], 'x')" 1 k
    EVAL "#!lua flags=no-writes
        return redis.pcall('set', KEYS[1], 'x')['err']" 1 k
    EVAL "#!lua flags=no-writes,allow-stale
        return redis.call('get', KEYS[1])" 1 k
    EVAL "#!lua flags=allow-oom
        return redis.call('set', KEYS[1], 'y')" 1 k
    EVAL "#!lua flags=no-cluster
        return redis.call('get', KEYS[1])" 1 k
    EVAL "#!lua flags=allow-cross-slot-keys
        return redis.call('get', KEYS[1])" 1 k
    EVAL_RO "#!lua
        return +" 0
    EVAL_RO "#!lua
        return +" 0
    EVAL_RO "#!lua flags=no-writes
        return +" 0
    EVAL_RO "#!lua
        return 'never run'" 0
    EVALSHA_RO "{sha1 #!lua
        return 'never run'}" 0
    EVALSHA "{sha1 #!lua
        return 'never run'}" 0
    EVAL "#!lua flags=nosuchflag
        return 1" 0
    EVAL "#!lua flags=
        return 1" 0
    EVAL "#!lua flags
        return 1" 0
    EVAL "#!lua name=mine
        return 1" 0
    EVAL "#!lua flags=no-writes flags=no-writes
        return 1" 0
    EVAL "#!lua no-writes
        return 1" 0
    EVAL "#!python
        return 1" 0
    EVAL "#!
        return 1" 0
    EVAL "#!LUA
        return 1" 0
    EVAL "#! lua
        return 1" 0
    EVAL "#!lua" 0
    EVAL "#!lua
        error('x')" 0
    EVAL "#!lua

        return redis.call('incr', KEYS[1])" 1 k
    EVAL "#!lua
        return (" 0
    EVAL " #!lua
        return 1" 0
    EVAL "# comment
        return 1" 0
    EVAL_RO "#!lua
        return redis.call('get', KEYS[1])" 1 k
    EVAL_RO "#!lua
        return redis.call('set', KEYS[1], 'z')" 1 k
    EVAL_RO "#!lua flags=no-writes
        return redis.call('get', KEYS[1])" 1 k
    MULTI
    EVAL "#!lua flags=no-writes
        return redis.call('set', KEYS[1], 'x')" 1 k
    EVAL "#!lua flags=no-writes
        return {redis.pcall('append', KEYS[1], 'x')['err'], redis.call('get', KEYS[1])}" 1 k
    EVAL_RO "#!lua flags=no-writes
        error(redis.call('get', KEYS[1]))" 1 k
    EVAL_RO "return redis.call('set', KEYS[1], 'x')" 1 k
    EVAL_RO "#!lua
        return 'never run'" 0
    EVALSHA_RO "{sha1 #!lua
        return 'never run'}" 0
    APPEND k z
    EVAL "return redis.call('append', KEYS[1], 'x')" 1 k
    EXEC
    GET k
    SCRIPT LOAD "#!lua flags=no-writes
        return redis.call('get', KEYS[1])"
    EVAL_RO "return redis.call('BLPOP', KEYS[1], 0)" 1 k
    EVAL_RO "return redis.pcall('BLMOVE', KEYS[1], KEYS[1], 'LEFT', 'LEFT', 0)['err']" 1 k
    EVAL_RO "return redis.call('BLPOP', KEYS[1])" 1 k
    SCRIPT LOAD "#!lua flags=nosuchflag
        return 1"
    SCRIPT LOAD "#!python
        return 1"
    SCRIPT LOAD "#!lua"
    GET k
"##;
