-- Commands whose keys masters report.

-- If masters report no keys for a call, they refuse it, or it touches none. Any other error says nothing: without the
-- permission to ask, a key could change without a stamp.
WITHOUT_KEYS

-- `COMMAND`'s report on a call's keys; else the reason, if the call must not run.
local function keys_of(how, ...)
  if select('#', ...) == 1 then
    return {}
  end
  local keys = real.pcall('COMMAND', how, ...)
  if type(keys) == 'table' and not keys.err then
    return keys
  end
  local why = type(keys) == 'table' and keys.err or 'ERR nothing'
  if without_keys[why] then
    return {}
  end
  local name = string.lower((...))
  return {}, "ERR masters do not tell which keys '" .. name .. "' uses: allow their user COMMAND " .. how .. " (" .. why .. ")"
end

-- A command that reads its keys, in any position.
local function reading(handle)
  return function(run, ...)
    local keys, why = keys_of('GETKEYS', ...)
    if why then
      return fail(run, why)
    end
    for at = 1, #keys do
      need(keys[at])
    end
    return handle(run, ...)
  end
end

-- A command that reads its first word, and no other key.
local function reading_first(handle)
  return function(run, ...)
    need((select(2, ...)))
    return handle(run, ...)
  end
end

-- Reads that need not take the tag off a lease, by command. In one local, as a program has room for 200.
local asking = {
  get = function(run, ...)
    local _, lease = ask((select(2, ...)))
    if lease and select('#', ...) == 2 then
      return lease[1]
    end
    return run(...)
  end,
  mget = function(run, ...)
    local words, tokens = { ... }, {}
    for at = 2, #words do
      local _, lease = ask(words[at])
      tokens[at - 1] = lease and lease[1]
    end
    local values = run(...)
    for at, token in pairs(type(values) == 'table' and not values.err and tokens or {}) do
      values[at] = token
    end
    return values
  end,
  exists = function(run, ...)
    for at = 2, select('#', ...) do
      ask((select(at, ...)))
    end
    return run(...)
  end,
}

-- A command that may change some of its keys, and only read others. One that stores nothing over nothing answers 0.
local function keyed(run, ...)
  local keys, why = keys_of('GETKEYSANDFLAGS', ...)
  if why then
    return fail(run, why)
  end
  local was_there, saved = false, {}
  for at = 1, #keys do
    local key, flags = unpack(keys[at])
    local only_reads = false
    for one, other in pairs(flags.set or flags) do
      local flag = type(one) == 'table' and one or other
      only_reads = only_reads or flag.ok == 'RO'
    end
    if only_reads then
      need(key)
    else
      save(key)
      saved[#saved + 1] = key
      was_there = was_there or call('EXISTS', key) == 1
    end
  end
  local reply = run(...)
  if writes and not wrote and not was_there and reply == 0 then
    writes = saved[1] and call('EXISTS', unpack(saved)) > 0
  end
  return reply
end

-- PFMERGE also writes without sources; COMMAND then finds no keys.
local function merge(run, ...)
  save((select(2, ...)))
  for at = 3, select('#', ...) do
    need((select(at, ...)))
  end
  return run(...)
end
