-- Removes the roster's stamp, if it is the one seen before: ARGV[1]. KEYS[1]: the roster.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
