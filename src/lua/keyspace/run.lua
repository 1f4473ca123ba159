-- What the script says about a failure is made only when there is one.
local function failed(raised)
  EXPLAIN
  return explain(raised, SCRIPT_SHA, 1, LAST_LINE)
end

local done, reply = xpcall(program, failed)
if not done then
  reply = { err = reply }
end
DISARM
if reply == nil then
  real.setresp(2)
  reply = false
end

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
local group = ''
for at = 1, count do
  local where, basis = slots[5 * at - 1], slots[5 * at]
  group = group .. string.format('%05d%08d', where, #keys[at]) .. keys[at] .. sub(basis, 33, 64)
end
for at = 1, count do
  local stamp, _, lease, where, basis = unpack(slots, 5 * at - 4, 5 * at)
  choose(where)
  local kind, clean, ballot = sub(stamp, 129, 129), sub(stamp, 130, 145), sub(basis, 33, 64)
  if written[at] then
    kind = KINDS[call('TYPE', keys[at]).ok] or '-'
    clean = string.format('%016.0f', kind == '-' and 0 or call('PEXPIRETIME', keys[at]))
  end
  -- When masters would have cleaned up what it found.
  local until_clean = '-000000000000001'
  if sub(stamp, 129, 129) ~= '-' and sub(stamp, 130, 130) ~= '-' and lives(stamp, now) then
    until_clean = sub(stamp, 130, 145)
  end
  local dropped, kept, from = sub(stamp, 97, 128), tonumber(sub(stamp, 146, 147)), 148
  local to = end_of_recent(stamp) - 1
  if kept == MOST_PROGRAMS then
    dropped, from, kept = sub(stamp, 148, 179), 184 + tonumber(sub(stamp, 180, 183)), kept - 1
  end
  call('SET', companion(keys[at]), table.concat({
    next_ballot, ballot, sub(stamp, 33, 64), dropped, kind, clean, string.format('%02d', kept + 1),
    sub(stamp, from, to), ballot, string.format('%04d', #packed), packed,
    written[at] and 'w' or 'k', until_clean, string.format('%08d', lease and #lease or 0), lease or '',
    string.format('%04d', count), group,
  }))
end
return { 'wrote', reply, messages }
