//! Scripts that fail, deliberately or not. The message names the script and the line.

pub(crate) const BY_COMMANDS: &str = r#"
    SET text abc
    EVAL "return redis.call('incr', KEYS[1])" 1 text
    EVAL "return redis.call('hget', KEYS[1], 'f')" 1 text
    EVAL "return redis.call('get')" 0
    EVAL "return redis.call('nosuchcommand')" 0
    EVAL "return redis.call('set', KEYS[1], 'v', 'ex', 'abc')" 1 text
    EVAL "return redis.call('expire', KEYS[1], 'abc')" 1 text
    EVAL "
        local one = 1

        local two = 2
        return redis.call('incr', KEYS[1])
    " 1 text
    EVAL "
        local one = 1

        local two = 2
        return redis.call('nosuchcommand')
    " 1 text
    EVAL "local function inner()
            return redis.call('incr', KEYS[1])
        end
        return inner()" 1 text
    EVAL "local function inner()
            local reply = redis.call('incr', KEYS[1])
            return reply
        end
        local function outer()
            local reply = inner()
            return reply
        end
        local reply = outer()
        return reply" 1 text
    EVAL "redis.call('set', KEYS[2], 'written') redis.call('incr', KEYS[1])" 2 text before
    GET before
    EVAL "redis.call('incr', KEYS[1]) redis.call('set', KEYS[2], 'written')" 2 text after
    GET after
    GET text
"#;

/// Leaves out a table without `err`, which crashes Redis 7.0.
pub(crate) const BY_LUA: &str = r#"
    EVAL "error('x')" 0
    EVAL "
        local one = 1

        local two = 2
        error('x')
    " 0
    EVAL "error('x', 0)" 0
    EVAL "error('x', 1)" 0
    EVAL "error('x', 2)" 0
    EVAL "error()" 0
    EVAL "error(nil)" 0
    EVAL "error(12)" 0
    EVAL "error(true)" 0
    EVAL "error({err = 'ERR mine'})" 0
    EVAL "error({err = 'MYCODE mine'})" 0
    EVAL "error({err = 'nocode'})" 0
    EVAL "error(redis.error_reply('MYCODE mine'))" 0
    EVAL "assert(false)" 0
    EVAL "assert(false, 'not so')" 0
    EVAL "assert(nil, 'not so')" 0
    EVAL "assert(false, {err = 'MYCODE not so'})" 0
    EVAL "return assert(1, 'unused')" 0
    EVAL "return assert(redis.call('exists', KEYS[1]) == 1, 'KEY is missing')" 1 absent
    EVAL "return 1 + nil" 0
    EVAL "return 1 + {}" 0
    EVAL "return 'a' + 1" 0
    EVAL "return 'a' .. nil" 0
    EVAL "return 1 < 'a'" 0
    EVAL "return nil < 1" 0
    EVAL "return #nil" 0
    EVAL "local t = nil return t.field" 0
    EVAL "local t = {} return t.inner.field" 0
    EVAL "local t = {} return t:method()" 0
    EVAL "local f = nil f()" 0
    EVAL "return string.rep()" 0
    EVAL "return ('x'):rep('many')" 0
    EVAL "return tonumber()" 0
    EVAL "return table.concat({1, {}, 3})" 0
    EVAL "local function again() return 1 + again() end return again()" 0
    EVAL "local function outer()
            local function inner() error('deep') end
            inner()
        end
        outer()" 0
    EVAL "local t = setmetatable({}, {__index = function(_, name) error('no ' .. name) end})
        return t.field" 0
"#;

