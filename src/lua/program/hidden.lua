-- Scripts see neither the proxies' own keys, even if no call names them, nor expired keys that no master has cleaned up
-- yet.

local function is_hidden(name)
  if string.sub(name, 1, PREFIX_BYTES) == RESERVED_PREFIX then
    return true
  end
  local clean = call('PEXPIRETIME', name)
  return clean > 0 and clean - SLACK_MS <= now_ms() and call('EXISTS', 'redlock-proxy:s:' .. name) == 1
end

-- A command that lists or counts keys would see those of one shard only.
local function on_all_keys(handle)
  if SEES_ALL_KEYS then
    return handle
  end
  return function(run, name)
    return fail(run, "ERR '" .. name .. "' sees one shard only in a script or transaction: send it by itself")
  end
end

-- KEYS and SCAN
local function names_of_keys(run, ...)
  local reply = run(...)
  if type(reply) ~= 'table' or reply.err then
    return reply
  end
  local names, kept = type(reply[2]) == 'table' and reply[2] or reply, 0
  for at = 1, #names do
    local name = names[at]
    names[at] = nil
    if not is_hidden(name) then
      kept = kept + 1
      names[kept] = name
    end
  end
  if names == reply then
    in_order(names)
  end
  return reply
end

local function number_of_hidden()
  local hidden = 0
  for _, name in ipairs(call('KEYS', '*')) do
    hidden = hidden + (is_hidden(name) and 1 or 0)
  end
  return hidden
end

-- DBSIZE
local function number_of_keys(run, ...)
  local reply = run(...)
  return type(reply) == 'number' and reply - number_of_hidden() or reply
end

-- RANDOMKEY, of the keys that are not hidden.
local function random_key(run, ...)
  if select('#', ...) ~= 1 then
    return run(...)
  end
  local names = {}
  for _, name in ipairs(call('KEYS', '*')) do
    names[#names + 1] = not is_hidden(name) and name or nil
  end
  if not names[1] then
    return call('GET', NOWHERE)
  end
  return in_order(names)[draw(#names)]
end

-- INFO reports the number of keys per database. In RESP3 it is more than a string.
local function keyspace_info(run, ...)
  local reply = run(...)
  local verbatim = type(reply) == 'table' and reply.verbatim_string
  local text = verbatim and verbatim.string or reply
  if type(text) ~= 'string' then
    return reply
  end
  text = string.gsub(text, '(db(%d+):keys=)(%d+)(,[^\n]*\n)', function(head, number, keys, tail)
    call('SELECT', number)
    keys = keys - number_of_hidden()
    return keys > 0 and head .. keys .. tail or ''
  end)
  call('SELECT', db)
  if verbatim then
    verbatim.string = text
    return reply
  end
  return text
end

-- The option by which SORT looks up keys, which may be on another shard (`sortCommandGeneric` in Redis's `sort.c`).
local function looks_up(_, _, ...)
  local words, at = { ... }, 1
  while words[at] do
    local option = string.upper(tostring(words[at]))
    local value = tostring(words[at + 1] or '')
    if option == 'GET' and words[at + 1] or option == 'BY' and string.find(value, '*', 1, true) then
      return option
    end
    at = at + (option == 'LIMIT' and 3 or (option == 'BY' or option == 'STORE') and 2 or 1)
  end
end

-- SORT looks up keys by patterns in its words.
local function looking_up(handle)
  return function(run, ...)
    if completes_reserved(RESERVED_PREFIX, real.pcall, { ... }) then
      return fail(run, RESERVED_NAME)
    end
    local option = not SEES_ALL_KEYS and looks_up(...)
    if option then
      return fail(run, 'ERR ' .. option .. ' option of SORT denied in cluster mode.')
    end
    -- It looks up keys of this database that it does not name.
    for key in pairs(seen) do
      need(key)
    end
    return handle(run, ...)
  end
end
