-- Deletes the key if it holds exactly this: the tag ARGV[1] and the token ARGV[2]. Answers the remaining TTL it had
-- (-1: none); -2: no such key; -3: somebody else's; -4: the token is there under another tag.
local value = redis.call('GET', KEYS[1])
if not value then
  return -2
end
if value == ARGV[1] .. ARGV[2] then
  local left = redis.call('PTTL', KEYS[1])
  redis.call('DEL', KEYS[1])
  return left
end
return token_of(value) == ARGV[2] and -4 or -3
