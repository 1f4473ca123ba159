-- The stamp of a register, in a companion of its key. Its parts, by their first byte:
--
--   1 promised, 17 accepted, 33 basis: ballots
--   49 the type, as `kind_of` has it; '-': absent
--   50 when the master's own clock cleans up: 16 digits, as PEXPIRETIME has it
--   66 '-' if the state is known to be decided; else when masters would have cleaned up what was found, in 16, after an
--   'a' if the program has written this key, alone, and no lease was found; or else a 'k' if the lease that was found is
--   kept, and 'w' if not, and then the length of that lease in 8, and itself; how many keys the group has in 4, and for
--   each its database in 5, its length in 8, itself and the ballot that it ran under; none: the group is this key alone,
--   and ran under the last ballot of all
--   then the last programs: how many in 2 digits, the ballot of the last one before them, and for each the length of its
--   reply in 4, the reply, its ballot
--
-- Masters hash each byte of a string that a script takes, and what one program changes should be few pieces.
--
-- A ballot has 8 bytes for its counter, and 8 for its worker. The order of strings follows the locale, so their bytes are
-- compared. A lease is 16 digits, when it ends here, and its value.
local NONE = string.rep('\0', 16)
local NEW = string.rep('\0', 48) .. '-0000000000000000-00' .. NONE

-- The database that is selected; every script says first which that is.
local here

local function choose(wanted)
  if wanted ~= here then
    call('SELECT', wanted)
    here = wanted
  end
end

local function is_below(one, other)
  for at = 1, 16 do
    local byte, others = string.byte(one, at), string.byte(other, at)
    if byte ~= others then
      return byte < others
    end
  end
  return false
end

-- The counter of a ballot, in microseconds, and the lowest ballot with it.
local function counter_of(ballot)
  return (struct.unpack('>I8', ballot))
end

local function lowest_at(counter)
  return struct.pack('>I8', counter) .. sub(NONE, 1, 8)
end

local function companion(key)
  return 'redlock-proxy:s:' .. key
end

-- The stamp of a key. As long as nothing was accepted, the floor of the database counts as promised, and nobody knows what
-- ran up to there: it stands behind the semicolon of the mark.
local function stamp_of(key)
  local stamp = call('GET', companion(key))
  if stamp and sub(stamp, 17, 32) ~= NONE then
    return stamp
  end
  local floor = string.match(call('GET', 'redlock-proxy:mark') or '', ';(%d+) ') or '0'
  stamp = stamp or NEW
  if floor == '0' then
    return stamp
  end
  floor = struct.pack('>I8', tonumber(floor)) .. string.rep('\255', 8)
  local promised, dropped = sub(stamp, 1, 16), sub(stamp, 69)
  promised = is_below(promised, floor) and floor or promised
  dropped = is_below(dropped, floor) and floor or dropped
  return promised .. sub(stamp, 17, 68) .. dropped
end

RECENT_OF

-- The ballot of the last program, if there is any.
local function last_of(stamp)
  local at = recent_of(stamp)
  return sub(stamp, at, at + 1) ~= '00' and sub(stamp, -16)
end

-- 'ran': the program of this ballot is part of the state. 'no': it is not. Else the stamp does not reach back so far.
local function fate(stamp, ballot)
  local first = recent_of(stamp)
  local at = first + 18
  for _ = 1, tonumber(sub(stamp, first, first + 1)) do
    at = at + 20 + tonumber(sub(stamp, at, at + 3))
    if sub(stamp, at - 16, at - 1) == ballot then
      return 'ran'
    end
  end
  return is_below(sub(stamp, first + 2, first + 17), ballot) and 'no' or 'not known'
end

-- Whether the state is open, and if so: the lease that its program found, if any, whether it is kept, and when masters
-- would have cleaned up what it found.
local function open(stamp)
  local how = sub(stamp, 66, 66)
  if how == '-' then
    return false
  end
  local length = how == 'a' and 0 or tonumber(sub(stamp, 83, 90))
  local found = length > 0 and sub(stamp, 91, 90 + length)
  return true, found, how == 'k', tonumber(sub(stamp, 67, 82))
end

-- Whether a register with this stamp exists for clients at a time in microseconds. Masters clean up SLACK_MS later.
local function lives(stamp, now)
  local clean = tonumber(sub(stamp, 50, 65))
  return sub(stamp, 49, 49) ~= '-' and (clean < 0 or now < (clean - SLACK_MS) * 1000)
end

-- When a lease ends, as commands take it.
local function end_of(lease)
  return string.format('%.0f', tonumber(sub(lease, 1, 16)))
end

-- What has been promised for a key whose value is gone. Once the master's own clock may have cleaned it up, claims have
-- found nothing: so nothing counts any more from before the end.
local function promised_without(stamp)
  local promised, clean = sub(stamp, 1, 16), tonumber(sub(stamp, 50, 65))
  if clean > 0 then
    local time = call('TIME')
    local the_end = lowest_at((clean - SLACK_MS) * 1000)
    if time[1] * 1000 + math.floor(time[2] / 1000) >= clean and is_below(promised, the_end) then
      return the_end
    end
  end
  return promised
end

-- Whether the value is gone from under its stamp, the lease that the key holds, if any, and the ballot that is promised.
local function look(key, stamp)
  local clean = call('PEXPIRETIME', key)
  local kind = sub(stamp, 49, 49)
  if clean == -2 then
    if kind == '-' then
      return false, false, sub(stamp, 1, 16)
    end
    return true, false, promised_without(stamp)
  end
  local found = kind_of(key)
  if found == kind and clean == tonumber(sub(stamp, 50, 65)) then
    return false, false, sub(stamp, 1, 16)
  end
  local value = found == 's' and call('GET', key) or found .. redis.sha1hex(call('DUMP', key))
  local promised = kind == '-' and sub(stamp, 1, 16) or promised_without(stamp)
  return kind ~= '-', string.format('%016.0f', clean) .. value, promised
end
