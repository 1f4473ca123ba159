-- The stamp of a register, in a companion of its key. Its parts, by their first byte:
--
--   1 promised, 33 accepted, 65 basis, 97 dropped: ballots
--   129 the first letter of KINDS; '-': absent
--   130 when the master's own clock cleans up: 16 digits, as PEXPIRETIME has it
--   146 the last programs: how many in 2 digits, and for each its ballot, the length of its reply in 4, the reply
--   then, unless the state is known to be decided: 'k' if the lease that was found is kept, else 'w'; the length of that
--   lease in 8, and itself; how many keys the group has in 4, and for each its database in 5, its length in 8, itself
--   and the ballot that it ran under
--
-- A ballot is 16 decimal digits, its counter, and 16 hexadecimal ones, its worker. The order of strings follows the
-- locale, so they are compared as numbers. A lease is 16 digits, when it ends here, and its value.
local call, sub = redis.call, string.sub
local KINDS = { string = 's', list = 'l', set = 'e', zset = 'z', hash = 'h', stream = 'x' }
local NONE = string.rep('0', 32)
local NEW = string.rep('0', 128) .. '-000000000000000000'

local function is_below(one, other)
  if one == other then
    return false
  end
  local counter, others = tonumber(sub(one, 1, 16)), tonumber(sub(other, 1, 16))
  if counter ~= others then
    return counter < others
  end
  local high, low = sub(one, 17, 24), sub(other, 17, 24)
  if high == low then
    high, low = sub(one, 25, 32), sub(other, 25, 32)
  end
  return tonumber(high, 16) < tonumber(low, 16)
end

local function companion(key)
  return 'redlock-proxy:s:' .. key
end

-- Where the last programs end: the first byte after them. And the last one's ballot, if there is any.
local function end_of_recent(stamp)
  local at, last = 148, nil
  for _ = 1, tonumber(sub(stamp, 146, 147)) do
    last = sub(stamp, at, at + 31)
    at = at + 36 + tonumber(sub(stamp, at + 32, at + 35))
  end
  return at, last
end

-- 'ran': the program of this ballot is part of the state. 'no': it is not. Else the stamp does not reach back so far.
local function fate(stamp, ballot)
  local at = 148
  for _ = 1, tonumber(sub(stamp, 146, 147)) do
    if sub(stamp, at, at + 31) == ballot then
      return 'ran'
    end
    at = at + 36 + tonumber(sub(stamp, at + 32, at + 35))
  end
  return is_below(sub(stamp, 97, 128), ballot) and 'no' or 'not known'
end

-- Whether the state is open, and if so: the lease that its program found, if any, and whether it is kept.
local function open(stamp)
  local at = end_of_recent(stamp)
  local how = sub(stamp, at, at)
  if how == '' then
    return false
  end
  local length = tonumber(sub(stamp, at + 1, at + 8))
  local found = length > 0 and sub(stamp, at + 9, at + 8 + length)
  return true, found, how == 'k'
end

-- Whether a register with this stamp exists for clients at a time in microseconds. Masters clean up SLACK_MS later.
local function lives(stamp, now)
  local clean = tonumber(sub(stamp, 130, 145))
  return sub(stamp, 129, 129) ~= '-' and (clean < 0 or now < (clean - SLACK_MS) * 1000)
end

-- When a lease ends, as commands take it.
local function end_of(lease)
  return string.format('%.0f', tonumber(sub(lease, 1, 16)))
end

-- Whether the value is gone from under its stamp, and the lease that the key holds, if any.
local function look(key, stamp)
  local clean = call('PEXPIRETIME', key)
  local kind = sub(stamp, 129, 129)
  if clean == -2 then
    return kind ~= '-', false
  end
  local found = KINDS[call('TYPE', key).ok]
  if found == kind and clean == tonumber(sub(stamp, 130, 145)) then
    return false, false
  end
  local value = found == 's' and call('GET', key) or found .. redis.sha1hex(call('DUMP', key))
  return kind ~= '-', string.format('%016.0f', clean) .. value
end
