-- Replacements of calls. `run` is the real `call` or `pcall`, followed by its arguments.

-- As in Redis: `call` raises what `pcall` returns.
local function fail(run, text)
  local why = { err = text }
  if run == call then
    error(why, 0)
  end
  return why
end

-- Whether a call names a key or a channel reserved for the proxy. Values may be anything: if a word looks like such a
-- name, Redis decides which words are keys. A call in which it finds no keys touches none, except PFMERGE without
-- sources. Of several STORE it may find another than it writes to, and SORT looks up keys that are not among its words.
-- Only the proxy's programs name the register of libraries, and declare it.
local function names_reserved(words, ...)
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
    local is_reserved = type(used) == 'string' and string.sub(used, 1, PREFIX_BYTES) == RESERVED_PREFIX
    if is_reserved and not (used == LIBRARIES and seen[used]) then
      return true
    end
  end
  return false
end

-- Whether the name of a command, or of one inside a container, has a zero byte.
local function has_cut_name(words)
  local names = words[1]
  if words[2] and string.find(' command memory object pubsub xgroup xinfo ', ' ' .. string.lower(names) .. ' ', 1, true) then
    names = names .. words[2]
  end
  return string.find(names, '\0', 1, true)
end

-- Whether one of the possible options is one only for Redis, which reads it up to its zero byte.
local function has_cut_option(words)
  local first = ({ CUTTABLE })[string.lower(words[1])]
  for at = first or #words + 1, #words do
    local zero = string.find(words[at], '\0', 1, true)
    local option = zero and string.upper(string.sub(words[at], 1, zero - 1))
    if option and string.find(' CUT_OPTIONS ', ' ' .. option .. ' ', 1, true) then
      return true
    end
  end
  return false
end

-- Whether Redis refuses a command to a script that must not write (`scriptVerifyWriteCommandAllow` in `script.c`).
local function is_write(words)
  local name = string.lower(words[1])
  -- For containers it checks the command inside.
  local info = real.pcall('COMMAND', 'INFO', name == 'xgroup' and words[2] and 'xgroup|' .. words[2] or name)
  local known = type(info) == 'table' and type(info[1]) == 'table' and info[1] or {}
  local arity, flags = known[2] or 0, known[3] or {}
  -- It checks the number of words first.
  if arity > 0 and #words ~= arity or #words < -arity then
    return false
  elseif name == 'publish' or name == 'spublish' or name == 'pfcount' then
    return true
  end
  local has = {}
  for one, other in pairs(flags.set or flags) do
    has[(type(one) == 'table' and one or other).ok] = true
  end
  -- Noscript commands have their own refusal.
  return has.write and not has.noscript
end

-- Commands that have changed nothing if they answer 0, -1 or nothing. A script without changes leaves no stamp.
local idle = ' copy del expire expireat getdel getex hdel hsetnx linsert lmove lmpop lpop lpushx lrem msetnx persist pexpire '
  .. 'pexpireat pfadd renamenx rpop rpoplpush rpushx sadd setnx smove spop srem unlink xack xadd xdel xtrim zmpop zpopmax '
  .. 'zpopmin zrem zremrangebylex zremrangebyrank zremrangebyscore '

-- SET under a condition, which with GET returns the old value. The word after IFEQ is a value.
local function set_nothing(reply, words)
  local chosen = {}
  for at = 4, #words do
    if at == 4 or string.upper(words[at - 1]) ~= 'IFEQ' then
      chosen[string.upper(words[at])] = true
    end
  end
  if chosen.GET then
    return reply and chosen.NX or not reply and chosen.XX
  end
  return not reply
end

-- Whether a BITFIELD has no part that changes anything.
local function only_gets(words)
  for at = 3, #words do
    local part = string.upper(words[at])
    if part == 'SET' or part == 'INCRBY' then
      return false
    end
  end
  return true
end

-- Whether a command has changed nothing, as far as its reply shows.
local function is_idle(reply, words)
  local name, is_table = string.lower(words[1]), type(reply) == 'table'
  if is_table and reply.err or name == 'getex' and not words[3] or name == 'rename' and words[2] == words[3] then
    return true
  elseif name == 'set' then
    return set_nothing(reply, words)
  elseif name == 'bitfield' then
    return only_gets(words)
  end
  local is_nothing = not reply or reply == 0 or reply == -1 or is_table and next(reply.set or reply) == nil
  return is_nothing and string.find(idle, ' ' .. name .. ' ', 1, true)
end

