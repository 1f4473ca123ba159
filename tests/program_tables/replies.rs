//! Return values of scripts, and the replies that clients see for them.

pub(crate) const SIMPLE: &str = r##"
    EVAL "" 0
    EVAL "  " 0
    EVAL "-- only a comment" 0
    EVAL "return" 0
    EVAL "return nil" 0
    EVAL "return 0" 0
    EVAL "return -1" 0
    EVAL "return 1" 0
    EVAL "return 1 -- a comment at the end" 0
    EVAL "return 1;" 0
    EVAL "return true" 0
    EVAL "return false" 0
    EVAL "return 'text'" 0
    EVAL "return ''" 0
    EVAL "return '12'" 0
    EVAL "return 1, 2" 0
    EVAL "return unpack({5, 6})" 0
    EVAL "return function() end" 0
    EVAL "return coroutine.create(function() end)" 0
    EVAL "do return 7 end" 0
    EVAL "local one = 1 if one == 1 then return 'one' end return 'other'" 0
    EVAL "local sum = 0 for i = 1, 10 do sum = sum + i end return sum" 0
"##;

/// Numbers become integers, truncated towards zero.
pub(crate) const NUMBERS: &str = r#"
    EVAL "return 3.99" 0
    EVAL "return -3.99" 0
    EVAL "return 0.1" 0
    EVAL "return -0.1" 0
    EVAL "return 1e3" 0
    EVAL "return 1e15" 0
    EVAL "return 2^53" 0
    EVAL "return -2^53" 0
    EVAL "return 2^62" 0
    EVAL "return tonumber('0x10')" 0
    EVAL "return tonumber('ten')" 0
    EVAL "return tostring(3.5)" 0
    EVAL "return tostring(1e100)" 0
    EVAL "return 10 / 4" 0
    EVAL "return 10 % 4" 0
    EVAL "return {3.99, -3.99, 1e3}" 0
"#;

pub(crate) const STRINGS: &str = r#"
    EVAL "return '\0\1\2\255'" 0
    EVAL "return 'a\r\nb'" 0
    EVAL "return '\r\n'" 0
    EVAL "return '$5\r\nhello\r\n'" 0
    EVAL "return {'\0', '\r\n', '\255\254'}" 0
    EVAL "return #'\0\0\0'" 0
    EVAL "return 'größer'" 0
    EVAL "local all = {} for byte = 0, 255 do all[#all + 1] = string.char(byte) end return table.concat(all)" 0
    EVAL "return string.rep('x', 16384)" 0
    EVAL "return string.rep('x', 16385)" 0
    EVAL "return string.rep('0123456789', 100000)" 0
    EVAL "return redis.call('set', KEYS[1], string.rep('\0\255', 50000))" 1 k
    STRLEN k
    EVAL "return redis.call('get', KEYS[1])" 1 k
    EVAL "redis.call('set', KEYS[1], 'a\0b\r\nc') return redis.call('get', KEYS[1])" 1 k
    GET k
    EVAL "return {KEYS[1], ARGV[1], ARGV[2]}" 1 "" "" " "
"#;

pub(crate) const LISTS: &str = r#"
    EVAL "return {}" 0
    EVAL "return {{}}" 0
    EVAL "return {{}, {}}" 0
    EVAL "return {1, 2, 3}" 0
    EVAL "return {'a', 2, 'c', -4}" 0
    EVAL "return {1, nil, 3}" 0
    EVAL "return {nil}" 0
    EVAL "return {nil, 1}" 0
    EVAL "return {1, 2, nil}" 0
    EVAL "return {true, false, true}" 0
    EVAL "return {false}" 0
    EVAL "return {1, {2, {3, {}}}, 'four'}" 0
    EVAL "return {a = 1}" 0
    EVAL "return {1, 2, a = 3}" 0
    EVAL "return {[1] = 'a', [3] = 'c'}" 0
    EVAL "return {[0] = 'zero', 'one'}" 0
    EVAL "return {1, function() end, 3}" 0
    EVAL "return {{ok = 'fine'}, {err = 'ERR broken'}, 'text'}" 0
    EVAL "return {redis.status_reply('fine'), redis.error_reply('broken')}" 0
    EVAL "local t = {} for i = 1, 50 do t = {t} end return t" 0
    EVAL "local t = {} for i = 1, 50 do t = {i, t, 'after'} end return t" 0
    EVAL "local t = {} for i = 1, 5000 do t[i] = i end return t" 0
    EVAL "local t = {} for i = 1, 1000 do t[i] = {tostring(i), {i}} end return t" 0
    EVAL "return KEYS" 0
    EVAL "return ARGV" 0
    EVAL "return KEYS" 2 a b c
    EVAL "return ARGV" 2 a b c
    EVAL "return {KEYS, ARGV}" 1 a b c
    EVAL "return setmetatable({1, 2}, {__index = function() return 9 end})" 0
