-- Removes the key's expiry. Stores the name ARGV[2] with it. Returns whether it had one.
redis.call('SELECT', ARGV[1])
if redis.call('PERSIST', KEYS[1]) == 0 then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
return 1
