-- The usual release: the key holds exactly the tag and the token. A value with a tag is a lease, whatever its stamp.
local value = redis.pcall('GET', KEYS[1])
if ARGV[1] ~= '' and value == ARGV[1] .. ARGV[2] then
  local left = redis.call('PTTL', KEYS[1])
  redis.call('DEL', KEYS[1])
  return left
end
