-- Lets the key expire in ARGV[3] ms (-1: never) if its last change has the name ARGV[2]. Returns whether it does. If
-- both keys expire together, apart from the clock's progress between two commands, no one else changed it.
redis.call('SELECT', ARGV[1])
if redis.call('GET', KEYS[2]) ~= ARGV[2] or math.abs(redis.call('PTTL', KEYS[1]) - redis.call('PTTL', KEYS[2])) > 5 then
  return 0
end
for _, key in ipairs(KEYS) do
  if ARGV[3] == '-1' then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, ARGV[3])
  end
end
return 1
