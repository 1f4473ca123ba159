-- Compare and set: only if the key has type ARGV[1] ('any': whatever it holds) and, being a string,
-- value ARGV[2].
-- ARGV[3]: 'del', or how to set ARGV[4]: 'keep' its TTL, 'none', or 'px' with ARGV[5] milliseconds.
if ARGV[1] ~= 'any' then
  local kind = redis.call('TYPE', KEYS[1]).ok
  if kind ~= ARGV[1] or kind == 'string' and redis.call('GET', KEYS[1]) ~= ARGV[2] then
    return 0
  end
end
if ARGV[3] == 'del' then
  redis.call('DEL', KEYS[1])
elseif ARGV[3] == 'keep' then
  redis.call('SET', KEYS[1], ARGV[4], 'KEEPTTL')
elseif ARGV[3] == 'none' then
  redis.call('SET', KEYS[1], ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
end
return 1
