-- Gives a key what others have: value ARGV[2] (DUMP) with digest ARGV[3] and at least ARGV[4] milliseconds
-- to live (-1: for ever), if it holds that already or still holds what has digest ARGV[1].
local key = KEYS[1]
local held, ttl = digest(key), tonumber(ARGV[4])
if held ~= ARGV[3] then
  if held ~= ARGV[1] then
    return 0
  end
  redis.call('RESTORE', key, math.max(ttl, 0), ARGV[2], 'REPLACE')
elseif ttl < 0 then
  redis.call('PERSIST', key)
elseif redis.call('PTTL', key) >= 0 then
  redis.call('PEXPIRE', key, ttl, 'GT')
end
return 1
