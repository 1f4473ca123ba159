-- Takes a free key (if ARGV[4] allows it) or prolongs one that already holds the token ARGV[2], or the first ARGV[5]
-- bytes of it. ARGV[1] is the tag of this attempt. 1: taken; 0: somebody else's; a tag: what it was ours under, from
-- now on one generation higher. The longer end stays. 'stamped': it is a register.
local value, is_register = look(KEYS[1])
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
