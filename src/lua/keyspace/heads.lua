-- Returns this master's progress on some keys: for each whether its value is gone, and the stamp without the last
-- programs. KEYS: the keys, of the selected database. Changes nothing.
local heads = {}
for at, key in ipairs(KEYS) do
  local stamp = stamp_of(key)
  local kind, is_gone = sub(stamp, 49, 49), false
  if kind ~= '-' then
    is_gone = call('PEXPIRETIME', key) ~= tonumber(sub(stamp, 50, 65)) or kind_of(key) ~= kind
  end
  heads[at] = (is_gone and '1' or '0') .. sub(stamp, 1, recent_of(stamp) - 1)
end
return heads
