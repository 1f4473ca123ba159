-- The end of a program in general: what it has written is stamped, and what it replied is told.
NIL_AS_NULL
here = db
-- A lease that was only read is there again as it was.
for at = 1, count do
  local lease, where = slots[5 * at - 2], slots[5 * at - 1]
  if lease and (missing or not written[at]) then
    choose(where)
    call('SET', keys[at], sub(lease, 17), 'PXAT', end_of(lease))
  end
end
local next_ballot = sub(common, 1, 32)
if missing or not writes then
  -- Who comes later must not find alive what this program has found ended, and has cleaned up.
  for at = 1, has_ended and count or 0 do
    choose(slots[5 * at - 1])
    call('SET', companion(keys[at]), next_ballot .. sub(slots[5 * at - 4], 33))
  end
  if missing then
    return { 'missing', missing[1], missing[2] }
  end
  return { has_ended and 'ended' or 'read', reply, messages }
end

local packed = cmsgpack.pack(reply)
if #packed > LONGEST_REPLY then
  packed = ''
end
-- A key that is alone is not named.
local group = string.format('%04d', count > 1 and count or 0)
for at = 1, count > 1 and count or 0 do
  local where, basis = slots[5 * at - 1], slots[5 * at]
  group = group .. string.format('%05d%08d', where, #keys[at]) .. keys[at] .. sub(basis, 33, 64)
end
for at = 1, count do
  local stamp, _, lease, where, basis = unpack(slots, 5 * at - 4, 5 * at)
  choose(where)
  local kind, clean, ballot = sub(stamp, 97, 97), sub(stamp, 98, 113), sub(basis, 33, 64)
  if written[at] then
    kind = kind_of(keys[at])
    clean = string.format('%016.0f', kind == '-' and 0 or call('PEXPIRETIME', keys[at]))
  end
  -- When masters would have cleaned up what it found.
  local until_clean = '-000000000000001'
  if sub(stamp, 97, 97) ~= '-' and sub(stamp, 98, 98) ~= '-' and lives(stamp, now) then
    until_clean = sub(stamp, 98, 113)
  end
  local at_recent = recent_of(stamp)
  local kept, from = tonumber(sub(stamp, at_recent, at_recent + 1)), at_recent + 2
  if kept == MOST_PROGRAMS then
    kept, from = kept - 1, from + 36 + tonumber(sub(stamp, from + 32, from + 35))
  end
  call('SET', companion(keys[at]), table.concat({
    next_ballot, ballot, sub(stamp, 33, 64), kind, clean,
    written[at] and 'w' or 'k', until_clean, string.format('%08d', lease and #lease or 0), lease or '', group,
    string.format('%02d', kept + 1), sub(stamp, from), string.format('%04d', #packed), packed, ballot,
  }))
end
return { 'wrote', reply, messages }
