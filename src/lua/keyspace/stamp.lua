-- The stamp of a register, in a companion of its key. Its parts, by their first byte:
--
--   1 promised, 33 accepted, 65 basis, 97 dropped: ballots
--   129 the first letter of KINDS; '-': absent
--   130 when the master's own clock cleans up: 16 digits, as PEXPIRETIME has it
--   146 the last programs: how many in 2 digits, and for each its ballot, the length of its reply in 4, the reply
--   then, unless the state is known to be decided: 'k' if the lease that was found is kept, else 'w'; when masters would
--   have cleaned up what was found, in 16; the length of that lease in 8, and itself; how many keys the group has in 4, and for each its database in 5, its length in 8, itself
--   and the ballot that it ran under
--
-- A ballot is 16 decimal digits, its counter, and 16 hexadecimal ones, its worker. The order of strings follows the
-- locale, so they are compared as numbers. A lease is 16 digits, when it ends here, and its value.
local call, sub = redis.call, string.sub
local KINDS = { string = 's', list = 'l', set = 'e', zset = 'z', hash = 'h', stream = 'x' }
local NONE = string.rep('0', 32)
local NEW = string.rep('0', 128) .. '-000000000000000000'

-- The database that is selected; every script says first which that is.
local here

local function choose(wanted)
  if wanted ~= here then
    call('SELECT', wanted)
    here = wanted
  end
end

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

-- The stamp of a key. As long as nothing was accepted, the floor of the database counts as promised, and nobody knows what
-- ran up to there: it stands behind the semicolon of the mark.
local function stamp_of(key)
  local stamp = call('GET', companion(key))
  if stamp and sub(stamp, 33, 64) ~= NONE then
    return stamp
  end
  local floor = string.match(call('GET', 'redlock-proxy:mark') or '', ';(%d+) ') or '0'
  stamp = stamp or NEW
  if floor == '0' then
    return stamp
  end
  floor = string.format('%016.0f', tonumber(floor)) .. 'ffffffffffffffff'
  local promised, dropped = sub(stamp, 1, 32), sub(stamp, 97, 128)
  promised = is_below(promised, floor) and floor or promised
  dropped = is_below(dropped, floor) and floor or dropped
  return promised .. sub(stamp, 33, 96) .. dropped .. sub(stamp, 129)
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

-- Whether the state is open, and if so: the lease that its program found, if any, whether it is kept, and when masters
-- would have cleaned up what it found.
local function open(stamp)
  local at = end_of_recent(stamp)
  local how = sub(stamp, at, at)
  if how == '' then
    return false
  end
  local length = tonumber(sub(stamp, at + 17, at + 24))
  local found = length > 0 and sub(stamp, at + 25, at + 24 + length)
  return true, found, how == 'k', tonumber(sub(stamp, at + 1, at + 16))
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

-- What has been promised for a key whose value is gone. Once the master's own clock may have cleaned it up, claims have
-- found nothing: so nothing counts any more from before the end.
local function promised_without(stamp)
  local promised, clean = sub(stamp, 1, 32), tonumber(sub(stamp, 130, 145))
  if clean > 0 then
    local time = call('TIME')
    local the_end = string.format('%016.0f', (clean - SLACK_MS) * 1000) .. sub(NONE, 1, 16)
    if time[1] * 1000 + math.floor(time[2] / 1000) >= clean and is_below(promised, the_end) then
      return the_end
    end
  end
  return promised
end

-- Whether the value is gone from under its stamp, the lease that the key holds, if any, and the ballot that is promised.
local function look(key, stamp)
  local clean = call('PEXPIRETIME', key)
  local kind = sub(stamp, 129, 129)
  if clean == -2 then
    if kind == '-' then
      return false, false, sub(stamp, 1, 32)
    end
    return true, false, promised_without(stamp)
  end
  local found = KINDS[call('TYPE', key).ok]
  if found == kind and clean == tonumber(sub(stamp, 130, 145)) then
    return false, false, sub(stamp, 1, 32)
  end
  local value = found == 's' and call('GET', key) or found .. redis.sha1hex(call('DUMP', key))
  local promised = kind == '-' and sub(stamp, 1, 32) or promised_without(stamp)
  return kind ~= '-', string.format('%016.0f', clean) .. value, promised
end
