-- Several calls of one script, each with its own key, in the selected database. Each is a program by itself, as in
-- `one.lua`, with the same number of arguments. One word follows those of each:
--
-- * the ballot that its key may be changed under, and its accepted ballot;
-- * the ballot to promise;
-- * the time in microseconds in 8 bytes;
-- * and if nothing was accepted yet, the flush after which that was promised, in 16 digits.
--
-- The last word is the database in 5 digits, and 'rw'. A call that cannot go this way gets 'again', and has done
-- nothing.
local call, sub, fields, byte = redis.call, string.sub, struct.unpack, string.byte
local real = redis
-- Scripts find a call's key and arguments in the proxy's own two tables. Scripts that do more than read their elements
-- are called alone.
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
-- The variables of `one.lua`, for the current call.
local only, direct, now, companion_key, stamp, kind, clean_text, clean
local expected, next_ballot
local writes, missing, refusal
local is_unknown, new_kind, new_clean, new_text, dated
local told_ms, told
-- The last expiry, the time of its call, and until when a value with it stays.
local last_end, at_us, last_stays
local whole, rest
-- The time that its calls see next, in microseconds.
local told_us
