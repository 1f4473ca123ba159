-- Gives this master keys of database ARGV[1]. Returns -1 and changes nothing unless its mark is the provisional one,
-- ARGV[2]. Four arguments per key: the expected value ('' anything or nothing, '*' anything, else this attempt), the
-- form ('t' a text, 'd' a DUMP, 'x' remove this text, 'y' remove the value with this digest), the content, and the TTL
-- in milliseconds (-1: none). KEYS[1]: the mark. Returns the number of keys changed.
local HEADER, ATTEMPT = '\255RL\1', 18

local function is_same_state(one, other)
  local is_tagged = string.sub(one, 1, 4) == HEADER and #one >= 20 and #other >= 20
  return one == other or is_tagged and string.sub(one, 1, ATTEMPT) == string.sub(other, 1, ATTEMPT)
end

local function generation(text)
  local high, low = string.byte(text, 19, 20)
  return (high or 0) * 256 + (low or 0)
end

local function text_of(key)
  return redis.call('TYPE', key).ok == 'string' and redis.call('GET', key)
end

-- A register that arrived meanwhile is newer than any copied lease.
local function is_register(key)
  local stamp = stored(key)
  return stamp and call('EXISTS', key) == 1 and not select(2, look(key, stamp))
end

local function is_there(key, over)
  if over == '' or over == '*' then
    return over == '' or redis.call('EXISTS', key) == 1
  end
  return string.sub(text_of(key) or '', #HEADER + 1, ATTEMPT) == over
end

here = ARGV[1]
redis.call('SELECT', here)
if string.match(redis.call('GET', KEYS[1]) or '', '^[^;]*;') ~= ARGV[2] then
  return -1
end
local changed = 0
for at = 2, #KEYS do
  local key = KEYS[at]
  local over, how, what, ttl = unpack(ARGV, 4 * at - 5, 4 * at - 2)
  ttl = tonumber(ttl)
  if is_register(key) or not is_there(key, over) then
    how = ''
  elseif how == 't' then
    local here = text_of(key)
    if here and is_same_state(here, what) then
      local left = redis.call('PTTL', key)
      if left == -1 or ttl ~= -1 and left > ttl then
        ttl = left
      end
      if here ~= what and generation(here) > generation(what) then
        what = here
      end
    else
      changed = changed + 1
    end
    if ttl == -1 then
      redis.call('SET', key, what)
    else
      redis.call('SET', key, what, 'PX', math.max(ttl, 1))
    end
  elseif how == 'd' then
    -- A key shows 0 in its last millisecond; to RESTORE that means no expiry.
    redis.call('RESTORE', key, ttl < 0 and 0 or math.max(ttl, 1), what, 'REPLACE')
    changed = changed + 1
  elseif how == 'x' and text_of(key) == what or how == 'y' and digest(key) == what then
    changed = changed + redis.call('DEL', key)
  end
end
return changed
