-- Records attempts that are over, of which some master may keep leftovers. Arguments: each attempt, and the
-- milliseconds until its leftovers expire. Removes obsolete records, and beyond MOST those needed for the shortest
-- time. All times are by this master's own clock.
local MOST = 131072
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for at = 1, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], 'GT', now + ARGV[at + 1], ARGV[at])
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -MOST - 1)
return redis.call('PEXPIREAT', KEYS[1], redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2])
