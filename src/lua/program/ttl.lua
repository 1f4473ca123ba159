-- Times to live are longer on the masters than the client asks for, and shorter when it reads them.

local function now_ms()
  return seconds * 1000 + math.floor(micros / 1000)
end

-- As Redis does it: `call` raises what `pcall` returns.
local function fail(run, text)
  local why = { err = text }
  if run == call then
    error(why, 0)
  end
  return why
end

local function fail_too_long(run, name)
  name = string.lower(name)
  return fail(run, "ERR invalid expire time in '" .. name .. "' command: longer than --max-ttl " .. 'LONGEST_TTL')
end

-- What to set on a master, in milliseconds, for a time that counts from `now`; nil: leave it to Redis,
-- which refuses it or deletes the key. And whether it is longer than clients may ask for.
local function padded(word, unit, now)
  local is_integer
  if type(word) == 'string' then
    is_integer = string.find(word, '^[1-9]%d*$')
  else
    is_integer = type(word) == 'number' and word % 1 == 0
  end
  local ttl = is_integer and word * unit - now
  if ttl and ttl > MAX_TTL_MS and ttl < 2 ^ 63 then
    return nil, true
  end
  -- Up to there a double is exact.
  if ttl and ttl > 0 and ttl < 2 ^ 52 then
    return string.format('%.0f', ttl + math.ceil(ttl * CLOCK_DRIFT) + PAD_MS)
  end
end

-- The proxy is told what this master has, the script what the masters have agreed on. Whether a key is
-- there, and ends at all, each master says for itself.
local function handed_out(key, ttl)
  times = times or {}
  local at = #times
  times[at + 1], times[at + 2] = key, ttl
  local told = agreed and agreed[key] and table.remove(agreed[key], 1) or 0
  return ttl > 0 and told > 0 and told or ttl
end

-- PTTL
local function remaining(run, ...)
  local ttl = run('PTTL', select(2, ...))
  if type(ttl) ~= 'number' then
    return ttl
  end
  if ttl > 0 then
    ttl = math.floor(math.max(ttl - PAD_MS, 0) / (1 + CLOCK_DRIFT))
  end
  return handed_out(select(2, ...) .. '', ttl)
end

-- PEXPIRETIME
local function expiry(run, ...)
  local ttl = remaining(run, ...)
  if type(ttl) ~= 'number' or ttl < 0 then
    return ttl
  end
  return now_ms() + ttl
end

-- TTL and EXPIRETIME
local function in_seconds(handle)
  return function(run, ...)
    local ms = handle(run, ...)
    if type(ms) == 'number' and ms >= 0 then
      return math.floor((ms + 500) / 1000)
    end
    return ms
  end
end

-- EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT
local function expire_in(unit, now)
  return function(run, ...)
    local name, key, ttl = ...
    save(key, true)
    local ms, is_too_long = padded(ttl, unit, now)
    if is_too_long then
      return fail_too_long(run, name)
    end
    if ms then
      return run('PEXPIRE', key, ms, select(4, ...))
    end
    return run(...)
  end
end

-- SETEX and PSETEX
local function setex_in(unit)
  return function(run, ...)
    local name, key, ttl, value = ...
    save(key)
    local ms, is_too_long = padded(ttl, unit, 0)
    if is_too_long then
      return fail_too_long(run, name)
    end
    if ms and select('#', ...) == 4 then
      return run('PSETEX', key, ms, value)
    end
    return run(...)
  end
end

-- SET and GETEX, whose options begin at `first`
local function with_options(first)
  return function(run, ...)
    local count = select('#', ...)
    local name, key = ...
    save(key)
    if count < first + 1 then
      return run(...)
    end
    local words = { ... }
    for at = first, count - 1 do
      local option = type(words[at]) == 'string' and string.upper(words[at])
      if option == 'EX' or option == 'PX' or option == 'EXAT' or option == 'PXAT' then
        local unit = (option == 'EX' or option == 'EXAT') and 1000 or 1
        local ms, is_too_long = padded(words[at + 1], unit, #option == 4 and now_ms() or 0)
        if is_too_long then
          return fail_too_long(run, name)
        elseif ms then
          words[at], words[at + 1] = 'PX', ms
        end
        break
      end
    end
    return run(unpack(words, 1, count))
  end
end
