-- Deletes a key if what it holds still has digest ARGV[1].
if digest(KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
