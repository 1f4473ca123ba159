-- Deletes the key, whatever it holds. Returns whether it existed.
redis.call('SELECT', ARGV[1])
redis.call('DEL', KEYS[2])
return redis.call('DEL', KEYS[1])
