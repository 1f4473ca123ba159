-- What the key holds: {type, value of a string, remaining TTL, tag}, or nil when there is no such key.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return false
end
local value = kind == 'string' and redis.call('GET', KEYS[1])
return { kind, value and token_of(value), redis.call('PTTL', KEYS[1]), value and tag_of(value) }