"#;

pub(crate) const STATUSES: &str = r#"
    EVAL "return {ok = 'fine'}" 0
    EVAL "return {ok = ''}" 0
    EVAL "return {ok = 'two\r\nlines'}" 0
    EVAL "return {ok = 1}" 0
    EVAL "return {ok = true}" 0
    EVAL "return {ok = 'fine', 1, 2}" 0
    EVAL "return {ok = 'fine', err = 'ERR broken'}" 0
    EVAL "return redis.status_reply('FINE')" 0
    EVAL "return redis.status_reply('')" 0
    EVAL "return redis.status_reply()" 0
    EVAL "return redis.status_reply(1)" 0
    EVAL "return redis.status_reply('a', 'b')" 0
    EVAL "return redis.status_reply('fine')['ok']" 0
    EVAL "return redis.call('set', KEYS[1], 'v')" 1 k
    EVAL "return redis.call('set', KEYS[1], 'v')['ok']" 1 k
    EVAL "return redis.call('type', KEYS[1])" 1 k
    EVAL "return redis.call('type', KEYS[1])['ok']" 1 k
    EVAL "return redis.call('type', KEYS[1]) == 'string'" 1 k
    EVAL "return redis.call('ping')" 0
    EVAL "return redis.call('ping', 'hello')" 0
    EVAL "return redis.call('echo', 'hello')" 0
"#;

pub(crate) const ERRORS: &str = r#"
    EVAL "return {err = 'ERR broken'}" 0
    EVAL "return {err = 'MYCODE broken'}" 0
    EVAL "return {err = 'nocode'}" 0
    EVAL "return {err = 'two words'}" 0
    EVAL "return {err = ''}" 0
    EVAL "return {err = '-ERR broken'}" 0
    EVAL "return {err = 'ERR two\r\nlines'}" 0
    EVAL "return {err = 1}" 0
    EVAL "return redis.error_reply('broken')" 0
    EVAL "return redis.error_reply('My Err')" 0
    EVAL "return redis.error_reply('ERR broken')" 0
    EVAL "return redis.error_reply('-MYCODE broken')" 0
    EVAL "return redis.error_reply('MYCODE')" 0
    EVAL "return redis.error_reply('')" 0
    EVAL "return redis.error_reply()" 0
    EVAL "return redis.error_reply(1)" 0
    EVAL "return redis.error_reply('a', 'b')" 0
    EVAL "return redis.error_reply('broken')['err']" 0
    EVAL "return redis.error_reply('-MYCODE broken')['err']" 0
    EVAL "return redis.error_reply(ARGV[1])" 1 k NON_REENTRANT_REACQUIRE
"#;

/// Replies of commands, passed on or inspected.
pub(crate) const PASSED_ON: &str = r#"
    EVAL "return redis.call('get', KEYS[1])" 1 absent
    EVAL "return redis.call('get', KEYS[1]) == false" 1 absent
    EVAL "return type(redis.call('get', KEYS[1]))" 1 absent
    EVAL "return redis.call('exists', KEYS[1])" 1 absent
    EVAL "return redis.call('mget', KEYS[1], KEYS[2])" 2 absent absent2
    EVAL "return redis.call('hgetall', KEYS[1])" 1 absent
    EVAL "return redis.call('hget', KEYS[1], 'f')" 1 absent
    EVAL "return redis.call('lrange', KEYS[1], 0, -1)" 1 absent
    EVAL "return redis.call('lpop', KEYS[1])" 1 absent
    EVAL "return redis.call('lpop', KEYS[1], 2)" 1 absent
    EVAL "return redis.call('zscore', KEYS[1], 'm')" 1 absent
    EVAL "return redis.call('set', KEYS[1], 'v', 'nx')" 1 k
    EVAL "return redis.call('set', KEYS[1], 'v', 'nx')" 1 k
    EVAL "return type(redis.call('set', KEYS[1], 'v', 'nx'))" 1 k
    EVAL "return redis.call('incr', KEYS[1])" 1 n
    EVAL "return type(redis.call('incr', KEYS[1]))" 1 n
    EVAL "return redis.call('incr', KEYS[1]) + 10" 1 n
    EVAL "return redis.call('get', KEYS[1]) + 10" 1 n
    EVAL "return redis.call('incrbyfloat', KEYS[1], '0.5')" 1 n
    HSET h f v g w
    EVAL "return redis.call('hgetall', KEYS[1])" 1 h
    EVAL "return #redis.call('hgetall', KEYS[1])" 1 h
    EVAL "return redis.call('hmget', KEYS[1], 'f', 'absent', 'g')" 1 h
    EVAL "return redis.call('hmget', KEYS[1], 'f', 'absent', 'g')[2]" 1 h
    ZADD z 1 a 2.5 b
    EVAL "return redis.call('zrange', KEYS[1], 0, -1, 'withscores')" 1 z
    EVAL "return redis.call('zscore', KEYS[1], 'b')" 1 z
    EVAL "return type(redis.call('zscore', KEYS[1], 'b'))" 1 z
    EVAL "return redis.call('zincrby', KEYS[1], 0.25, 'b')" 1 z
