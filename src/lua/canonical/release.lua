-- Deletes the key if it holds the token. Answers the remaining TTL it had (-1: none), so that a
-- release that one master missed can be made up for later without hitting a younger lock;
-- -2: no such key; -3: somebody else's.
local value = redis.call('GET', KEYS[1])
if not value then
  return -2
end
if value ~= ARGV[1] then
  return -3
end
local ttl = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
return ttl
