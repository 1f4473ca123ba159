-- DEL, in two steps. Without ARGV[1]: deletes a key without a tag and returns 1; else returns its tag; -2: no such key.
-- With it: deletes a key with this tag and returns its remaining TTL (-1: none); -2: no such key; -3: it holds
-- something else; -4: the same attempt, extended meanwhile. 'stamped': it is a register, or no string.
local value, is_register = look(KEYS[1], redis.pcall('GET', KEYS[1]))
if is_register then
  return redis.status_reply('stamped')
elseif not value then
  return -2
end
local tag = tag_of(value)
if not ARGV[1] and tag ~= '' then
  return tag
elseif tag ~= (ARGV[1] or '') then
  return string.sub(tag, 1, 18) == string.sub(ARGV[1], 1, 18) and -4 or -3
end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
return ARGV[1] and left or 1
