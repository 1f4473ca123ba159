-- Drops what this master accepted too late, up to the floor, under keys of database ARGV[1] that no other master knows.
-- Returns -1 unless its mark is the provisional one, ARGV[2]; else the number dropped. KEYS: the keys.
here = ARGV[1]
call('SELECT', here)
local head, floor = string.match(call('GET', 'redlock-proxy:mark') or '', '^([^;]*;)(%d+) ')
if head ~= ARGV[2] then
  return -1
end
floor = struct.pack('>I8', tonumber(floor)) .. string.rep('\255', 8)
local dropped = 0
for _, key in ipairs(KEYS) do
  local stamp = stored(key)
  if stamp and not is_below(floor, sub(stamp, 17, 32)) then
    local _, lease = look(key, stamp)
    local left = lease_without(stamp, lease, NEW)
    if not left then
      call('DEL', key)
    elseif left ~= lease then
      put_back(key, left)
    end
    dropped = dropped + call('DEL', companion(key))
  end
end
return dropped
