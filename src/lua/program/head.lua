-- The client's script is `program`, above. After the client's own arguments come ours: times that the masters
-- have agreed on, each behind its key, and how many; the proxy's time, in seconds and microseconds; the
-- database; and 'ro' for a script that must not change anything.
local real, call = redis, redis.call
local own = #ARGV
local seconds, micros, db, mode = ARGV[own - 3], ARGV[own - 2], ARGV[own - 1], ARGV[own]
-- What is handed out for a key instead of its own remaining times, in this order.
local agreed
if ARGV[own - 4] ~= '0' then
  agreed = {}
  local first = own - 4 - 2 * ARGV[own - 4]
  for at = first, own - 5, 2 do
    local key, ttl = ARGV[at], tonumber(ARGV[at + 1])
    agreed[key] = agreed[key] or {}
    table.insert(agreed[key], ttl)
    ARGV[at], ARGV[at + 1] = nil, nil
  end
end
ARGV[own - 4], ARGV[own - 3], ARGV[own - 2], ARGV[own - 1], ARGV[own] = nil, nil, nil, nil, nil

-- Keys that were written to, five entries each: database, key, its value and its absolute end before
-- (which does not drift while a script runs), and whether it has the same value because no more than
-- its end was written.
local before
-- Where a key of this database is in `before`.
local seen
-- Leases that were met, four entries each: database, key, value and absolute end.
local tagged
-- Whether a value begins with the tag of an attempt, which the script must not see.
local function has_tag(value)
  return type(value) == 'string' and #value >= 20 and string.sub(value, 1, 4) == '\255RL\1'
end
-- Takes the tag off a key until the script has run.
local function take_tag(key, value, expiry)
  tagged = tagged or {}
  local at = #tagged
  tagged[at + 1], tagged[at + 2], tagged[at + 3], tagged[at + 4] = db, key, value, expiry
  call('SET', key, string.sub(value, 21), 'KEEPTTL')
end
-- What is to be published: command, channel and message of each.
local messages
-- Remaining times that were read, as this master has them: key and milliseconds of each.
local times
-- 1: elements were taken out of a list or a set.
local popped = 0
