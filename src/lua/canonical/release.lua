-- Deletes the key if it holds exactly this: the tag ARGV[1] and the token ARGV[2]. Answers the remaining TTL it had
-- (-1: none); -2: no such key; -3: somebody else's; -4: the same attempt, which was prolonged meanwhile; -5: the token
-- is there by another attempt; 'stamped': it is a register.
local value, is_register = look(KEYS[1])
if is_register then
  return redis.status_reply('stamped')
elseif not value then
  return -2
end
if value == ARGV[1] .. ARGV[2] then
  local left = redis.call('PTTL', KEYS[1])
  redis.call('DEL', KEYS[1])
  return left
end
if token_of(value) ~= ARGV[2] then
  return -3
end
return string.sub(tag_of(value), 1, 18) == string.sub(ARGV[1], 1, 18) and -4 or -5
