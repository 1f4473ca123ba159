-- TTLs are longer than the client asks for, and shorter when it reads them. They end by the time that the proxy sends:
-- a master's own clock only cleans up, SLACK_MS later.

local function now_ms()
  return math.floor(told_us / 1000)
end

-- Maximum time after sending in which a program may set a TTL. `part`: the tenth of it added on masters.
local function freshness(part)
  return math.min(math.max(math.floor(part), 5), VOTE_TIMEOUT_MS)
end

local function fail_too_long(run, name)
  name = string.lower(name)
  return fail(run, "ERR invalid expire time in '" .. name .. "' command: longer than --max-ttl " .. 'LONGEST_TTL')
end

-- When a master cleans up, for a time counted from `now`; nil: leave it to Redis, which refuses it or deletes the key.
-- And whether it is longer than clients may ask for.
local function clean_at(word, unit, now)
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
  -- Doubles are exact up to there.
  if ttl and ttl > 0 and ttl < 2 ^ 52 then
    local fresh = freshness(ttl / 10)
    if now == 0 and ttl > 2 then
      -- A shorter TTL is never a lock: Redlock's validity, `TTL - elapsed - drift - 2 ms`, is never above 0.
      dated = math.min(dated or ttl, ttl)
    end
    return string.format('%.0f', now_ms() + ttl + math.ceil((ttl + fresh) * CLOCK_DRIFT) + fresh + 2 + SLACK_MS)
  end
  -- Redis counts to the largest integer. Here all such late expiries are one time, for which stamps have the digits. A
  -- double could be off by a second there, so a moment is compared as text.
  local is_moment = now > 0 and type(word) == 'string'
  local largest = unit == 1 and '9223372036854775807' or '9223372036854775'
  local is_counted
  if is_moment then
    is_counted = #word < #largest or #word == #largest and word <= largest
  else
    is_counted = ttl and ttl + now_ms() < 2 ^ 63
  end
  if ttl and ttl > 0 and is_counted then
    return '9007199254740991'
  end
end

-- Time for which a client may rely on a key, given the time left.
local function without_pad(left)
  left = math.floor(math.max(left - 2, 0) / (1 + CLOCK_DRIFT))
  return math.max(left - freshness(left / 11), 0)
end

-- Whether a key lives longer than clients may ask for.
local function lives_too_long(key)
  need(key)
  local clean = real.pcall('PEXPIRETIME', key)
  return type(clean) == 'number' and without_pad(clean - SLACK_MS - now_ms()) > MAX_TTL_MS
end

-- PTTL
local function remaining(run, ...)
  local _, lease = ask((select(2, ...)))
  local clean = lease and select('#', ...) == 2 and lease[2] or run('PEXPIRETIME', select(2, ...))
  if type(clean) ~= 'number' or clean < 0 then
    return clean
  end
  return without_pad(clean - SLACK_MS - now_ms())
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
    save(key)
    local clean, is_too_long = clean_at(ttl, unit, now)
    if is_too_long then
      return fail_too_long(run, name)
    end
    if clean then
      return run('PEXPIREAT', key, clean, select(4, ...))
    end
    return run(...)
  end
end

-- SETEX and PSETEX
local function setex_in(unit)
  return function(run, ...)
    local name, key, ttl, value = ...
    save(key)
    local clean, is_too_long = clean_at(ttl, unit, 0)
    if is_too_long then
      return fail_too_long(run, name)
    end
    if clean and select('#', ...) == 4 then
      return run('SET', key, value, 'PXAT', clean)
    end
    return run(...)
  end
end

-- SET and GETEX, whose options begin at `first`. Of several times of one kind Redis takes the last, of two kinds none
-- (`parseExtendedStringArgumentsOrReply` in `t_string.c`). Calls that Redis refuses are left to it.
local function with_options(first)
  return function(run, ...)
    local count = select('#', ...)
    local name, key = ...
    save(key)
    if count < first + 1 then
      return run(...)
    end
    local words, kind, places, at = { ... }, nil, {}, first
    local units = { EX = 1000, PX = 1, EXAT = 1000, PXAT = 1 }
    while at <= count do
      local option = type(words[at]) == 'string' and string.upper(words[at])
      local has_value = units[option]
      if has_value or option == 'KEEPTTL' or option == 'PERSIST' then
        if kind and kind ~= option then
          return run(...)
        end
        kind = option
        places[#places + 1] = at
      else
        -- Conditions of newer servers.
        has_value = option == 'IFEQ' or option == 'IFNE' or option == 'IFDEQ' or option == 'IFDNE'
      end
      at = at + (has_value and 2 or 1)
    end
    if not kind or not units[kind] then
      return run(...)
    end
    local clean, is_too_long = clean_at(words[places[#places] + 1], units[kind], #kind == 4 and now_ms() or 0)
    if is_too_long then
      return fail_too_long(run, name)
    end
    for _, place in ipairs(clean and places or {}) do
      words[place], words[place + 1] = 'PXAT', clean
    end
    return run(unpack(words, 1, count))
  end
end

-- SET with IFEQ, in Redis since 8.4: also on masters without it.
local function if_equal(handle)
  return function(run, ...)
    local words, at, gets, expected = { ... }, 4, false, nil
    while at <= #words do
      local option = type(words[at]) == 'string' and string.upper(words[at])
      local has_value = option == 'EX' or option == 'PX' or option == 'EXAT' or option == 'PXAT' or option == 'IFEQ'
      gets = gets or option == 'GET'
      expected = expected or option == 'IFEQ' and at or nil
      at = at + (has_value and 2 or 1)
    end
    if not expected or not words[expected + 1] then
      return handle(run, ...)
    end
    local key = words[2]
    need(key)
    local held = run('GET', key)
    if type(held) == 'table' then
      return held
    elseif held ~= words[expected + 1] .. '' then
      return gets and held
    end
    words[expected] = 'XX'
    table.remove(words, expected + 1)
    return handle(run, unpack(words))
  end
end

-- RESTORE
local function restore(run, ...)
  local count = select('#', ...)
  local name, key, ttl, value = ...
  save(key)
  local options, now, at = {}, 0, 5
  while at <= count do
    local option = (select(at, ...))
    local upper = type(option) == 'string' and string.upper(option)
    local width = (upper == 'IDLETIME' or upper == 'FREQ') and 2 or 1
    if upper == 'ABSTTL' then
      now = now_ms()
    else
      options[#options + 1], options[#options + 2] = option, width == 2 and (select(at + 1, ...)) or nil
    end
    at = at + width
  end
  local clean, is_too_long = clean_at(ttl, 1, now)
  if is_too_long then
    return fail_too_long(run, name)
  end
  if clean then
    return run(name, key, clean, value, 'ABSTTL', unpack(options))
  end
  return run(...)
end