"#;

/// After `redis.setresp(3)`, a script sees the types of RESP3 and may return them.
pub(crate) const RESP3: &str = r#"
    EVAL "redis.setresp(3) return {map = {a = 1}}" 0
    EVAL "redis.setresp(3) return {map = {}}" 0
    EVAL "redis.setresp(3) return {map = {a = {map = {b = 'c'}}}}" 0
    EVAL "redis.setresp(3) return {set = {member = true}}" 0
    EVAL "redis.setresp(3) return {set = {}}" 0
    EVAL "redis.setresp(3) return {double = 3.25}" 0
    EVAL "redis.setresp(3) return {double = -0.1}" 0
    EVAL "redis.setresp(3) return {double = 1/0}" 0
    EVAL "redis.setresp(3) return {double = 2}" 0
    EVAL "redis.setresp(3) return {big_number = '1234567890123456789012345678901234567890'}" 0
    EVAL "redis.setresp(3) return {big_number = '12\r\n34'}" 0
    EVAL "redis.setresp(3) return {verbatim_string = {string = 'text', format = 'txt'}}" 0
    EVAL "redis.setresp(3) return {verbatim_string = {string = 'te\0xt', format = 'mkd'}}" 0
    EVAL "redis.setresp(3) return true" 0
    EVAL "redis.setresp(3) return false" 0
    EVAL "redis.setresp(3) return nil" 0
    EVAL "redis.setresp(3) return {true, false, 1, 'a'}" 0
    EVAL "redis.setresp(3) return {{double = 1.5}, {map = {a = true}}, {set = {a = true}}}" 0
    EVAL "return {map = {a = 1}}" 0
    EVAL "return {set = {member = true}}" 0
    EVAL "return {double = 3.25}" 0
    EVAL "return {big_number = '12345678901234567890'}" 0
    EVAL "return {verbatim_string = {string = 'text', format = 'txt'}}" 0
    HSET h f v
    SADD s m
    ZADD z 2.5 m
    EVAL "redis.setresp(3) return redis.call('hgetall', KEYS[1])" 1 h
    EVAL "redis.setresp(3) return redis.call('hgetall', KEYS[1]).map.f" 1 h
    EVAL "redis.setresp(3) return redis.call('hgetall', KEYS[1])" 1 absent
    EVAL "redis.setresp(3) return redis.call('smembers', KEYS[1])" 1 s
    EVAL "redis.setresp(3) return redis.call('smembers', KEYS[1]).set.m" 1 s
    EVAL "redis.setresp(3) return redis.call('zscore', KEYS[1], 'm')" 1 z
    EVAL "redis.setresp(3) return tostring(redis.call('zscore', KEYS[1], 'm').double)" 1 z
    EVAL "redis.setresp(3) return redis.call('zrange', KEYS[1], 0, -1, 'withscores')" 1 z
    EVAL "redis.setresp(3) return redis.call('get', KEYS[1])" 1 absent
    EVAL "redis.setresp(3) return type(redis.call('get', KEYS[1]))" 1 absent
    EVAL "redis.setresp(3) return redis.call('zscore', KEYS[1], 'absent')" 1 z
    EVAL "redis.setresp(3) return {redis.call('get', KEYS[1]), 1}" 1 absent
    EVAL "redis.setresp(3) redis.setresp(2) return type(redis.call('get', KEYS[1]))" 1 absent
    EVAL "redis.setresp(3) redis.setresp(2) return redis.call('hgetall', KEYS[1])" 1 h
    EVAL "return type(redis.call('get', KEYS[1]))" 1 absent
    EVAL "redis.setresp(1)" 0
    EVAL "redis.setresp(4)" 0
    EVAL "redis.setresp()" 0
    EVAL "redis.setresp(2, 3)" 0
    EVAL "redis.setresp('three')" 0
    EVAL "return redis.setresp(3)" 0
    EVAL "return redis.call('hgetall', KEYS[1])" 1 h
    EVAL "return redis.call('smembers', KEYS[1])" 1 s
    EVAL "return redis.call('zscore', KEYS[1], 'm')" 1 z
    EVAL "return redis.call('zrange', KEYS[1], 0, -1, 'withscores')" 1 z
"#;
