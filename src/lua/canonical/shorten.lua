-- Lets the key expire in ARGV[2] milliseconds if it holds exactly this value, would expire later, and its expiry is
-- unchanged since its remaining TTL was ARGV[3] (-1: none).
local left, seen, wanted = redis.call('PTTL', KEYS[1]), tonumber(ARGV[3]), tonumber(ARGV[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if left < 0 and seen < 0 or left > wanted and left <= seen then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
