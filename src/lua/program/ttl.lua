-- Times to live are longer on the masters than the client asks for, and shorter when it reads them.

-- An integer that Redis would take, and that a double holds exactly.
local function integer(word)
  if type(word) == 'string' then
    word = string.find(word, '^%-?[1-9]%d*$') and tonumber(word)
  elseif type(word) ~= 'number' or word % 1 ~= 0 then
    return nil
  end
  return word and word > -2 ^ 52 and word < 2 ^ 52 and word
end

local function now_ms()
  return seconds * 1000 + math.floor(micros / 1000)
end

-- What to set on a master, in milliseconds; nil: leave it to Redis, which refuses it or deletes the key.
local function padded(word, unit, absolute)
  local ttl = integer(word)
  if not ttl then
    return nil
  end
  ttl = absolute and ttl * unit - now_ms() or ttl * unit
  if ttl <= 0 or ttl >= 2 ^ 52 then
    return nil
  end
  return format('%.0f', ttl + math.ceil(ttl * DRIFT) + PAD_MS)
end

local function remaining(run, ...)
  local ttl = run('PTTL', select(2, ...))
  read_ttl = 1
  if type(ttl) == 'number' and ttl > 0 then
    return math.floor(math.max(ttl - PAD_MS, 0) / (1 + DRIFT))
  end
  return ttl
end

local function in_unit(ms, unit)
  if type(ms) == 'number' and ms >= 0 and unit == 1000 then
    return math.floor((ms + 500) / 1000)
  end
  return ms
end

-- PTTL and TTL
local function ttl_in(unit)
  return function(run, ...)
    return in_unit(remaining(run, ...), unit)
  end
end

-- PEXPIRETIME and EXPIRETIME
local function end_in(unit)
  return function(run, ...)
    local ttl = remaining(run, ...)
    if type(ttl) ~= 'number' or ttl < 0 then
      return ttl
    end
    return in_unit(now_ms() + ttl, unit)
  end
end

-- EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT
local function expire_in(unit, absolute)
  return function(run, ...)
    local _, key, ttl = ...
    save(key)
    local ms = padded(ttl, unit, absolute)
    if ms then
      return run('PEXPIRE', key, ms, select(4, ...))
    end
    return run(...)
  end
end

-- SETEX and PSETEX
local function setex_in(unit)
  return function(run, ...)
    local _, key, ttl, value = ...
    save(key)
    local ms = padded(ttl, unit)
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
    save((select(2, ...)))
    if count < first + 1 then
      return run(...)
    end
    local words = { ... }
    for at = first, count - 1 do
      local option = type(words[at]) == 'string' and string.upper(words[at])
      if option == 'EX' or option == 'PX' or option == 'EXAT' or option == 'PXAT' then
        local unit = (option == 'EX' or option == 'EXAT') and 1000 or 1
        local ms = padded(words[at + 1], unit, #option == 4)
        if ms then
          words[at], words[at + 1] = 'PX', ms
        end
        break
      end
    end
    return run(unpack(words, 1, count))
  end
end
