-- The client's script is `program`, above. After the client's own arguments come ours. Most programs use one key, in the
-- database that is selected, of which its worker holds the promise: for that there are four words, and the fewest steps.
--
-- * the ballot that it may be changed under, and its accepted ballot: what its stamp begins with;
-- * the ballot to promise;
-- * the database in 5 digits, 'ro' for a script that must not change anything or 'rw', and if nothing was accepted yet, the
--   flush after which that was promised, in 16 digits;
-- * the time in microseconds in 16 digits.
--
-- Whatever else the stamp says is looked at by the program in general, whose last word is no number.
local call, sub, fields, byte = redis.call, string.sub, struct.unpack, string.byte
local real, own, only = redis, #ARGV, KEYS[1]
local now = tonumber(ARGV[own])
-- The same one key as long as its calls may go the shortest way: until something refuses the program.
local direct = only
-- Of this one key: its stamp, type and end. What is at hand is as the stamp says.
local companion_key, stamp, kind, clean_text, clean
local expected, next_ballot, here_and_mode = ARGV[own - 3], ARGV[own - 2], ARGV[own - 1]
if now then
  companion_key = 'redlock-proxy:s:' .. only
  stamp = real.pcall('GET', companion_key)
  stamp = type(stamp) == 'string' and stamp
end
EXPECTED
-- Whether the program writes, a key that it lacks, and why this master takes no writes.
local writes, missing, refusal = false, nil, nil
-- Whether it may have changed the type or the end of the one key; the type that it is known to have given it, and the end,
-- also in 16 digits.
local is_unknown, new_kind, new_clean, new_text
-- The shortest time to live that it has set, in milliseconds: what it was padded by is how late the program may be answered.
local dated
-- A time to live in milliseconds, and its digits.
local told_ms, told
-- What the calls know of a program in general, and who tells what they have done: most know no more than the above, and
-- each variable of functions costs as well.
local whole, rest
local finish
if not kind then
  GENERAL
end
if only then
  ARGV[own - 3], ARGV[own - 2], ARGV[own - 1], ARGV[own] = nil, nil, nil, nil
end
-- The time that its calls are told next, in microseconds.
local told_us = now
