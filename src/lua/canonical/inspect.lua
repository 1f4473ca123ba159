-- What the key holds: {type, value of a string, remaining TTL}, or nil when there is no such key.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return false
end
return { kind, kind == 'string' and redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]) }
