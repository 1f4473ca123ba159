-- Prolongs the key if it holds the token, and raises its generation, so that no take-back on its way can hit it. The
-- longer end stays, and none at all. Answers the tag it was held under, or that and the remaining TTL (-1: no end) if it
-- was to end sooner; -2: no such key; -3: somebody else's; 'stamped': it is a register.
local value, is_register = look(KEYS[1])
if is_register then
  return redis.status_reply('stamped')
elseif not value then
  return -2
end
if token_of(value) ~= ARGV[1] then
  return -3
end
local tag, left = tag_of(value), redis.call('PTTL', KEYS[1])
if tag ~= '' then
  local new = raised(tag) .. ARGV[1]
  if redis.pcall('SET', KEYS[1], new, 'KEEPTTL').err then
    -- The same bytes again need no memory, and out of that only the first command that writes is refused.
    redis.call('DEL', 'redlock-proxy:none')
    redis.call('SET', KEYS[1], new, 'KEEPTTL')
  end
end
if left < 0 or left > tonumber(ARGV[2]) then
  return { tag, left }
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return tag
