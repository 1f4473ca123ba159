-- For each key the digest of what it holds, empty if there is no such key, and its remaining TTL.
local states = {}
for at, key in ipairs(KEYS) do
  states[2 * at - 1] = digest(key)
  states[2 * at] = redis.call('PTTL', key)
end
return states
