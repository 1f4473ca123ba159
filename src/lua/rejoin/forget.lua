-- Deletes a key if what it holds still has digest ARGV[1] and end ARGV[2]: an equal value that ends at another moment
-- is somebody's lock.
if digest(KEYS[1]) ~= ARGV[1] or redis.call('PEXPIRETIME', KEYS[1]) ~= tonumber(ARGV[2]) then
  return 0
end
return redis.call('DEL', KEYS[1])
