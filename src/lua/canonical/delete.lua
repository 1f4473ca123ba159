-- DEL that tells what it deleted: {remaining TTL, value}, or nil when there was no such key.
local ttl = redis.call('PTTL', KEYS[1])
if ttl == -2 then
  return false
end
local value = redis.pcall('GET', KEYS[1])
redis.call('DEL', KEYS[1])
return { ttl, type(value) == 'string' and value }
