-- Deletes the key if its last change has the name ARGV[2] and it still holds the token ARGV[3]. If both keys expire
-- together, apart from the clock's progress between two commands, no one else changed it.
redis.call('SELECT', ARGV[1])
if redis.call('GET', KEYS[2]) ~= ARGV[2] or math.abs(redis.call('PTTL', KEYS[1]) - redis.call('PTTL', KEYS[2])) > 5 then
  return 0
end
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[3] then
  return 0
end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
