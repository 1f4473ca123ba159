-- What is done instead of a call. `run` is the real `call` or `pcall`, and then come its arguments.

-- As Redis does it: `call` raises what `pcall` returns.
local function fail(run, text)
  local why = { err = text }
  if run == call then
    error(why, 0)
  end
  return why
end

-- Whether a call names a key or a channel that only the proxy may use. Values may be anything: where a word looks
-- like such a name, it is for Redis to say which words are keys. A call that it finds no keys in touches none, but
-- for PFMERGE without sources. Of several STORE it may find another than it writes to, and SORT looks keys up that
-- are not among its words. All of it is one function because each costs every program.
local function names_reserved(...)
  local words, looks_so = { ... }, false
  for _, word in ipairs(words) do
    looks_so = looks_so or type(word) == 'string' and string.sub(word, 1, PREFIX_BYTES) == RESERVED_PREFIX
  end
  if not looks_so then
    return false
  end
  local name, names = string.lower(words[1]), { words[2] }
  if name == 'pfmerge' then
    names = words
  elseif name ~= 'publish' and name ~= 'spublish' then
    names = real.pcall('COMMAND', 'GETKEYS', ...)
    if type(names) ~= 'table' or names.err then
      return type(names) ~= 'table' or string.sub(names.err, 1, 4) ~= 'ERR '
    end
  end
  local is_sort, is_geo = name == 'sort' or name == 'sort_ro', string.sub(name, 1, 9) == 'georadius'
  for at = 3, (is_sort or is_geo) and #words - 1 or 0 do
    local option = string.upper(words[at])
    if option == 'STORE' or option == 'STOREDIST' or is_sort and (option == 'BY' or option == 'GET') then
      names[#names + 1] = words[at + 1]
    end
  end
  for _, used in ipairs(names) do
    if type(used) == 'string' and string.sub(used, 1, PREFIX_BYTES) == RESERVED_PREFIX then
      return true
    end
  end
  return false
end

-- A handler, or none for a read, that lets no call name what only the proxy may use.
local function closed(handle)
  return function(run, ...)
    if names_reserved(...) then
      return fail(run, RESERVED_NAME)
    elseif handle then
      return handle(run, ...)
    end
    return run(...)
  end
end

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
  local function is_text(word)
    return type(word) == 'string' or type(word) == 'number'
  end
  local is_wrong = select('#', ...) ~= 3 or not is_text(channel) or not is_text(message)
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
