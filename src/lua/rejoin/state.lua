-- For each key the digest of what it holds, empty if there is no such key, its remaining TTL, its end, and whether
-- it is a string.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local states = {}
for at, key in ipairs(KEYS) do
  local content, kind = digest(key)
  local ends = redis.call('PEXPIRETIME', key)
  local ttl = ends < 0 and ends or math.max(ends - now, 0)
  states[at] = { content, ttl, ends, kind == 'string' and 1 or 0 }
end
return states
