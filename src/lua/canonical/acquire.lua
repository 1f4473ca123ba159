-- Takes a free key (if ARGV[3] allows it) or prolongs one that already holds the token, or the
-- first ARGV[4] bytes of it. 1: taken; 2: it was ours; 0: somebody else's.
local value = redis.call('GET', KEYS[1])
local answer = 1
if value then
  local prefix = tonumber(ARGV[4])
  local ours = value == ARGV[1]
    or prefix >= 0 and string.sub(value, 1, prefix) == string.sub(ARGV[1], 1, prefix)
  if not ours then
    return 0
  end
  answer = 2
elseif ARGV[3] == '0' then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return answer
