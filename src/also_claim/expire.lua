-- Lets the key expire in ARGV[3] ms under the conditions in ARGV[4..]. Stores the name ARGV[2] with it. Returns whether
-- it changed.
redis.call('SELECT', ARGV[1])
if redis.call('PEXPIRE', KEYS[1], ARGV[3], unpack(ARGV, 4)) == 0 then
  return 0
end
if tonumber(ARGV[3]) > 0 then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return 1
