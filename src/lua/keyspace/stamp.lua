-- The stamp of a register, in a companion of its key. Its parts, by their first byte:
--
--   1 promised, 17 accepted, 33 basis: ballots
--   49 the type, as `kind_of` has it; '-': absent
--   50 when the master's own clock cleans up: 16 digits, as PEXPIRETIME has it
--   66 until when the value stays at least by the master's own clock, in microseconds, in 8 bytes; 0: it has no end. What is
--   shown or sent has how long that is from now
--   74 '-' if the state is known to be decided; '?' if nothing was accepted, as far as this master knows, which does not
--   know of what is older than the ballot before its last programs; else when masters would have cleaned up what was found, in 16, after an
--   'a' if the program has written this key, alone, and no lease was found; or else a 'k' if the lease that was found is
--   kept, and 'w' if not, and then the length of that lease in 8, and itself; how many keys the group has in 4, and for
--   each its database in 5, its length in 8, itself and the ballot that it ran under; none: the group is this key alone,
--   and ran under the last ballot of all
--   then the last programs: how many in 2 digits, up to which ballot it is not known what else ran, up to which it is not
--   known of workers of which there is a later one, and for each the length of its reply in 4, the reply, its ballot. If the
--   last one has only read the key, they are 50 more, and before the first is the ballot of the last one that has changed it
--
-- Masters hash each byte of a string that a script takes, and what one program changes should be few pieces.
--
-- A ballot has 8 bytes for its counter, and 8 for its worker. The order of strings follows the locale, so their bytes are
-- compared. A lease is 16 digits, when it ends here, and its value.
local NONE = string.rep('\0', 16)
local NEW = string.rep('\0', 48) .. '-0000000000000000' .. string.rep('\0', 8) .. '-00' .. NONE .. NONE

-- The database that is selected; every script says first which that is.
local here

local function choose(wanted)
  if wanted ~= here then
    call('SELECT', wanted)
    here = wanted
  end
end

IS_BELOW

-- The counter of a ballot, in microseconds, and the lowest ballot with it.
local function counter_of(ballot)
  return (struct.unpack('>I8', ballot))
end

local function lowest_at(counter)
  return struct.pack('>I8', counter) .. sub(NONE, 1, 8)
end

-- A master that is yet to be admitted runs nothing: what it has accepted would count as soon as it is in. Who gives it stamps
-- gives them promises of its own, so that the shortest way of programs ends up where this is looked at.
local function is_in()
  return sub(call('GET', 'redlock-proxy:mark') or '', 1, 2) ~= '? '
end

local function own_us()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- How long what has this stamp still stays, in microseconds.
local function left_of(stamp)
  local stays = struct.unpack('>I8', sub(stamp, 66, 73))
  return stays > 0 and math.max(stays - own_us(), 0) or 0
end

local function with_stays(stamp, stays)
  return sub(stamp, 1, 65) .. struct.pack('>I8', stays) .. sub(stamp, 74)
end

local function is_to_stay(sent)
  return sub(sent, 66, 73) ~= sub(NONE, 1, 8)
end

-- A stamp as others are shown it, and one that was sent, as it is kept.
local function shown_as(stamp)
  return is_to_stay(stamp) and with_stays(stamp, left_of(stamp)) or stamp
end

local function kept_as(stamp)
  local stays = sub(stamp, 49, 49) ~= '-' and tonumber(sub(stamp, 50, 65)) > 0
  return with_stays(stamp, stays and own_us() + struct.unpack('>I8', sub(stamp, 66, 73)) or 0)
end

-- The time that this master takes it to be, in microseconds, if it must not promise this ballot to what has this stamp: that
-- would be behind its end, and it still stays. Or `other`, if that is earlier.
local function latest_of(stamp, ballot, other)
  local clean = tonumber(sub(stamp, 50, 65))
  local the_end = (clean - SLACK_MS) * 1000
  if sub(stamp, 49, 49) == '-' or clean <= 0 or counter_of(ballot) < the_end then
    return other
  end
  local left = left_of(stamp)
  local latest = left > 0 and math.max(the_end - left, 0)
  return latest and (not other or latest < other) and latest or other
end

local function refused(highest, latest)
  return { 'refused', highest, latest and string.format('%.0f', latest) or nil }
end

local function companion(key)
  return 'redlock-proxy:s:' .. key
end

RECENT_OF

-- Whether the group of a stamp, if it has one, is that of the last of so many programs on this key. Else the stamp is another
-- key's.
local function is_of(stamp, key, programs)
  local how = sub(stamp, 74, 74)
  if how ~= 'k' and how ~= 'w' then
    return true
  end
  local at = 99 + tonumber(sub(stamp, 91, 98))
  local keys = tonumber(sub(stamp, at, at + 3))
  at = at + 4
  for _ = 1, keys do
    local name = at + 13
    local ran = name + tonumber(sub(stamp, at + 5, at + 12))
    local is_here = not here or tonumber(sub(stamp, at, at + 4)) == tonumber(here)
    if is_here and sub(stamp, name, ran - 1) == key then
      return programs == 0 or sub(stamp, ran, ran + 15) == sub(stamp, -16)
    end
    at = ran + 16
  end
  return keys == 0
end

-- What has the form of a stamp of this key, up to its end. Else false, or an error.
local function whole_of(stamp, key)
  local match = string.match
  local at = match(stamp, '^[-slezhx?][-%d]' .. string.rep('%d', 15) .. '........[-?akw]', 49) and recent_of(stamp)
  local count = match(stamp, '^%d%d', at) + 0
  at = at + (count < 50 and 34 or 50)
  for _ = 1, count % 50 do
    at = at + 20 + match(stamp, '^%d%d%d%d', at)
  end
  return at == #stamp + 1 and is_of(stamp, key, count % 50) and stamp
