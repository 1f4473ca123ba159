//! The environment of a script: global names, `KEYS` and `ARGV`, the `redis` table.

pub(crate) const GLOBALS: &str = r#"
    EVAL "return undefined" 0
    EVAL "return undefined.field" 0
    EVAL "undefined()" 0
    EVAL "
        local one = 1

        return undefined" 0
    EVAL "x = 1" 0
    EVAL "x = 1 return x" 0
    EVAL "function named() return 1 end return named()" 0
    EVAL "local function named() return 1 end return named()" 0
    EVAL "_G.x = 1" 0
    EVAL "_G['x'] = 1" 0
    EVAL "return _G.x" 0
    EVAL "return rawget(_G, 'x')" 0
    EVAL "return type(getmetatable(_G))" 0
    EVAL "return getmetatable(_G).__index" 0
    EVAL "getmetatable(_G).__index = nil" 0
    EVAL "local shared = getmetatable(_G) shared.__index = {} return 1" 0
    [shape: in words of Lua] EVAL "setmetatable(_G, {})" 0
    EVAL "setfenv(1, {})" 0
    EVAL "return type(getfenv(1))" 0
    EVAL "string.mine = 1" 0
    EVAL "table.insert = nil" 0
    EVAL "redis.mine = 1" 0
    EVAL "redis.call = nil" 0
    EVAL "redis = nil return 1" 0
    EVAL "redis = nil return redis.call('ping')" 0
    EVAL "
        redis = 1" 0
    EVAL "return {pcall(function() redis = {} end), redis.call('get', 'k')}" 0
    EVAL "local ok, why = pcall(function() redis = nil end) return why" 0
    EVAL "for i = 1, 2 do redis = i end" 0
    EVAL "local redis = redis redis = { call = function() return 'mine' end } return redis.call('ping')" 0
    EVAL "local mine = { redis = 1 } return mine.redis" 0
    EVAL "_G = {} return 1" 0
    EVAL "_G = nil return _G.x" 0
    EVAL "local g = _G KEYS = nil return 1" 1 k
    EVAL "local g = _G ARGV = {} return 1" 0
    EVAL "local g = _G load = nil return 1" 0
    EVAL "local g = _G pairs = 1 return 1" 0
    EVAL "local g = _G string = 1 return 1" 0
    EVAL "KEYS = nil return 1" 1 k
    EVAL "string = nil return 1" 0
    MULTI
    EVAL "redis = nil return 1" 0
    EVAL "_G = nil return 1" 0
    EVAL "return redis.call('ping')" 0
    EXEC
    EVAL "redis.call = function() return 'mine' end return redis.call('ping')" 0
    EVAL "KEYS = {}" 0
    EVAL "ARGV = nil" 0
    EVAL "print('hello')" 0
    EVAL "require('os')" 0
    EVAL "dofile('x')" 0
    EVAL "loadfile('x')" 0
    EVAL "io.write('x')" 0
    EVAL "os.execute('x')" 0
    EVAL "os.time()" 0
    EVAL "os.getenv('HOME')" 0
    EVAL "return type(os.clock())" 0
    EVAL "debug.traceback()" 0
    EVAL "return package" 0
    EVAL "module('x')" 0
    EVAL "newproxy(true)" 0
    EVAL "return collectgarbage('count') > 0" 0
    EVAL "return _VERSION" 0
    [shape: chosen at random] EVAL "return math.random(1000000)" 0
    EVAL "math.randomseed(7) return math.random(1000000)" 0
    EVAL "math.randomseed(7) return {math.random(10), math.random(5, 9)}" 0
    EVAL "return math.random(0)" 0
    EVAL "return math.huge" 0
    EVAL "return math.floor(math.pi)" 0
    EVAL "local names = {}
        for name in pairs(string) do names[#names + 1] = name end
        table.sort(names)
        return names" 0
"#;

pub(crate) const KEYS_AND_ARGUMENTS: &str = r##"
    EVAL "return #KEYS" 0
    EVAL "return #ARGV" 0
    EVAL "return #KEYS" 2 a b c d e
    EVAL "return #ARGV" 2 a b c d e
    EVAL "return KEYS[1] .. KEYS[2] .. ARGV[1]" 2 a b c
    EVAL "return KEYS[3]" 2 a b c
    EVAL "return KEYS[0]" 2 a b c
    EVAL "return ARGV[-1]" 2 a b c
    EVAL "return type(ARGV[1])" 0 12
    EVAL "return ARGV[1] + 1" 0 12
    EVAL "return ARGV[1] == 12" 0 12
    EVAL "return tonumber(ARGV[1]) == 12" 0 12
    EVAL "return _G.KEYS[1]" 1 a b
    EVAL "return _G.ARGV[1]" 1 a b
    EVAL "return _G['ARGV']" 1 a b c
    EVAL "return _G.KEYS == KEYS" 1 a
    EVAL "return rawget(_G, 'KEYS')[1]" 1 a
    EVAL "KEYS[1] = 'mine' return KEYS" 1 a
    EVAL "KEYS[2] = 'mine' return {KEYS[1], KEYS[2], #KEYS}" 1 a
    EVAL "ARGV[1] = nil return #ARGV" 0 a
    EVAL "table.insert(ARGV, 'mine') return ARGV" 0 a b
    EVAL "table.remove(ARGV, 1) return ARGV" 0 a b
    EVAL "table.sort(ARGV) return ARGV" 0 c a b
    EVAL "return table.concat(ARGV, ',')" 0 a b c
    EVAL "return {unpack(ARGV)}" 0 a b c
    EVAL "return {unpack(ARGV, 2)}" 0 a b c
    EVAL "return {unpack(ARGV, 2, 2)}" 0 a b c
    EVAL "return redis.call('mset', unpack(ARGV))" 0 k1 a k2 b
    EVAL "return redis.call('mget', unpack(KEYS))" 2 k1 k2
    EVAL "return redis.call('set', unpack(ARGV))" 0 k1 v px 100000
    EVAL "return redis.call(unpack(ARGV))" 0 get k1
    EVAL "local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('exists', key) end return n" 3 k1 k2 absent
    EVAL "local reply = {} for i, v in pairs(ARGV) do reply[i] = v .. '!' end return reply" 0 a b
    EVAL "local KEYS, ARGV = ARGV, KEYS return {KEYS, ARGV}" 1 a b c
    EVAL "local KEYS = {'mine'} return {KEYS[1], _G.KEYS[1]}" 1 a
    EVAL "return (function(...) return select('#', ...) end)(unpack(ARGV))" 0 a b c
    EVAL "local function first(a, ...) return a end return first(unpack(ARGV))" 0 a b c
    EVAL "return #arg" 0
    EVAL "local ok, why = pcall(function() return arg end) return {ok, why}" 0
    EVAL "arg = 1" 0
    EVAL "return next(KEYS)" 0
    EVAL "return {next(ARGV)}" 0 only
"##;

pub(crate) const REDIS_TABLE: &str = r#"
    EVAL "local redis = redis return redis.call('ping')" 0
    EVAL "local call = redis.call return call('ping')" 0
    EVAL "local call = redis['call'] return call('set', KEYS[1], 'v')" 1 k
    EVAL "return _G.redis.call('get', KEYS[1])" 1 k
    EVAL "return _G['redis']['call']('get', KEYS[1])" 1 k
    EVAL "return _G.redis == redis" 0
    EVAL "return not getmetatable(redis)" 0
    EVAL "return not getmetatable(_G.redis)" 0
    [shape: in words of Lua] EVAL "setmetatable(redis, {})" 0
    EVAL "return redis.nosuchfunction" 0
    EVAL "return redis.nosuchfunction()" 0
    EVAL "return redis.sha1hex('')" 0
    EVAL "return redis.sha1hex('abc')" 0
    EVAL "return redis.sha1hex('\0\255')" 0
    EVAL "return redis.sha1hex(12)" 0
    EVAL "return redis.sha1hex()" 0
    EVAL "return redis.sha1hex('a', 'b')" 0
    EVAL "return redis.log(redis.LOG_DEBUG, 'hello')" 0
    EVAL "return redis.log(redis.LOG_VERBOSE, 'hello', 'again')" 0
    EVAL "return redis.log('hello')" 0
    EVAL "return redis.log(redis.LOG_WARNING)" 0
    EVAL "return redis.log(99, 'hello')" 0
    EVAL "return redis.log('text', 'hello')" 0
    EVAL "return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}" 0
    EVAL "return {redis.REPL_ALL, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_NONE}" 0
    EVAL "return redis.replicate_commands()" 0
    EVAL "redis.call('set', KEYS[1], 'v') return redis.replicate_commands()" 1 k
    EVAL "return redis.set_repl(redis.REPL_ALL)" 0
    EVAL "redis.set_repl(redis.REPL_AOF) return redis.call('set', KEYS[1], 'v')" 1 k
    EVAL "return redis.set_repl(99)" 0
    EVAL "return redis.set_repl()" 0
    EVAL "return redis.REDIS_VERSION" 0
    EVAL "return redis.REDIS_VERSION_NUM" 0
    EVAL "return redis.REDIS_VERSION_NUM >= 0x00070000" 0
    EVAL "return redis.acl_check_cmd('get', 'k')" 0
    EVAL "return redis.acl_check_cmd('nosuchcommand')" 0
    EVAL "return redis.acl_check_cmd()" 0
    EVAL "return redis.breakpoint()" 0
    EVAL "redis.debug('hello')" 0
    EVAL "return redis.register_function" 0
"#;

/// Rarely used parts of the Lua language, around calls of Redis.
pub(crate) const LANGUAGE: &str = r#"
    SET k value
    EVAL "return loadstring('return 1 + 1')()" 0
    EVAL "return loadstring('return ' .. ARGV[1])()" 0 7
    EVAL "return loadstring([[return redis.call('get', KEYS[1])]])()" 1 k
    EVAL "return loadstring([[return KEYS[1] ]])()" 1 k
    EVAL "return load(function() return nil end)()" 0
    EVAL "local co = coroutine.wrap(function() coroutine.yield(1) coroutine.yield(2) end)
        return {co(), co()}" 0
    EVAL "local co = coroutine.wrap(function()
            coroutine.yield(redis.call('get', KEYS[1]))
            coroutine.yield(redis.call('set', KEYS[1], 'from a coroutine'))
        end)
        return {co(), co(), redis.call('get', KEYS[1])}" 1 k
    EVAL "return coroutine.status(coroutine.create(function() end))" 0
    EVAL "local results = {}
        for word in string.gmatch(ARGV[1], '%a+') do results[#results + 1] = word end
        return results" 0 "some words here"
    EVAL "return string.format('%s-%d-%5.2f-%q', 'a', 7, 1.5, 'x')" 0
    EVAL "return {string.find(ARGV[1], '(%d+)')}" 0 "abc 123"
    EVAL "return string.gsub(ARGV[1], 'a', 'b')" 0 banana
    EVAL "return ARGV[1]:upper()" 0 text
    EVAL "return {string.byte(ARGV[1], 1, -1)}" 0 abc
    EVAL "return tostring(nil) .. tostring(true)" 0
    EVAL "local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t" 0
    EVAL "local function sum(n) if n == 0 then return 0 end return n + sum(n - 1) end return sum(100)" 0
    EVAL "local t = setmetatable({}, {__call = function(_, x) return x * 2 end}) return t(21)" 0
    EVAL "local i = 0 repeat i = i + 1 until i == 5 return i" 0
    EVAL "local i = 0 while true do i = i + 1 if i > 3 then break end end return i" 0
    EVAL "local counter = (function() local n = 0 return function() n = n + 1 return n end end)()
        counter() return counter()" 0
    EVAL "return select(-1, 'a', 'b')" 0
    EVAL "return rawequal('a', 'a')" 0
    EVAL "return type(nil) .. type({}) .. type(redis.call)" 0
    EVAL "local long = [==[a]]b]==] return long" 0
    EVAL "return 'tab\tquote\'back\\slash\065'" 0
"#;

/// Scripts that try to get at the globals or to change them.
pub(crate) const CLOSED: &str = r#"
    EVAL "_G.loadstring=nil return _G.loadstring('return redis')().call('get','secret')" 0
    EVAL "rawset(_G,'redis',nil) return _G.redis.call('get','secret')" 0
    EVAL "rawset(_G,'redis',nil)" 0
    EVAL "rawset(_G,'x',nil)" 0
    EVAL "rawset(redis,'call',5)" 0
    EVAL "rawset(string,'call',5)" 0
    EVAL "rawset(1,2,3)" 0
    EVAL "rawset({})" 0
    EVAL "rawset({},nil,1)" 0
    EVAL "rawset({},0/0,1)" 0
    EVAL "setmetatable(_G,{})" 0
    EVAL "setmetatable(redis,{})" 0
    EVAL "setmetatable(string,{})" 0
    EVAL "setmetatable({})" 0
    EVAL "setmetatable(1,{})" 0
    EVAL "setmetatable(setmetatable({},{__metatable=1}),{})" 0
    EVAL "return getmetatable(redis)" 0
    EVAL "return getmetatable(1)" 0
    EVAL "return getmetatable()" 0
    EVAL "return type(getmetatable('').__index)" 0
    EVAL "getmetatable('').__index = 1" 0
    EVAL "getmetatable('').x = 1" 0
    EVAL "getmetatable('').__index.x = 1" 0
    EVAL "return getmetatable('').__index == string" 0
    EVAL "return getmetatable(_G).x" 0
    EVAL "local s=setmetatable({},{__concat=function() return 'return redis' end}) return loadstring(s)" 0
    EVAL "return loadstring('return redis')().call('get','secret')" 0
    EVAL "return loadstring()" 0
    EVAL "return loadstring(nil)" 0
    EVAL "return loadstring({})" 0
    EVAL "return loadstring(12)" 0
    EVAL "return {0,select(2,loadstring('x x'))}" 0
    EVAL "return {0,select(2,loadstring('x x','=abc'))}" 0
    EVAL "return {0,select(2,loadstring('x x','abc'))}" 0
    EVAL "return loadstring('return 1', {})" 0
    EVAL "return loadstring('return 1', 5)()" 0
    EVAL "return {0,select(2,loadstring('x x', 5))}" 0
    EVAL "return {0,select(2,loadstring('end, (function(...) return 1'))}" 0
    EVAL "return {0,select(2,loadstring('return 1 end local x=function()'))}" 0
    EVAL "return {loadstring('return ...')(1,2,3)}" 0
    EVAL "return {pcall(loadstring('return #arg'))}" 0
    EVAL "return load('x')" 0
    EVAL "return load()" 0
    EVAL "return load(nil)" 0
    EVAL "return load({})" 0
    EVAL "return load(print)" 0
    EVAL "return {load(function() return {} end)}" 0
    EVAL "local n=0 return load(function() n=n+1 if n==1 then return 'return ' elseif n==2 then return 5 end end)()" 0
    EVAL "return load(function() return nil end)()" 0
    EVAL "return {0,select(2,load(function() return 'x x ' end))}" 0
    EVAL "return {0,select(2,load(function() return 'x x ' end, '=y'))}" 0
    EVAL "return {0,select(2,load(function() return string.dump(function() return 1 end) end))}" 0
    EVAL "x=1" 0
    EVAL "return x" 0
    EVAL "_G.x=1" 0
    EVAL "return _G.x" 0
    EVAL "return _G[5]" 0
    EVAL "return _G[{}]" 0
    EVAL "return _G[true]" 0
    EVAL "return _G.setfenv" 0
    EVAL "return setfenv" 0
    EVAL "return getfenv()" 0
    EVAL "return debug" 0
    EVAL "return print" 0
    EVAL "return _G.os" 0
    EVAL "return _G.print" 0
    EVAL "return rawget(_G,'print')" 0
    EVAL "return rawget(_G,'redis') == redis" 0
    EVAL "return rawget(1)" 0
    EVAL "return rawget({5},1)" 0
    EVAL "return type(_G.KEYS)" 0
    EVAL "return _G.KEYS == KEYS" 0
    EVAL "return _G._G == _G" 0
    EVAL "return _G.redis == redis" 0
    EVAL "return _G.string == string" 0
    EVAL "return _G.pairs == pairs" 0
    EVAL "return type(next(_G))" 0
    EVAL "return next({})" 0
    EVAL "return next({5})" 0
    EVAL "return next({},1)" 0
    EVAL "return next()" 0
    EVAL "return next(5)" 0
    EVAL "return pairs()" 0
    EVAL "return pairs(5)" 0
    EVAL "local t={} for k,v in next,redis do t[#t+1]=k end table.sort(t) return {t,_G._VERSION}" 0
    EVAL "local t={} for k,v in pairs({a=1}) do t[#t+1]=k end table.sort(t) return {t,_G._VERSION}" 0
    EVAL "return loadstring('return ARGV')()" 0
    EVAL "function redis.call() end" 0
    EVAL "redis.call=5" 0
    EVAL "redis.x=5" 0
    EVAL "return redis.x" 0
    EVAL "return gcinfo() > 0" 0
    EVAL "return pcall(loadstring, {})" 0
    EVAL "return pcall(rawset, _G, 'x', 1)" 0
    EVAL "return coroutine.wrap(function() return _G.redis.call('get','secret') end)()" 0
    EVAL "return xpcall(function() return _G.redis.call('get','secret') end, function(e) return type(e) end)" 0
    EVAL "return string.gsub('x','x',redis)" 0
    EVAL "return table.concat(_G)" 0
    EVAL "return #_G" 0
    EVAL "return unpack(_G)" 0
    EVAL "table.sort(_G)" 0
    EVAL "return tostring(bit.band(3,_G))" 0
    EVAL "local real = _G.redis return real.call('get','secret')" 0
"#;
