//! Libraries of functions: refusals, listings, and the environment that functions find when they are called.
//!
//! A plain Redis lists libraries, and the functions within each, in an arbitrary order.

pub(crate) const LOADING: &str = r##"
    FUNCTION FLUSH
    FUNCTION LOAD ""
    FUNCTION LOAD x
    FUNCTION LOAD "#!lua name=a"
    FUNCTION LOAD "#!lua name=a
return 1"
    FUNCTION LOAD "#!lua name=a
"
    FUNCTION LOAD "#!js name=a
return 1"
    FUNCTION LOAD "#!js name=a-b
return 1"
    FUNCTION LOAD "#!
return 1"
    FUNCTION LOAD "#! lua name=a
return 1"
    FUNCTION LOAD "#!lua
return 1"
    FUNCTION LOAD "#!lua name=a b=c
return 1"
    FUNCTION LOAD "#!lua name=a name=b
return 1"
    FUNCTION LOAD "#!lua name=a-b
return 1"
    FUNCTION LOAD "#!lua name=
return 1"
    FUNCTION LOAD "#!lua name='a b'
return 1"
    FUNCTION LOAD "#!lua name='a
return 1"
    FUNCTION LOAD "#!lua name=a
local y = = x"
    FUNCTION LOAD "#!lua name=a


end"
    FUNCTION LOAD "#!lua name=a
end return function() redis.call('x')"
    FUNCTION LOAD "#!lua name=a
redis.call('get', 'x')"
    FUNCTION LOAD "#!lua name=a
redis.pcall('get', 'x')"
    FUNCTION LOAD "#!lua name=a

redis.setresp(3)"
    FUNCTION LOAD "#!lua name=a
redis.sha1hex('x')"
    FUNCTION LOAD "#!lua name=a
redis.breakpoint()"
    FUNCTION LOAD "#!lua name=a
redis.log(redis.LOG_DEBUG, 'x')"
    FUNCTION LOAD "#!lua name=a
redis.log()"
    FUNCTION LOAD "#!lua name=a
redis.foo = 1"
    FUNCTION LOAD "#!lua name=a
x = 1"
    FUNCTION LOAD "#!lua name=a
local y = x"
    FUNCTION LOAD "#!lua name=a
redis.register_function()"
    FUNCTION LOAD "#!lua name=a
redis.register_function('a')"
    FUNCTION LOAD "#!lua name=a
redis.register_function('a', 1)"
    FUNCTION LOAD "#!lua name=a
redis.register_function({}, function() end)"
    FUNCTION LOAD "#!lua name=a
redis.register_function('a', function() end, {})"
    FUNCTION LOAD "#!lua name=a
redis.register_function('a-b', function() end)"
    FUNCTION LOAD "#!lua name=a
redis.register_function('', function() end)"
    FUNCTION LOAD "#!lua name=a
redis.register_function('a', function() end) redis.register_function('a', function() end)"
    FUNCTION LOAD "#!lua name=a
redis.register_function{}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a'}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{callback=function() end}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name={}, callback=function() end}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a', callback=1}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a', callback=function() end, description={}}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a', callback=function() end, flags=1}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a', callback=function() end, flags={'x'}}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a', callback=function() end, flags={1}}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a', callback=function() end, foo=1}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a', callback=function() end, [1]=1}"
    FUNCTION LOAD "#!lua name=a
redis.register_function{function_name='a', callback=function() end, [{}]=1}"
    FUNCTION LIST
    FUNCTION LOAD "#!lua name=a
redis.register_function(1, function() return 'one' end)"
    FUNCTION LIST
    FCALL 1 0
    FUNCTION LOAD "#!lua name=a
redis.register_function('b', function() return 'two' end)"
    FUNCTION LOAD "#!lua name=version
local number = redis.REDIS_VERSION_NUM + #redis.REDIS_VERSION redis.register_function('number', function() return number > 458752 end)"
    FCALL number 0
    FUNCTION DELETE version
    FUNCTION LOAD "#!lua name=late
local register = redis.register_function register('late', function() register('later', function() end) end)"
    FCALL late 0
    FUNCTION DELETE late
    FUNCTION LOAD "#!lua name=a
