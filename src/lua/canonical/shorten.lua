-- Lets the key end in ARGV[2] milliseconds if it holds exactly this value and would end later.
if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
