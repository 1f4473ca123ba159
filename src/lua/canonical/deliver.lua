-- Deletes the key if it holds the attempt ARGV[1], with marker, however often extended.
if string.sub(redis.call('GET', KEYS[1]) or '', 1, 18) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
