-- The client's script is `program`, above. What it calls `redis` is the table at the end of this part:
-- its `call` and `pcall` look every command up in `how` and keep an image of what is about to change.
--
-- After the client's own arguments come ours: the proxy's time, in seconds and microseconds, the
-- database, and 'ro' for a script that must not change anything.
local real, call = redis, redis.call
local type, select, format = type, select, string.format
local own = #ARGV
local seconds, micros, db, mode = ARGV[own - 3], ARGV[own - 2], ARGV[own - 1], ARGV[own]
ARGV[own - 3], ARGV[own - 2], ARGV[own - 1], ARGV[own] = nil, nil, nil, nil

-- Without this, masters of different ages would draw different numbers.
if DRAWS then
  math.randomseed(seconds + micros)
end

-- Keys that were written to, four entries each: database, key, and its image before.
local before, seen = {}, {}
local messages = {}
-- 1: a remaining time was read, 2: elements were taken out of a list or a set.
local read_ttl, popped = 0, 0

-- The value and the absolute end of a key: it does not drift while a script runs.
local function image(key)
  local dump = call('DUMP', key)
  if dump then
    return dump, call('PEXPIRETIME', key)
  end
  return false, -2
end

local function save(key)
  if type(key) == 'number' then
    key = format('%.17g', key)
  end
  if seen[key] or type(key) ~= 'string' then
    return
  end
  seen[key] = true
  local at = #before
  before[at + 1], before[at + 2] = db, key
  before[at + 3], before[at + 4] = image(key)
end

local function read(run, ...)
  return run(...)
end

-- A command that changes its first key, and no other.
local function write(run, ...)
  save((select(2, ...)))
  return run(...)
end

local function pop(run, ...)
  popped = 2
  save((select(2, ...)))
  return run(...)
end

-- Messages are published by the proxy, once, when the masters have agreed.
local function publish(run, ...)
  local name, channel, message = ...
  local is_wrong = select('#', ...) ~= 3 or type(channel) == 'table' or type(message) == 'table'
  if is_wrong or mode == 'ro' then
    return run(...)
  end
  local at = #messages
  messages[at + 1], messages[at + 2], messages[at + 3] = name, channel .. '', message .. ''
  return 0
end

-- The same on all masters.
local function time(run, ...)
  if select('#', ...) ~= 1 then
    return run(...)
  end
  return { seconds, micros }
end