this is no Lua"
    FUNCTION LOAD REPLACE "#!lua name=a
this is no Lua"
    FCALL 1 0
    FUNCTION LOAD REPLACE "#!lua name=a
redis.register_function('b', function() return 'two' end)"
    FCALL 1 0
    FCALL b 0
    FUNCTION LOAD "#!LUA NAME=c
redis.register_function('b', function() return 'three' end)"
    FUNCTION LOAD REPLACE "#!LUA NAME=c
redis.register_function('B', function() return 'three' end)"
    FUNCTION LOAD x "#!lua name=c
redis.register_function('c', function() return 'three' end)"
    FUNCTION LOAD replace REPLACE "#!lua name=c
redis.register_function('c', function() return 'three' end)"
    FUNCTION LOAD REPLACE
    FUNCTION LOAD
    FUNCTION STATS
    FUNCTION STATS x
    FUNCTION DELETE nonsense
    FUNCTION DELETE A
    FUNCTION DELETE a
    FCALL b 0
    FCALL c 0
    FUNCTION DELETE
    FUNCTION FLUSH x
    FUNCTION FLUSH sync async
    FUNCTION STATS
    FUNCTION FLUSH async
    FUNCTION STATS
    FUNCTION FLUSH SYNC
    FCALL c 0
    FUNCTION KILL
    FUNCTION HELP
    FUNCTION nonsense
    FUNCTION
    FUNCTION LOAD "#!lua name=long
local function of(n) return function() return n end end redis.register_function('f', of(1)) redis.register_function{function_name='g', callback=of(2), flags={'no-writes', 'allow-oom', 'allow-stale', 'no-cluster', 'no-writes'}, description='What\nit does'}"
    FCALL g 0
    FUNCTION FLUSH
"##;

pub(crate) const LISTING: &str = r##"
    FUNCTION FLUSH
    FUNCTION LIST
    FUNCTION DUMP
    FUNCTION LOAD "#!lua name=lib
redis.register_function{function_name='f', callback=function() return 1 end, flags={'allow-oom', 'no-writes'}, description='d d'}"
    FUNCTION LIST
    FUNCTION LIST WITHCODE
    FUNCTION LIST LIBRARYNAME l*
    FUNCTION LIST libraryname LI[a-c] withcode
    FUNCTION LIST WITHCODE LIBRARYNAME x*
    FUNCTION LIST LIBRARYNAME
    FUNCTION LIST LIBRARYNAME a LIBRARYNAME b
    FUNCTION LIST WITHCODE WITHCODE
    FUNCTION LIST x
    FUNCTION LOAD "#!lua name=other
redis.register_function('g', function() return 2 end)"
    [any order] FUNCTION LIST
    FUNCTION STATS
    FUNCTION RESTORE x
    FUNCTION RESTORE ""
    FUNCTION RESTORE x nonsense
    FUNCTION RESTORE x y z
    FUNCTION RESTORE
    FUNCTION DUMP x
    FUNCTION FLUSH
"##;

pub(crate) const CALLING: &str = r##"
    FUNCTION FLUSH
    FCALL f 0
    FUNCTION LOAD "#!lua name=lib
local function both(keys, args) return {keys, args} end
redis.register_function('both', both)
redis.register_function('set', function(keys, args)
  return redis.call('SET', keys[1], args[1])
end)
redis.register_function('raise', function(keys, args) error(args[1]) end)
redis.register_function('raise_table', function(keys, args)

  error({err=args[1]}) end)
