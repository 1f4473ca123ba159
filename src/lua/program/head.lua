-- The client's script is `program`, above. After the client's own arguments come ours: the proxy's time, in
-- seconds and microseconds, the database, and 'ro' for a script that must not change anything.
local real, call = redis, redis.call
local own = #ARGV
local seconds, micros, db, mode = ARGV[own - 3], ARGV[own - 2], ARGV[own - 1], ARGV[own]
ARGV[own - 3], ARGV[own - 2], ARGV[own - 1], ARGV[own] = nil, nil, nil, nil

-- Keys that were written to, five entries each: database, key, its value and its absolute end before
-- (which does not drift while a script runs), and whether it has the same value because no more than
-- its end was written.
local before
-- What is to be published: command, channel and message of each.
local messages
-- 1: a remaining time was read, 2: elements were taken out of a list or a set.
local read_ttl, popped = 0, 0
