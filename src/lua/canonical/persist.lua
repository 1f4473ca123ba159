-- Makes a key without expiry out of a provisional one, if it still holds exactly this value.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PERSIST', KEYS[1])
return 1
