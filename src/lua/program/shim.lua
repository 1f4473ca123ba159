-- What is done instead of a call. `run` is the real `call` or `pcall`, and then come its arguments.

-- Where a key of this database is in `before`.
local seen = {}

local function save(key, keeps_value)
  if type(key) == 'number' then
    key = string.format('%.17g', key)
  elseif type(key) ~= 'string' then
    return
  end
  -- There is room for one key, as locks have no more.
  before = before or { nil, nil, nil, nil, nil }
  local at = seen[key]
  if not at then
    at = #before
    seen[key] = at
    local expiry = call('PEXPIRETIME', key)
    before[at + 1], before[at + 2] = db, key
    before[at + 3], before[at + 4] = expiry ~= -2 and call('DUMP', key), expiry
    before[at + 5] = true
  end
  before[at + 5] = before[at + 5] and keeps_value or false
end

local function read(run, ...)
  return run(...)
end

-- A command that changes its first key, and no other.
local function write(run, ...)
  local _, key = ...
  save(key)
  return run(...)
end

local function pop(run, ...)
  popped = 1
  return write(run, ...)
end

-- Messages are published by the proxy, once, when the masters have agreed.
local function publish(run, ...)
  local name, channel, message = ...
  local is_wrong = select('#', ...) ~= 3 or type(channel) == 'table' or type(message) == 'table'
  if is_wrong or mode == 'ro' then
    return run(...)
  end
  messages = messages or {}
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
