-- Accepts states, and promises ballot ARGV[1]. KEYS: the keys. ARGV[2]: the selected database. Then six words per key:
-- its database, the ballot that its state was found under, its stamp from the accepted ballot on, its value in the
-- format of DUMP (empty: masters without it say so), the leases that are over, each after its length in 8 digits, and
-- the flush after which this was promised.
local next_ballot = ARGV[1]
here = ARGV[2]
if not is_in() then
  return { 'refused', NONE }
end

local function is_same(lease, other)
  return lease == other or lease and other and sub(lease, 17) == sub(other, 17)
end

local function has_room(old, is_gone, lease, new, now)
  local is_open, found, _, until_clean = open(new)
  if not is_open then
    return not lease or not lives(new, now)
  end
  local ran = last_of(new)
  -- Until a state is accepted only the floor is here, which says nothing about this key, unless it says it does.
  local tells = sub(old, 17, 32) ~= NONE or sub(old, 74, 74) == '?'
  local is_unknown = ran and tells and fate(old, ran) == 'not known'
  -- Between the expiry of what the program found and that of what it left, claims may have found nothing here and be
  -- gone.
  local was_there = sub(old, 49, 49) ~= '-' and not is_gone and not is_unknown
  local the_end = until_clean >= 0 and (until_clean - SLACK_MS) * 1000
  if not was_there and the_end and the_end <= now and lives(new, the_end) then
    return false
  end
  return is_same(lease, found) or not lease and is_unknown
end

local function is_over(lease, over)
  local at, value = 1, lease and sub(lease, 17)
  while value and at < #over do
    local length = tonumber(sub(over, at, at + 7))
    if sub(over, at + 8, at + 7 + length) == value then
      return true
    end
    at = at + 8 + length
  end
  return false
end

local highest, latest, may, lacking = NONE, nil, true, { 'lacking' }
local slots = {}
for at, key in ipairs(KEYS) do
  choose(ARGV[6 * at - 3])
  local from, new = ARGV[6 * at - 2], next_ballot .. ARGV[6 * at - 1]
  local old, accepted = stamp_of(key), sub(new, 17, 32)
  local now = counter_of(accepted)
  local is_gone, lease, promised = look(key, old)
  local has_remains = is_over(lease, ARGV[6 * at + 1])
  lease = not has_remains and lease
  local has_it = sub(old, 17, 32) == from and not (is_gone and lives(old, now))
  local left = lease
  if not has_it then
    left = lease_without(old, lease, new)
    left = not is_over(left, ARGV[6 * at + 1]) and left
  end
  may = may and tonumber(ARGV[6 * at + 2]) == last_flush()
  may = may and not is_below(accepted, promised) and (has_it or has_room(old, is_gone, left, new, now))
  if is_below(highest, promised) then
    highest = promised
  end
  new = sub(old, 17, 32) == from and sub(new, 1, 65) .. sub(old, 66, 73) .. sub(new, 74) or kept_as(new)
  latest = latest_of(new, next_ballot, latest)
  if not has_it and lives(new, now) and ARGV[6 * at] == '' then
    lacking[#lacking + 1] = at
  end
  slots[at] = { new, now, lease, left, has_it, has_remains }
end
if latest or not may then
  return refused(highest, latest)
elseif lacking[2] then
  return lacking
end

for at, key in ipairs(KEYS) do
  choose(ARGV[6 * at - 3])
  local new, now, lease, left, has_it, has_remains = unpack(slots[at])
  local is_open, found, is_kept = open(new)
  local is_taken = is_open and not is_kept and left and is_same(left, found)
  if is_taken then
    -- If this program comes to nothing, the lease is here again as it was here.
    new = sub(new, 1, 90) .. string.format('%08d', #left) .. left .. sub(new, 99 + #found)
  end
  if has_it then
    if is_taken or has_remains then
      call('DEL', key)
    end
  elseif lives(new, now) then
    local clean = tonumber(sub(new, 50, 65))
    call('RESTORE', key, math.max(clean, 0), ARGV[6 * at], 'REPLACE', 'ABSTTL')
  elseif is_taken or not left then
    call('DEL', key)
  elseif not lease then
    put_back(key, left)
  end
  call('SET', companion(key), new)
end
return { 'adopted' }
