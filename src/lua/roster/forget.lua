-- Removes the stamp of the roster, if it is the one that was seen: ARGV[1]. KEYS[1]: the roster.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
