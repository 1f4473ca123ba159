-- Gives registers of database ARGV[1] to a master that does not vote yet. Returns -1 and changes nothing unless its
-- mark is the provisional one, ARGV[2]. ARGV[3]: the time in microseconds. Then four words per key: the ballot that
-- counts as promised, the stamp from the accepted ballot on, the value in the format of DUMP, if it lives, and the
-- lease next to it, if any. Newer states accepted by this master stay. KEYS: the keys. Returns the number taken over.
here = ARGV[1]
call('SELECT', here)
if string.match(call('GET', 'redlock-proxy:mark') or '', '^[^;]*;') ~= ARGV[2] then
  return -1
end
local now, changed = tonumber(ARGV[3]), 0
for at, key in ipairs(KEYS) do
  local promised, new, dump, given = unpack(ARGV, 4 * at, 4 * at + 3)
  local old = stamp_of(key)
  local _, lease, ours = look(key, old)
  if is_below(promised, ours) then
    promised = ours
  end
  new = promised .. new
  local accepted = sub(old, 17, 32)
  if accepted ~= NONE and not is_below(accepted, sub(new, 17, 32)) then
    new = promised .. sub(old, 17)
  elseif lives(new, now) or is_to_stay(new) then
    new = kept_as(new)
    local clean = tonumber(sub(new, 50, 65))
    call('RESTORE', key, math.max(clean, 0), dump, 'REPLACE', 'ABSTTL')
    changed = changed + 1
  else
    new = kept_as(new)
    local left = given ~= '' and given or lease_without(old, lease, new)
    if not left then
      call('DEL', key)
    elseif left ~= lease then
      put_back(key, left)
    end
    changed = changed + 1
  end
  call('SET', companion(key), new)
end
return changed