IS_REFUSAL
-- A master that is short of memory, or takes no writes, refuses them in a script only until the script has written.
-- Then the program must not go on: writes that need no memory would be done, which other masters would not do alone. So
-- a harmless write is tried first.
local function require_writes(word)
  local name = ' ' .. string.lower(word) .. ' '
  if not refusal and not writes then
    local needs_memory = string.find(' HUNGRY ', name, 1, true)
    local tried
    if needs_memory then
      tried = real.pcall('SETRANGE', 'redlock-proxy:none', 0, '')
    elseif string.find(' FRUGAL ', name, 1, true) then
      tried = real.pcall('DEL', 'redlock-proxy:none')
    end
    refusal = type(tried) == 'table' and tried.err and is_refusal(tried.err) and tried.err
  end
  if refusal then
    direct = false
    error({ err = refusal }, 0)
  end
end

-- Every call passes here on its way to its handler; reads may have none. Redis refuses non-text before it checks
-- anything else, and a handler that changes the words could turn a valid call into a wrong one. It may also take a name
-- with a zero byte for the command that ends there: on a master whose table's seed puts both in the same place
-- (`dictSdsCaseHash` in `server.c`), and not on another.
local function screened(run, handle, ...)
  begins()
  local words, looks_reserved, looks_cut = { ... }, false, false
  for at = 1, select('#', ...) do
    local word, kind = words[at], type(words[at])
    if kind == 'string' then
      looks_reserved = looks_reserved or string.sub(word, 1, PREFIX_BYTES) == RESERVED_PREFIX
      looks_cut = looks_cut or string.find(word, '\0', 1, true)
    elseif kind ~= 'number' then
      return run(...)
    end
  end
  if looks_cut and has_cut_name(words) then
    return run(' ')
  elseif looks_cut and has_cut_option(words) then
    return fail(run, 'ERR syntax error')
  elseif looks_reserved and names_reserved(words, ...) then
    return fail(run, RESERVED_NAME)
  elseif mode == 'ro' and words[1] and is_write(words) then
    return fail(run, 'ERR Write commands are not allowed from read-only scripts.')
  end
  if not handle then
    return run(...)
  end
  if mode ~= 'ro' and words[1] then
    require_writes(words[1])
  end
  local reply = handle(run, ...)
  if writes and not wrote and words[1] and is_idle(reply, words) then
    writes = false
  end
  return reply
end

-- The same for a command that the script names.
local function closed(handle)
  return function(run, ...)
    return screened(run, handle, ...)
  end
end

local function read(run, ...)
  return run(...)
end

-- GET and the like, on an undeclared key.
local function without_tag(value)
  return has_tag(value) and string.sub(value, 21) or value
end

local function get(run, ...)
  return without_tag(run(...))
end

local function mget(run, ...)
  local values = run(...)
  for at = 1, type(values) == 'table' and not values.err and #values or 0 do
    values[at] = without_tag(values[at])
  end
  return values
end

local function strlen(run, ...)
  local length, value = run(...), select('#', ...) == 2 and real.pcall('GET', (select(2, ...)))
  return type(value) == 'string' and #without_tag(value) or length
end

-- Other commands that look into strings, under the keys from word `first` to word `last`. A read-only script cannot
-- take tags off.
local function strings(first, last)
  return function(run, ...)
    local words = { ... }
    for at = first, math.min(last, #words) do
      if mode ~= 'ro' then
        save(words[at])
      elseif has_tag(real.pcall('GET', words[at])) then
        return fail(run, "ERR '" .. words[1] .. "' of a lock is not supported in a read-only script of redlock-proxy")
      end
    end
    return run(...)
  end
end

-- GETRANGE and SUBSTR
local function getrange(run, ...)
  local range, _, key, first, last = run(...), ...
  local value = type(range) == 'string' and real.pcall('GET', key)
  local token = without_tag(value)
  if not value or token == value then
    return range
  end
  first, last = tonumber(first), tonumber(last)
  first = first < 0 and math.max(#token + first, 0) or first
  last = last < 0 and math.max(#token + last, 0) or last
  return string.sub(token, first + 1, last + 1)
end

-- A command that changes its first key, and no other.
local function write(run, ...)
  save((select(2, ...)))
  return run(...)
end

local function pop(run, ...)
  popped = 1
  return write(run, ...)
end

-- The proxy publishes messages, once, when the masters have agreed.
local function publish(run, ...)
  local name, channel, message = ...
  local function is_text(word)
    return type(word) == 'string' or type(word) == 'number'
  end
  if select('#', ...) ~= 3 or not is_text(channel) or not is_text(message) then
    return run(...)
  end
  if #(channel .. '') > LONGEST_CHANNEL then
    return fail(run, CHANNEL_TOO_LONG)
  end
  messages = messages or {}
  local at = #messages
  messages[at + 1], messages[at + 2], messages[at + 3] = name, channel .. '', message .. ''
  return 0
end

-- The same on all masters, and when the program restarts with another key, which it may have derived from the time. It
-- advances with each call, as scripts may wait for that.
local function time(run, ...)
  if select('#', ...) ~= 1 then
    return run(...)
  end
  local us = told_us - later
  local told = { string.format('%d', math.floor(us / 1000000)), string.format('%d', us % 1000000) }
  told_us = told_us + 1
  return told
end