redis.register_function('wrong', function(keys, args) return redis.call('HGET', keys[1], 'x') end)
redis.register_function{function_name='get', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}
redis.register_function{function_name='sly', callback=function(keys) return redis.call('SET', keys[1], 1) end, flags={'no-writes'}}
redis.register_function('pop', function(keys) local all = {} for at, key in ipairs(keys) do all[at] = redis.call('LPOP', key) or 'none' end return all end)
redis.register_function('three', function() redis.setresp(3) return redis.call('HGETALL', 'h') end)"
    FCALL both 0
    FCALL both 2 a b c
    FCALL both 1 a
    FCALL Both 0 x
    FCALL both
    FCALL both x
    FCALL both 1.5
    FCALL both -1
    FCALL both 3 a
    FCALL nonsense x
    FCALL set 1 k v
    FCALL get 1 k
    FCALL_RO get 1 k
    FCALL_RO set 1 k v
    FCALL_RO nonsense 0
    FCALL sly 1 k
    FCALL_RO sly 1 k
    MULTI
    FCALL sly 1 k
    FCALL_RO get 1 k
    FCALL_RO set 1 k v
    FCALL set 1 k v
    EXEC
    GET k
    FCALL raise 0 boom
    FCALL raise_table 0 "ERR boom"
    FCALL raise_table 0 boom
    FCALL set 1 k
    FCALL wrong 1 k
    RPUSH l1 a b
    RPUSH l2 c
    FCALL pop 3 l1 l2 absent
    FCALL pop 1 k
    LRANGE l1 0 -1
    HSET h a 1
    FCALL three 1 h
    MULTI
    FCALL set 1 k w
    FCALL_RO get 1 k
    FCALL nonsense 0
    FCALL both x
    FCALL_RO set 1 k v
    EVAL "return redis.call('GET', KEYS[1])" 1 k
    FCALL wrong 1 k
    FUNCTION STATS
    EXEC
    GET k
    MULTI
    FCALL
    EXEC
    WATCH k
    [other] FCALL set 1 k x
    MULTI
    FCALL set 1 k y
    EXEC
    GET k
    FLUSHALL
    FCALL set 1 k z
    SELECT 3
    FCALL get 1 k
    FCALL set 1 k 3
    FLUSHDB
    FCALL both 1 k
    SELECT 0
    FCALL get 1 k
    DBSIZE
    COMMAND GETKEYS FCALL f 2 a b c
    COMMAND GETKEYS FCALL f 0 a
    COMMAND GETKEYSANDFLAGS FCALL f 2 a b c
    COMMAND GETKEYSANDFLAGS FCALL_RO f 2 a b c
    FUNCTION FLUSH
"##;

pub(crate) const FOUND: &str = r##"
    FUNCTION FLUSH
    FUNCTION LOAD "#!lua name=lib
local text = 'return {' redis.register_function('f', function(keys, args) return loadstring('return ' .. args[1])() end)"
    FCALL f 0 redis.sha1hex('x')
    FCALL f 0 tostring(redis.register_function)
    FCALL f 0 tostring(redis.breakpoint)
    FCALL f 0 tostring(redis.debug)
    FCALL f 0 tostring(redis.replicate_commands)
    FCALL f 0 tostring(redis.nonsense)
    FCALL f 0 redis.LOG_NOTICE
    FCALL f 0 "redis.status_reply('FINE')"
    FCALL f 0 "redis.error_reply('MINE is it')"
    FCALL f 0 " {err='MINE is it'}"
    FCALL f 0 " {1, 2, nil, 4}"
    FCALL f 0 1,2
    FCALL f 0 3.9
    FCALL f 0 nil
    FCALL f 0 cjson.encode({1})
    FCALL f 0 type(_G)
    FUNCTION LOAD REPLACE "#!lua name=lib
local state = 10
redis.register_function('f', function(keys, args) local x = state state = state + 1 return x end)
redis.register_function('global', function() x = 1 end)
redis.register_function('read', function() return x end)
redis.register_function('assign', function() redis.x = 1 end)
redis.register_function('replace', function() redis = nil return 1 end)
redis.register_function('inside', function() return redis.register_function('z', function() end) end)
redis.register_function('deep', function()
local function one()
return redis.call('nonsense')
end
local x = one()
return x end)"
    FCALL f 0
    FCALL global 0
    FCALL read 0
    FCALL assign 0
    FCALL replace 0
    FCALL inside 0
    FCALL deep 0
    FUNCTION LOAD REPLACE "#!lua name=lib
redis = nil
redis.register_function('f', function() end)"
    FUNCTION FLUSH
"##;
