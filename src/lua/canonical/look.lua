-- The tag under which the key holds the token; -2: no such key; -3: somebody else's.
local value = redis.call('GET', KEYS[1])
if not value then
  return -2
end
if token_of(value) ~= ARGV[1] then
  return -3
end
return tag_of(value)
