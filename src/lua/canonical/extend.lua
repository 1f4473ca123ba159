-- Extends the key if it holds the token, and raises its generation, so that no take-back in flight can hit it. A later
-- expiry stays, and so does the lack of one. Returns its previous tag; with the remaining TTL (-1: none) if that is
-- longer than asked; -2: no such key; -3: held by another; 'stamped': it is a register.
local value, is_register = look(KEYS[1], redis.pcall('GET', KEYS[1]))
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
    -- Equal bytes need no memory, and out of memory only a script's first write is refused.
    redis.call('DEL', 'redlock-proxy:none')
    redis.call('SET', KEYS[1], new, 'KEEPTTL')
  end
end
if left < 0 or left > tonumber(ARGV[2]) then
  return { tag, left }
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return tag
