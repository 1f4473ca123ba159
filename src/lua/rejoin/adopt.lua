-- Gives keys what others have, each if it holds that already or still holds what it did; says which. Four
-- arguments for each key: digest of what it held, value (DUMP), digest of that, and the milliseconds for which
-- it has to live at least (-1: for ever).
local adopted = {}
for at, key in ipairs(KEYS) do
  local before, value, wanted, ttl = unpack(ARGV, 4 * at - 3, 4 * at)
  local held = digest(key)
  ttl = tonumber(ttl)
  adopted[at] = (held == wanted or held == before) and 1 or 0
  if held ~= wanted and held == before then
    redis.call('RESTORE', key, math.max(ttl, 0), value, 'REPLACE')
  elseif held == wanted and ttl < 0 then
    redis.call('PERSIST', key)
  elseif held == wanted and redis.call('PTTL', key) >= 0 then
    redis.call('PEXPIRE', key, ttl, 'GT')
  end
end
return adopted
