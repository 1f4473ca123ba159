-- Deletes the key if what happened to it last has the name ARGV[2] and it still holds the token ARGV[3].
redis.call('SELECT', ARGV[1])
if redis.call('GET', KEYS[2]) == ARGV[2] and redis.call('GET', KEYS[1]) == ARGV[3] then
  return redis.call('DEL', KEYS[1], KEYS[2]) > 0 and 1 or 0
end
return 0
