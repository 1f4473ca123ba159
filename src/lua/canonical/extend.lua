-- Prolongs the key if it holds the token. Answers the remaining TTL it had (-1: none), so that an
-- extension that is refused in the end can be taken back; -2: no such key; -3: somebody else's.
local value = redis.call('GET', KEYS[1])
if not value then
  return -2
end
if value ~= ARGV[1] then
  return -3
end
local ttl = redis.call('PTTL', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return ttl
