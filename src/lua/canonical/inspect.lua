-- What the key holds: {type, value of a string, remaining TTL}, or nil when there is no such key.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return false
end
local value = kind == 'string' and token_of(redis.call('GET', KEYS[1]))
return { kind, value, redis.call('PTTL', KEYS[1]) }
