-- The client's script is `program`, above. The proxy's words follow the client's arguments. Most programs use one key,
-- in the selected database, whose promise the worker holds: they have four words, and the fewest steps.
--
-- * the ballot it may be changed under, and its accepted ballot: the beginning of its stamp;
-- * the ballot to promise;
-- * the database in 5 digits, 'ro' for a script that must not write or 'rw', and if nothing was accepted yet, the flush
--   after which that was promised, in 16 digits;
-- * the time in microseconds in 16 digits.
--
-- Any other stamp goes to the general program, whose last word is not a number.
local call, sub, fields, byte = redis.call, string.sub, struct.unpack, string.byte
local real, own, only = redis, #ARGV, KEYS[1]
local now = tonumber(ARGV[own])
-- That key, while its calls may take the shortest path: until something refuses the program.
local direct = only
-- The single key's stamp, type and expiry. The value is as in the stamp.
local companion_key, stamp, kind, clean_text, clean
local expected, next_ballot, here_and_mode = ARGV[own - 3], ARGV[own - 2], ARGV[own - 1]
if now then
  companion_key = 'redlock-proxy:s:' .. only
  stamp = real.pcall('GET', companion_key)
  stamp = type(stamp) == 'string' and stamp
end
EXPECTED
-- Whether the program writes, a key that it lacks, and why this master refuses writes.
local writes, missing, refusal = false, nil, nil
-- Whether it may have changed the single key's type or expiry; the type it is known to have set, and the expiry, also
-- in 16 digits.
local is_unknown, new_kind, new_clean, new_text
-- The shortest TTL it has set, in milliseconds: its padding is how late the program may be answered.
local dated
-- A TTL in milliseconds, and its digits.
local told_ms, told
-- The calls' view of the general program, and the function that reports their effects: most need only the above, and
-- each variable of a function has a cost.
local whole, rest
local finish
if not kind then
  GENERAL
end
if only then
  ARGV[own - 3], ARGV[own - 2], ARGV[own - 1], ARGV[own] = nil, nil, nil, nil
end
-- The time that its calls see next, in microseconds.
local told_us = now
