-- Removes the library ARGV[1] from the register KEYS[1].
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return { err = 'ERR Library not found' }
end
return { ok = 'OK' }