pub(crate) const CAUGHT: &str = r#"
    SET text abc
    EVAL "return redis.pcall('incr', KEYS[1])" 1 text
    EVAL "return redis.pcall('incr', KEYS[1])['err']" 1 text
    EVAL "return redis.pcall('nosuchcommand')" 0
    EVAL "return redis.pcall('nosuchcommand')['err']" 0
    EVAL "return redis.pcall('get')" 0
    EVAL "return redis.pcall('get')['err']" 0
    EVAL "return redis.pcall()" 0
    EVAL "return redis.pcall({})" 0
    EVAL "return redis.pcall('get', KEYS[1])" 1 text
    EVAL "return redis.pcall('get', KEYS[1])" 1 absent
    EVAL "return type(redis.pcall('incr', KEYS[1]))" 1 text
    EVAL "return {redis.pcall('incr', KEYS[1]), 'after'}" 1 text
    EVAL "redis.pcall('incr', KEYS[1]) return 'went on'" 1 text
    EVAL "local reply = redis.pcall('incr', KEYS[1])
        if reply['err'] then return redis.error_reply('WRONG ' .. reply['err']) end" 1 text
    EVAL "local reply = redis.pcall('incr', KEYS[1])
        local fields = {}
        for name, value in pairs(reply) do fields[#fields + 1] = name .. '=' .. tostring(value) end
        table.sort(fields)
        return fields" 1 text
    EVAL "local fine, failure = pcall(redis.call, 'incr', KEYS[1]) return failure" 1 text
    EVAL "local fine, failure = pcall(redis.call, 'incr', KEYS[1]) return {tostring(fine), type(failure)}" 1 text
    EVAL "local fine, failure = pcall(redis.call, 'incr', KEYS[1]) return failure['err']" 1 text
    EVAL "local fine, failure = pcall(redis.call, 'incr', KEYS[1]) error(failure)" 1 text
    EVAL "local fine, failure = pcall(function() return redis.call('incr', KEYS[1]) end)
        return failure['err']" 1 text
    EVAL "local fine, failure = pcall(redis.call, 'nosuchcommand') return failure['err']" 0
    EVAL "local fine, reply = pcall(redis.call, 'get', KEYS[1]) return {tostring(fine), reply}" 1 text
    EVAL "local fine, failure = pcall(error, 'mine') return {tostring(fine), failure}" 0
    EVAL "local fine, failure = pcall(function() error('mine') end) return failure" 0
    EVAL "local fine, failure = pcall(function() error({err = 'MYCODE mine'}) end) return failure" 0
    EVAL "local fine, failure = pcall(function() local t = nil return t.x end) return failure" 0
    EVAL "return {pcall(function() return 1, 2, 3 end)}" 0
    EVAL "local fine, value = xpcall(function() return redis.call('incr', KEYS[1]) end,
            function(failure) return 'handled: ' .. failure['err'] end)
        return {tostring(fine), value}" 1 text
    EVAL "local fine, value = xpcall(function() error('mine') end,
            function(failure) return 'handled: ' .. failure end)
        return {tostring(fine), value}" 0
    EVAL "return {xpcall(function() return redis.call('get', KEYS[1]) end, error)}" 1 text
    EVAL "pcall(function() redis.call('set', KEYS[1], 'new') error('afterwards') end)
        return redis.call('get', KEYS[1])" 1 k
    GET k
    EVAL "return pcall(pcall)" 0
    EVAL "local co = coroutine.create(function() return redis.call('incr', KEYS[1]) end)
        local fine, failure = coroutine.resume(co)
        return {tostring(fine), type(failure), failure['err']}" 1 text
"#;

pub(crate) const SYNTAX: &str = r##"
    EVAL "return (" 0
    EVAL "this is not Lua" 0
    EVAL "retrun 1" 0
    EVAL "return 1 return 2" 0
    EVAL "if true then" 0
    EVAL "end" 0
    EVAL "return 'unfinished" 0
    EVAL "return [[unfinished" 0
    EVAL "--[[ unfinished comment" 0
    EVAL "return 1 +" 0
    EVAL "return 09x" 0
    EVAL "goto done" 0
    EVAL "local 1 = 2" 0
    EVAL "return ..." 0
    EVAL "return select('#', ...)" 0
    EVAL "break" 0
    EVAL "
        local one = 1

        local two =
        return one" 0
    EVAL "return 1 $" 0
    SCRIPT LOAD "return ("
    SCRIPT LOAD "this is not Lua"
    SCRIPT LOAD "
        local one = 1

        if one then"
    SCRIPT LOAD "return ..."
    SCRIPT LOAD ""
    SCRIPT EXISTS da39a3ee5e6b4b0d3255bfef95601890afd80709
    EVALSHA da39a3ee5e6b4b0d3255bfef95601890afd80709 0
