-- A page of this master's records of attempts that are over in database ARGV[1], from cursor ARGV[2], about ARGV[3] of
-- them: its mark, the next cursor, and each attempt with the milliseconds left. KEYS: the mark, the records.
redis.call('SELECT', ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local next, notes = unpack(redis.call('ZSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3]))
local page = { redis.call('GET', KEYS[1]) or '', next }
for at = 1, #notes, 2 do
  page[at + 2], page[at + 3] = notes[at], notes[at + 1] - now
end
return page
