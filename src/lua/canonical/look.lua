-- The tag under which the key holds the token; -2: no such key; -3: held by another; 'stamped': a register.
local value, is_register = look(KEYS[1], redis.pcall('GET', KEYS[1]))
if is_register then
  return redis.status_reply('stamped')
elseif not value then
  return -2
end
if token_of(value) ~= ARGV[1] then
  return -3
end
return tag_of(value)
