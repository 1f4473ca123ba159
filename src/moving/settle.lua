-- Lets the key end in ARGV[3] ms (-1: never) if what happened to it last has the name ARGV[2]. Answers whether it does.
redis.call('SELECT', ARGV[1])
if redis.call('GET', KEYS[2]) ~= ARGV[2] or redis.call('EXISTS', KEYS[1]) == 0 then
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
