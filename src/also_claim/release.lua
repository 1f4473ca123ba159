-- Deletes the key if it holds the token ARGV[2]. Returns whether it did.
redis.call('SELECT', ARGV[1])
if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[2] then
  redis.call('DEL', KEYS[1], KEYS[2])
  return 1
end
return 0
