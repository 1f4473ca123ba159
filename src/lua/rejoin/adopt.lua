-- Gives keys what others have, each if it still holds what it did; says which. Four arguments for each key: digest and
-- end of what it held, value (DUMP), and the milliseconds for which it has to live (-1: for ever).
local adopted = {}
for at, key in ipairs(KEYS) do
  local before, ends, value, ttl = unpack(ARGV, 4 * at - 3, 4 * at)
  local is_same = digest(key) == before and redis.call('PEXPIRETIME', key) == tonumber(ends)
  if is_same then
    -- A key shows 0 in its last millisecond; to RESTORE that means for ever.
    ttl = tonumber(ttl)
    redis.call('RESTORE', key, ttl < 0 and 0 or math.max(ttl, 1), value, 'REPLACE')
  end
  adopted[at] = is_same and 1 or 0
end
return adopted
