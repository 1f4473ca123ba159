-- Prolongs the key if it holds the token. 1: prolonged; 0: no such key; -1: somebody else's.
local value = redis.call('GET', KEYS[1])
if not value then
  return 0
end
if value ~= ARGV[1] then
  return -1
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