end

-- The stamp that stands beside a key, if any. If somebody has put something else in its place, this master has forgotten it.
local function stored(key)
  local done, stamp = pcall(whole_of, redis.pcall('GET', companion(key)), key)
  return done and stamp
end

-- What a key of several elements holds, in a few bytes: the same for the same content, in whatever order a master keeps it.
local function digest(key, kind)
  local parts
  if kind == 'l' then
    parts = call('LRANGE', key, 0, -1)
  elseif kind == 'z' then
    parts = call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'e' then
    parts = call('SMEMBERS', key)
    table.sort(parts)
  elseif kind == 'h' then
    parts = {}
    local words = call('HGETALL', key)
    for at = 1, #words, 2 do
      parts[#parts + 1] = #words[at] .. ':' .. words[at] .. words[at + 1]
    end
    table.sort(parts)
  else
    -- Without the version of the format and the checksum over it.
    parts = { sub(call('DUMP', key), 1, -11) }
  end
  for at, part in ipairs(parts) do
    parts[at] = #part .. ':' .. part
  end
  return redis.sha1hex(kind .. table.concat(parts))
end

-- Stamps what proxies without stamps, or somebody else, have left here under a key of several elements: as accepted before
-- all else, under a ballot that its content names. A string is a lease.
local function stamp_anew(key)
  local kind = kind_of(key)
  if kind == '-' or kind == 's' then
    return
  end
  local clean = call('PEXPIRETIME', key)
  local stays = math.max(clean, 0) * 1000
  if clean > 0 then
    clean = clean + SLACK_MS
    call('PEXPIREAT', key, clean)
  end
  local accepted = struct.pack('>I8', 1) .. sub(digest(key, kind), 1, 8)
  local stamp = with_stays(NONE .. accepted .. NONE .. kind .. string.format('%016.0f', clean) .. sub(NEW, 66), stays)
  call('SET', companion(key), stamp)
  return stamp
end

-- The stamp of a key. As long as nothing was accepted, the floor of the database counts as promised, and nobody knows what
-- ran up to there: it stands behind the semicolon of the mark. Who has read what is stored gives it.
local function stamp_of(key, stamp)
  stamp = stamp or stored(key) or stamp_anew(key)
  if stamp and sub(stamp, 17, 32) ~= NONE then
    return stamp
  end
  local floor = string.match(call('GET', 'redlock-proxy:mark') or '', ';(%d+) ') or '0'
  stamp = stamp or NEW
  if floor == '0' then
    return stamp
  end
  floor = struct.pack('>I8', tonumber(floor)) .. string.rep('\255', 8)
  local promised, dropped = sub(stamp, 1, 16), sub(stamp, 77, 92)
  promised = is_below(promised, floor) and floor or promised
  dropped = is_below(dropped, floor) and floor or dropped
  return promised .. sub(stamp, 17, 76) .. dropped .. sub(stamp, 93)
end

-- The counter of the last flush of the selected database.
local function last_flush()
  return tonumber(string.match(call('GET', 'redlock-proxy:mark') or '', ';%d+ (%d+)$') or 0)
end

-- The ballot of the last program, if there is any.
local function last_of(stamp)
  local at = recent_of(stamp)
  return sub(stamp, at, at + 1) ~= '00' and sub(stamp, -16)
end

-- 'ran': the program of this ballot is part of the state. 'no': it is not. Else the stamp does not tell.
local function fate(stamp, ballot)
  local first = recent_of(stamp)
  local count, has_later = tonumber(sub(stamp, first, first + 1)), false
  local at = first + (count < 50 and 34 or 50)
  for _ = 1, count % 50 do
    at = at + 20 + tonumber(sub(stamp, at, at + 3))
    local ran = sub(stamp, at - 16, at - 1)
    if ran == ballot then
      return 'ran'
    end
    has_later = has_later or sub(ran, 9) == sub(ballot, 9) and is_below(ballot, ran)
  end
  local dropped, thinned = sub(stamp, first + 2, first + 17), sub(stamp, first + 18, first + 33)
  local is_known = is_below(dropped, ballot) and not (has_later and not is_below(thinned, ballot))
  return is_known and 'no' or 'not known'
end

-- Whether the state is open, and if so: the lease that its program found, if any, whether it is kept, and when masters
-- would have cleaned up what it found.
local function open(stamp)
  local how = sub(stamp, 74, 74)
  if how == '-' or how == '?' then
    return false
  end
  local length = how == 'a' and 0 or tonumber(sub(stamp, 91, 98))
  local found = length > 0 and sub(stamp, 99, 98 + length)
  return true, found, how == 'k', tonumber(sub(stamp, 75, 90))
end

-- Whether a register with this stamp exists for clients at a time in microseconds. Masters clean up SLACK_MS later.
local function lives(stamp, now)
  local clean = tonumber(sub(stamp, 50, 65))
  return sub(stamp, 49, 49) ~= '-' and (clean < 0 or now < (clean - SLACK_MS) * 1000)
end

-- Puts a string there, in the place of whatever it is, that ends at `the_end`; below 0: never.
local function put(key, value, the_end)
  if the_end >= 0 then
    return call('SET', key, value, 'PXAT', string.format('%.0f', the_end))
  end
  return call('SET', key, value)
end

-- Puts a lease back as it was.
local function put_back(key, lease)
  return put(key, sub(lease, 17), tonumber(sub(lease, 1, 16)))
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
  local promised = kind == '-' and sub(stamp, 1, 16) or promised_without(stamp)
  if found ~= 's' then
    -- Nothing of ours has put that here.
    return kind ~= '-', false, promised
  end
  local value = call('GET', key)
  return kind ~= '-', string.format('%016.0f', clean) .. value, promised
end
