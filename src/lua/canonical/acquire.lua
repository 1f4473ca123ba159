-- Takes a free key (if ARGV[4] allows it), or extends one that holds the token ARGV[2], or its first ARGV[5] bytes.
-- ARGV[1] is the tag of this attempt. 1: taken; 0: held by another; a tag: held by the client, now one generation
-- higher. The later expiry stays. 'stamped': it is a register.
local value, is_register = look(KEYS[1], redis.pcall('GET', KEYS[1]))
if is_register then
  return redis.status_reply('stamped')
elseif not value then
  if ARGV[4] == '0' then
    return 0
  end
  redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3])
  return 1
end
local prefix, token = tonumber(ARGV[5]), token_of(value)
local ours = token == ARGV[2]
  or prefix >= 0 and string.sub(token, 1, prefix) == string.sub(ARGV[2], 1, prefix)
if not ours then
  return 0
end
local tag, left = tag_of(value), redis.call('PTTL', KEYS[1])
redis.call('SET', KEYS[1], raised(tag) .. ARGV[2], 'PX', math.max(left, tonumber(ARGV[3])))
return tag
