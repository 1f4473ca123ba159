-- Digest and value (DUMP) of each key, nothing where there is no such key.
local images = {}
for at, key in ipairs(KEYS) do
  local dump = redis.call('DUMP', key)
  images[at] = dump and { digest(key), dump } or {}
end
return images
