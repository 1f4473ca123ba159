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
-- are not among its words.
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
    if type(used) == 'string' and string.sub(used, 1, PREFIX_BYTES) == RESERVED_PREFIX then
      return true
    end
  end
  return false
end

-- Whether one of the words that may be options is one for Redis only, which reads it up to its zero byte.
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

-- Every call comes through here, on its way to its handler; reads may have none. Redis refuses what is no text
-- before it looks at anything else, and a handler that changes the words could make a right call of a wrong one.
-- It may also take a name with a zero byte for the command that ends there.
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
  if looks_cut and string.find(words[1], '\0', 1, true) then
    return run(' ')
  elseif looks_cut and has_cut_option(words) then
    return fail(run, 'ERR syntax error')
  elseif looks_reserved and names_reserved(words, ...) then
    return fail(run, RESERVED_NAME)
  elseif handle then
    return handle(run, ...)
  end
  return run(...)
end

-- The same of a command that the script names.
local function closed(handle)
  return function(run, ...)
    return screened(run, handle, ...)
  end
end

local function read(run, ...)
  return run(...)
end

-- GET and its like, of a key that the script has not declared.
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

-- Other commands that look into the strings under the keys from the word `first` to the word `last`. A read-only script
-- cannot take tags off.
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
  if #(channel .. '') > LONGEST_CHANNEL then
    return fail(run, CHANNEL_TOO_LONG)
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
