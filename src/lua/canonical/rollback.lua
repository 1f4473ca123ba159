-- Takes a claim back: deletes the key if it holds the token and its remaining TTL is one that the
-- claim in question could have left. The TTL tells it from another claim with an equal token.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local ttl = redis.call('PTTL', KEYS[1])
if ttl < tonumber(ARGV[2]) or ttl > tonumber(ARGV[3]) then
  return 0
end
return redis.call('DEL', KEYS[1])
