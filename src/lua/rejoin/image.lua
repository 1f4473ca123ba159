-- All there is to know about a key, nothing if there is no such key.
local key = KEYS[1]
local dump = redis.call('DUMP', key)
if not dump then
  return {}
end
return { digest(key), redis.call('PTTL', key), redis.call('TYPE', key).ok, dump }
