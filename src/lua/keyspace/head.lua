-- The general program. It takes two words per key: the key, and what it must hold, i.e. its accepted ballot, the ballot
-- it may be changed under, its database in 5 digits, the flush after which that was promised in 16, and for a lease its
-- expiry in 16, and its value. The last word: the number of keys in 4 digits, the database in 5, 'ro' for a script that
-- must not write, the time in microseconds in 16, the ballot to promise, and if the program began before at another
-- time, that time in 16, which the program sees instead.
if now then
  -- The words for one key, in full. A ballot is accepted between two flushes, and implies which.
  local expected, where = ARGV[own - 3], sub(here_and_mode, 1, 7)
  local flush = #here_and_mode > 7 and sub(here_and_mode, 8) or '----------------'
  local common = '0001' .. where .. ARGV[own] .. ARGV[own - 2]
  ARGV[own - 3], ARGV[own - 2] = KEYS[1], sub(expected, 17) .. sub(expected, 1, 16) .. sub(where, 1, 5) .. flush
  ARGV[own - 1], ARGV[own] = common, nil
  own = own - 1
end
local common = ARGV[own]
local count = tonumber(sub(common, 1, 4))
now, only, direct = tonumber(sub(common, 12, 27)), false, false
local db, mode = string.format('%d', sub(common, 5, 9)), sub(common, 10, 11)
local first = own - 2 * count
here = db
if not is_in() then
  return { 'refused', NONE }
end

-- The program's keys by database and name, as numbers; those of this database; and five entries each: stamp, whether
-- the value is gone, lease, database, and basis.
local databases, slots = {}, { nil, nil, nil, nil, nil }
local is_refused, highest, latest, has_ended = false, NONE, nil, false
for at = 1, count do
  local key, basis = ARGV[first + 2 * at - 2], ARGV[first + 2 * at - 1]
  local where = string.format('%d', sub(basis, 33, 37))
  choose(where)
  local flush = tonumber(sub(basis, 38, 53))
  local stamp = stamp_of(key)
  local is_gone, lease, promised = look(key, stamp)
  if
    sub(stamp, 17, 32) ~= sub(basis, 1, 16)
    or is_below(sub(basis, 17, 32), promised)
    or (lease and sub(lease, 17)) ~= (sub(basis, 54) ~= '' and sub(basis, 70))
    or flush and flush ~= last_flush()
    or is_gone and lives(stamp, now)
  then
    is_refused = true
  end
  latest = latest_of(stamp, sub(common, 28, 43), latest)
  has_ended = has_ended or lives(stamp, counter_of(sub(basis, 17, 32))) and not lives(stamp, now)
  if is_below(highest, promised) then
    highest = promised
  end
  databases[where] = databases[where] or {}
  databases[where][key] = at
  local last = 5 * at
  slots[last - 4], slots[last - 3], slots[last - 2], slots[last - 1], slots[last] = stamp, is_gone, lease, where, basis
end
if latest or is_refused then
  return refused(highest, latest)
end

-- The leases that are as they were found, by the numbers of their keys: the token without a tag, and when masters clean
-- up, by the expiry that all masters are sent. A transaction mostly asks for no more than that, and puts it there only
-- if it must: a write would tell whoever has cached the key that it has changed.
local leases, keys = {}, {}
local function expose(at)
  local token, clean = unpack(leases[at])
  leases[at] = nil
  local expiry = clean < 0 and {} or { 'PXAT', string.format('%.0f', clean) }
  local reply = real.pcall('SET', keys[at], token, unpack(expiry))
  if reply.err then
    refusal, direct = reply.err, false
    error({ err = refusal }, 0)
  end
end
local function expose_all()
  for at in pairs(leases) do
    choose(slots[5 * at - 1])
    expose(at)
  end
  choose(db)
end

-- Expired values are gone now.
for at = 1, count do
  local key = ARGV[first + 2 * at - 2]
  local stamp, is_gone, lease, where, basis = unpack(slots, 5 * at - 4, 5 * at)
  keys[at] = key
  if lease then
    local token = sub(lease, 17)
    if string.sub(token, 1, 4) == '\255RL\1' and #token >= 20 then
      token = sub(token, 21)
    end
    local the_end = tonumber(sub(basis, 54, 69))
    leases[at] = { token, the_end < 0 and the_end or the_end + SLACK_MS }
  elseif not is_gone and not lives(stamp, now) then
    choose(where)
    call('DEL', key)
  end
end
choose(db)
-- The keys that the program has written to.
local written = {}
whole = { db, mode, databases, written, now - (tonumber(sub(common, 44)) or now), leases, expose, expose_all }
for at = first, own do
  ARGV[at] = nil
end
