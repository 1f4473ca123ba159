-- For each key the digest of what it holds, empty if there is no such key, its remaining TTL, its end, and whether
-- it is a string.
local states = {}
for at, key in ipairs(KEYS) do
  local is_string = redis.call('TYPE', key).ok == 'string' and 1 or 0
  states[at] = { digest(key), redis.call('PTTL', key), redis.call('PEXPIRETIME', key), is_string }
end
return states
