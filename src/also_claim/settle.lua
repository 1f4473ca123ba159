-- Lets the key end in ARGV[3] ms (-1: never) if what happened to it last has the name ARGV[2]. Answers whether it does.
-- Nobody else has touched it if both keys end together, but for what the clock goes on between two commands.
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
