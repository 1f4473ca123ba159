-- Lets the key end never. Notes the name ARGV[2] beside it. Answers whether it had an end.
redis.call('SELECT', ARGV[1])
if redis.call('PERSIST', KEYS[1]) == 0 then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
return 1
