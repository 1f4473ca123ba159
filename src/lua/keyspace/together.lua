-- Several calls of one script, each with a key of its own, in the database that is selected. Each is a program by itself, as
-- `one.lua` has it, with the same number of arguments. Behind those of each stands one word:
--
-- * the ballot that its key may be changed under, and its accepted ballot;
-- * the ballot to promise;
-- * the time in microseconds in 8 bytes;
-- * and if nothing was accepted yet, the flush after which that was promised, in 16 digits.
--
-- The last word is the database in 5 digits, and 'rw'. A call that cannot go this way is answered 'again', and has done
-- nothing.
local call, sub, fields, byte = redis.call, string.sub, struct.unpack, string.byte
local real = redis
-- Scripts find the one key of a call and its arguments in two tables of ours. Those that do more with them than to read
-- their elements are called alone.
local keys, words = _G.KEYS, _G.ARGV
local here_and_mode = words[#words]
local width = (#words - 1) / #keys
local names, stamps_kept, places = {}, {}, 0
for at = 1, #keys do
  names[at] = 'redlock-proxy:s:' .. keys[at]
end
local stamps = call('MGET', unpack(names))
local time = call('TIME')
local own_us = time[1] * 1000000 + time[2]
-- What `one.lua` has of its one call, of the one that runs.
local only, direct, now, companion_key, stamp, kind, clean_text, clean
local expected, next_ballot
local writes, missing, refusal
local is_unknown, new_kind, new_clean, new_text, dated
local told_ms, told
-- The last end, the time of its call, and until when what ends so stays.
local last_end, at_us, last_stays
local whole, rest
-- The time that its calls are told next, in microseconds.
local told_us