"##;

/// Odd values that are raised or returned, limited to those that do not crash Redis.
pub(crate) const ODD: &str = r#"
    EVAL "error()" 0
    EVAL "error(nil)" 0
    EVAL "error(true)" 0
    EVAL "error(5)" 0
    EVAL "error(cjson.null)" 0
    EVAL "error({err=5})" 0
    EVAL "error({err='x'})" 0
    EVAL "error(setmetatable({},{__index={err='X y'}}))" 0
    EVAL "error(setmetatable({err='a b'},{__metatable=5}))" 0
    EVAL "error({err=''})" 0
    EVAL "error('')" 0
    EVAL "error('a' .. string.char(0) .. 'b')" 0
    EVAL "error({err='a' .. string.char(0) .. 'b'})" 0
    EVAL "local a,b=coroutine.resume(coroutine.create(function() error({}) end)) return type(b)" 0
    EVAL "local a,b=pcall(error,{}) return type(b)" 0
    EVAL "local a,b=pcall(error) return type(b)" 0
    EVAL "return {pcall(error,5)}" 0
    EVAL "return {ok=5}" 0
    EVAL "return {err={}}" 0
    EVAL "return {err=5}" 0
    EVAL "return {err='x'}" 0
    EVAL "return {1,{err='x'},2}" 0
    EVAL "return {err='x',1}" 0
    EVAL "local t={} for i=1,100 do t={t} end return t" 0
    EVAL "local t={} for i=1,20 do t={t} end return t" 0
    EVAL "return {double=3.5}" 0
    EVAL "return {double='x'}" 0
    EVAL "return {map=5}" 0
    EVAL "return function() end" 0
    EVAL "return coroutine.create(function() end)" 0
    EVAL "return cjson.null" 0
    EVAL "return {nil,1}" 0
    EVAL "return {1,nil,3}" 0
    EVAL "return {false,true,1.9}" 0
    EVAL "return 1/0" 0
    EVAL "return 0/0" 0
    EVAL "return -1/0" 0
    EVAL "return 2^53" 0
    EVAL "return redis.pcall('nope')" 0
    EVAL "return redis.call('nope')" 0
    EVAL "return redis.error_reply(5)" 0
    EVAL "return redis.error_reply()" 0
    EVAL "return redis.error_reply({})" 0
    EVAL "return redis.error_reply('x y')" 0
    EVAL "local function f() return f()+1 end return f()" 0
    EVAL "local function f() f() return 1 end return f()" 0
    EVAL "return pcall(function() local function f() return f()+1 end return f() end)" 0
    EVAL "local s='x' error(string.rep(s,100000))" 0
    EVAL "return {err=''}" 0
    EVAL "return {ok=''}" 0
    EVAL "coroutine.yield()" 0
    EVAL "assert(false)" 0
    EVAL "assert(nil,{})" 0
    EVAL "assert(false,'x')" 0
    EVAL "return xpcall(error, error)" 0
    EVAL "return select(2,xpcall(function() error({}) end, function(e) return type(e) end))" 0
    EVAL "return redis.call('publish', 'x', true)" 0
    EVAL "return redis.call('publish', 'x', {})" 0
    EVAL "return redis.call('publish', 'x', function() end)" 0
    EVAL "return redis.call({})" 0
    EVAL "return redis.call(true)" 0
    EVAL "return redis.call('get', nil)" 0
    EVAL "return redis.call('sort', 'lock:1', true, 1)" 0
    EVAL "return setmetatable({ok='X y'},{__index=function() error('y') end})" 0
    EVAL "return setmetatable({1,2},{__index=function() error('y') end})" 0
    EVAL "return setmetatable({},{__index=function() return 1 end})" 0
    EVAL "return setmetatable({err='X y'},{__index=function() return {} end, __metatable=false})" 0
"#;
