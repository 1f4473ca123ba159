-- The stamp of a register, in a companion of its key. Its parts, by their first byte:
--
--   1 promised, 33 accepted, 65 basis: ballots
--   97 the type, as `kind_of` has it; '-': absent
--   98 when the master's own clock cleans up: 16 digits, as PEXPIRETIME has it
--   114 '-' if the state is known to be decided; else 'k' if the lease that was found is kept, and 'w' if not; when masters
--   would have cleaned up what was found, in 16; the length of that lease in 8, and itself; how many keys the group has
--   in 4, and for each its database in 5, its length in 8, itself and the ballot that it ran under; none: the group is this
--   key alone, and ran under the last ballot of all
--   then the last programs: how many in 2 digits, the ballot of the last one before them, and for each the length of its
--   reply in 4, the reply, its ballot
--
-- What one program changes are few pieces: masters copy them for each that writes.
--
-- A ballot is 16 decimal digits, its counter, and 16 hexadecimal ones, its worker. The order of strings follows the
-- locale, so they are compared as numbers. A lease is 16 digits, when it ends here, and its value.
local NONE = string.rep('0', 32)
local NEW = string.rep('0', 96) .. '-0000000000000000-00' .. NONE

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
  local promised, dropped = sub(stamp, 1, 32), sub(stamp, 117)
  promised = is_below(promised, floor) and floor or promised
  dropped = is_below(dropped, floor) and floor or dropped
  return promised .. sub(stamp, 33, 116) .. dropped
end

RECENT_OF

-- The ballot of the last program, if there is any.
local function last_of(stamp)
  local at = recent_of(stamp)
  return sub(stamp, at, at + 1) ~= '00' and sub(stamp, -32)
end

-- 'ran': the program of this ballot is part of the state. 'no': it is not. Else the stamp does not reach back so far.
local function fate(stamp, ballot)
  local first = recent_of(stamp)
  local at = first + 34
  for _ = 1, tonumber(sub(stamp, first, first + 1)) do
    at = at + 36 + tonumber(sub(stamp, at, at + 3))
    if sub(stamp, at - 32, at - 1) == ballot then
      return 'ran'
    end
  end
  return is_below(sub(stamp, first + 2, first + 33), ballot) and 'no' or 'not known'
end

-- Whether the state is open, and if so: the lease that its program found, if any, whether it is kept, and when masters
-- would have cleaned up what it found.
local function open(stamp)
  local how = sub(stamp, 114, 114)
  if how == '-' then
    return false
  end
  local length = tonumber(sub(stamp, 131, 138))
  local found = length > 0 and sub(stamp, 139, 138 + length)
  return true, found, how == 'k', tonumber(sub(stamp, 115, 130))
end

-- Whether a register with this stamp exists for clients at a time in microseconds. Masters clean up SLACK_MS later.
local function lives(stamp, now)
  local clean = tonumber(sub(stamp, 98, 113))
  return sub(stamp, 97, 97) ~= '-' and (clean < 0 or now < (clean - SLACK_MS) * 1000)
end

-- When a lease ends, as commands take it.
local function end_of(lease)
  return string.format('%.0f', tonumber(sub(lease, 1, 16)))
end

-- What has been promised for a key whose value is gone. Once the master's own clock may have cleaned it up, claims have
-- found nothing: so nothing counts any more from before the end.
local function promised_without(stamp)
  local promised, clean = sub(stamp, 1, 32), tonumber(sub(stamp, 98, 113))
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
  local kind = sub(stamp, 97, 97)
  if clean == -2 then
    if kind == '-' then
      return false, false, sub(stamp, 1, 32)
    end
    return true, false, promised_without(stamp)
  end
  local found = kind_of(key)
  if found == kind and clean == tonumber(sub(stamp, 98, 113)) then
    return false, false, sub(stamp, 1, 32)
  end
  local value = found == 's' and call('GET', key) or found .. redis.sha1hex(call('DUMP', key))
  local promised = kind == '-' and sub(stamp, 1, 32) or promised_without(stamp)
  return kind ~= '-', string.format('%016.0f', clean) .. value, promised
end
