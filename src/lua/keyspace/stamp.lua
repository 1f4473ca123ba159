-- The stamp of a register, in a companion of its key. Its parts, by first byte:
--
--   1 promised, 17 accepted, 33 basis: ballots
--   49 the type, as in `kind_of`; '-': absent
--   50 when the master's own clock cleans up: 16 digits, as in PEXPIRETIME
--   66 until when the value stays at least by the master's own clock, in microseconds, in 8 bytes; 0: no expiry. Shown
--   and sent stamps have the time left instead
--   74 '-' if the state is known to be decided; '?' if nothing was accepted as far as this master knows, which does not
--   know anything older than the ballot before its last programs; else, after a letter, when masters would have cleaned
--   up the value found, in 16. 'a': the program has written this key, alone, and found no lease. Otherwise 'k' if the
--   lease found is kept, 'w' if not; then its length in 8, and the lease; the number of keys in the group in 4, and for
--   each its database in 5, its length in 8, its name and the ballot that it ran under; none: the group is this key
--   alone, and ran under the last ballot of all
--   then the last programs: their number in 2 digits, the ballot up to which it is unknown what else ran, that up to
--   which it is unknown for workers with a later one, and for each its reply's length in 4, the reply, its ballot. If
--   the last one only read the key, add 50 to the number, and the ballot of the last change precedes the first
--
-- Masters hash each byte of a string that a script takes, so a program's changes should be few pieces.
--
-- A ballot has 8 bytes for its counter, and 8 for its worker. String order follows the locale, so bytes are compared. A
-- lease is its expiry here in 16 digits, and its value.
local NONE = string.rep('\0', 16)
local NEW = string.rep('\0', 48) .. '-0000000000000000' .. string.rep('\0', 8) .. '-00' .. NONE .. NONE

-- The selected database; every script sets it first.
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

-- A master not yet admitted runs nothing: its accepted states would count once it is in. The proxy that gives it stamps
-- includes promises of its own, so that programs on the shortest path end up where this is checked.
local function is_in()
  return sub(call('GET', 'redlock-proxy:mark') or '', 1, 2) ~= '? '
end

local function own_us()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Time for which this stamp's value still stays, in microseconds.
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

-- A stamp as shown to others, and a received one as kept here.
local function shown_as(stamp)
  return is_to_stay(stamp) and with_stays(stamp, left_of(stamp)) or stamp
end

local function kept_as(stamp)
  local stays = sub(stamp, 49, 49) ~= '-' and tonumber(sub(stamp, 50, 65)) > 0
  return with_stays(stamp, stays and own_us() + struct.unpack('>I8', sub(stamp, 66, 73)) or 0)
end

-- The time by this master, in microseconds, if it must not promise this ballot for this stamp, because the ballot is
-- past the expiry and the value still stays. Or `other`, if that is earlier.
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

-- Whether the group of a stamp, if any, is that of the last of `programs` on this key. Else the stamp is another key's.
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

-- The stamp, if it has the form of one of this key to its end. Else false, or an error.
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

-- The stamp next to a key, if any. If someone replaced it, this master has forgotten it.
local function stored(key)
  local done, stamp = pcall(whole_of, redis.pcall('GET', companion(key)), key)
  return done and stamp
end

-- A digest of a key with several elements: the same for the same content, in whatever order a master keeps it.
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

-- Stamps values with several elements left here by proxies without stamps, or by others: as accepted first of all,
-- under a ballot derived from the content. A string is a lease.
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

-- The stamp of a key. Until a state is accepted, the database's floor counts as promised, and it is unknown what ran up
-- to it; it follows the semicolon of the mark. `stamp`: the stored one, if already read.
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

-- The ballot of the last program, if any.
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

-- Whether the state is open, and if so: the lease its program found, if any, whether it is kept, and when masters would
-- have cleaned up the value found.
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

-- Sets a string, replacing any value, that expires at `the_end`; below 0: never.
local function put(key, value, the_end)
  if the_end >= 0 then
    return call('SET', key, value, 'PXAT', string.format('%.0f', the_end))
  end
  return call('SET', key, value)
end

-- Restores a lease as it was.
local function put_back(key, lease)
  return put(key, sub(lease, 17), tonumber(sub(lease, 1, 16)))
end

-- The promise for a key whose value is gone. Once this master's own clock may have cleaned it up, claims have found
-- nothing: so nothing from before the expiry counts any more.
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

-- Whether the value under its stamp is gone, the lease that the key holds, if any, and the promised ballot.
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
    -- The proxy has not put that here.
    return kind ~= '-', false, promised
  end
  local value = call('GET', key)
  return kind ~= '-', string.format('%016.0f', clean) .. value, promised
end
