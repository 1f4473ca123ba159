-- All there is to know about each key, nothing where there is no such key.
local images = {}
for at, key in ipairs(KEYS) do
  local dump = redis.call('DUMP', key)
  images[at] = dump and { digest(key), redis.call('PTTL', key), redis.call('TYPE', key).ok, dump } or {}
end
return images
