-- Takes the tag off the key if it holds exactly this value.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], token_of(ARGV[1]), 'KEEPTTL')
  return 1
end
return 0
