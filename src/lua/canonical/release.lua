-- Deletes the key if it holds exactly the tag ARGV[1] and the token ARGV[2]. Returns its remaining TTL (-1: none); -2:
-- no such key; -3: held by another; -4: the same attempt, extended meanwhile; -5: another attempt holds the token;
-- 'stamped': it is a register.
local is_register
value, is_register = look(KEYS[1], value)
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
