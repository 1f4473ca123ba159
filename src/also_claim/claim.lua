-- Takes the key for ARGV[4] ms if it is free (and ARGV[6] is 1). Extends it if the first ARGV[5] bytes of the token
-- ARGV[2] match (-1: all; none: any holder). Stores the name ARGV[3] with it. Returns 1: taken, 2: already held, 0:
-- held by another.
redis.call('SELECT', ARGV[1])
local token, name, ttl, length = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  if ARGV[6] ~= '1' then
    return 0
  end
  redis.call('SET', KEYS[1], token, 'PX', ttl)
  redis.call('SET', KEYS[2], name, 'PX', ttl)
  return 1
end
if kind ~= 'string' or length == 'none' then
  return 0
end
local last = tonumber(length)
if string.sub(redis.call('GET', KEYS[1]), 1, last) ~= string.sub(token, 1, last) then
  return 0
end
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  redis.call('SET', KEYS[2], name)
  return 2
end
ttl = math.max(ttl, left)
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('SET', KEYS[2], name, 'PX', ttl)
return 2
