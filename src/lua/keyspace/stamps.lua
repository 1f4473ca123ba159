-- The end of a general program: stamps its writes, and returns its reply.
NIL_AS_NULL
here = db or here
-- Restores leases that were only read.
for at = 1, count do
  local lease, where = slots[5 * at - 2], slots[5 * at - 1]
  if lease and not leases[at] and (missing or not writes or not written[at]) then
    choose(where)
    put_back(keys[at], lease)
  end
end
local next_ballot = sub(common, 28, 43)
if missing or not writes then
  -- Later programs must not find alive what this one found expired, and cleaned up.
  for at = 1, has_ended and count or 0 do
    choose(slots[5 * at - 1])
    call('SET', companion(keys[at]), next_ballot .. sub(slots[5 * at - 4], 17))
  end
  if missing then
    return { 'missing', missing[1], missing[2] }
  elseif refusal then
    return { err = refusal }
  end
  return { has_ended and 'ended' or 'read', reply, messages }
end

local packed = cmsgpack.pack(reply)
if messages then
  PACK_MESSAGES
end
if #packed > LONGEST_REPLY then
  packed = ''
end
-- A single key is not named. All keys have the same group, which may be long: it is built once.
local group = { string.format('%04d', count > 1 and count or 0) }
for at = 1, count > 1 and count or 0 do
  local where, basis = slots[5 * at - 1], slots[5 * at]
  group[at + 1] = string.format('%05d%08d', where, #keys[at]) .. keys[at] .. sub(basis, 17, 32)
end
group = table.concat(group)
local without_lease = '00000000' .. group
-- Time until which a value with this expiry stays: at least that of values that had it before, which may have been
-- moved.
local longest_before
local function stays_until(clean)
  local the_end = (tonumber(clean) - SLACK_MS) * 1000
  if the_end <= 0 then
    return sub(NONE, 1, 8)
  elseif not longest_before then
    longest_before = {}
    for at = 1, count do
      local stamp = slots[5 * at - 4]
      local before = sub(stamp, 50, 65)
      longest_before[before] = math.max(longest_before[before] or 0, (struct.unpack('>I8', sub(stamp, 66, 73))))
    end
  end
  return struct.pack('>I8', math.max(own_us() + math.max(the_end - now, 0), longest_before[clean] or 0))
end

for at = 1, count do
  local stamp, _, lease, where, basis = unpack(slots, 5 * at - 4, 5 * at)
  choose(where)
  local kind, clean, ballot = sub(stamp, 49, 49), sub(stamp, 50, 65), sub(basis, 17, 32)
  local stays = sub(stamp, 66, 73)
  if written[at] then
    kind = kind_of(keys[at])
    clean = string.format('%016.0f', kind == '-' and 0 or call('PEXPIRETIME', keys[at]))
    stays = stays_until(clean)
  end
  -- When masters would have cleaned up the value it found.
  local until_clean = '-000000000000001'
  if sub(stamp, 49, 49) ~= '-' and sub(stamp, 50, 50) ~= '-' and lives(stamp, now) then
    until_clean = sub(stamp, 50, 65)
  end
  local how, found = written[at] and 'w' or 'k', without_lease
  if lease then
    found = string.format('%08d', #lease) .. lease .. group
  elseif count == 1 then
    how, found = 'a', ''
  end
  call('SET', companion(keys[at]), table.concat({
    next_ballot, ballot, sub(stamp, 17, 32), kind, clean, stays,
    how, until_clean, found,
    remembered(stamp, recent_of(stamp), ballot, written[at]), string.format('%04d', #packed), packed, ballot,
  }))
end
if dated then
  return { 'dated', dated, reply, messages }
end
return { 'wrote', reply, messages }
