-- Takes an extension back: gives the key the time it had left, unless it has less by now.
if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
