-- Commands with unusual keys, and commands whose names the script computes.

-- All its arguments are keys.
local function write_all(run, ...)
  for at = 2, select('#', ...) do
    save((select(at, ...)))
  end
  return run(...)
end

local function write_pairs(run, ...)
  for at = 2, select('#', ...), 2 do
    save((select(at, ...)))
  end
  return run(...)
end

local function write_two(run, ...)
  local _, key, other_key = ...
  save(key)
  save(other_key)
  return run(...)
end

local function pop_two(run, ...)
  popped = 1
  return write_two(run, ...)
end

local function write_second(run, ...)
  local _, _, key = ...
  save(key)
  return run(...)
end

-- LMPOP and ZMPOP: the number of keys precedes them.
local function pop_counted(run, ...)
  popped = 1
  -- Redis refuses any other number, and more keys than precede the word it expects after them. The proxy has found no
  -- keys then: stopping for one here would run earlier commands twice.
  local count = select(2, ...)
  local last = string.find(tostring(count), '^%d+$') and 2 + tonumber(count) or 0
  for at = 3, last < select('#', ...) and last or 0 do
    save((select(at, ...)))
  end
  return run(...)
end

-- SORT and GEORADIUS may store into another key.
local function write_stored(run, ...)
  local words = { ... }
  for at = 3, #words - 1 do
    local option = type(words[at]) == 'string' and string.upper(words[at])
    if option == 'STORE' or option == 'STOREDIST' then
      save(words[at + 1])
    end
  end
  return run(...)
end

-- HGETALL: masters order the fields of a hash too large for a list differently. In RESP3 the reply is a map, which the
-- proxy compares without an order.
local function unordered_pairs(run, ...)
  local reply = run(...)
  local _, key = ...
  if type(reply) ~= 'table' or not reply[3] or real.pcall('OBJECT', 'ENCODING', key) ~= 'hashtable' then
    return reply
  end
  local fields, values = {}, {}
  for at = 1, #reply, 2 do
    fields[#fields + 1], values[reply[at]] = reply[at], reply[at + 1]
  end
  in_order(fields)
  for at, field in ipairs(fields) do
    reply[2 * at - 1], reply[2 * at] = field, values[field]
  end
  return reply
end

local function choose_db(run, ...)
  local reply = run(...)
  if type(reply) == 'table' and reply.ok then
    databases[db] = seen
    db = string.format('%.0f', (select(2, ...)))
    seen = databases[db] or {}
  end
  return reply
end

-- COPY: the copy lives as long as the key, and may be in another database.
local function copy(run, ...)
  local name, key, new_key = ...
  if lives_too_long(key) then
    return fail_too_long(run, name)
  end
  need(key)
  local other_db
  for at = 4, select('#', ...) - 1 do
    local option, number = select(at, ...)
    if type(option) == 'string' and string.upper(option) == 'DB' then
      other_db = number
    end
  end
  if other_db then
    local here, there = db, choose_db(real.pcall, 'SELECT', other_db)
    if type(there) == 'table' and there.ok then
      save(new_key)
      choose_db(call, 'SELECT', here)
    end
  else
    save(new_key)
  end
  return run(...)
end

local function refuse(run, name)
  return fail(run, "ERR '" .. name .. "' is not supported in a script or transaction of redlock-proxy")
end

-- The handler of a command, by its name in lower case. Anything not known to be a read may be a write.
local reads, first_read, first_written = ' READS ', ' FIRST_READ ', ' FIRST_WRITTEN '
local function handler(name)
  HANDLERS
  local word = ' ' .. name .. ' '
  if string.find(first_written, word, 1, true) then
    return write
  elseif string.find(first_read, word, 1, true) then
    return reading_first(read)
  elseif string.find(reads, word, 1, true) then
    return OTHER_READ
  end
  return OTHER_WRITE
end

local how
local function other(run, ...)
  local name = ...
  if type(name) ~= 'string' then
    return run(...)
  end
  how[name] = how[name] or handler(string.lower(name))
  return how[name](run, ...)
end
