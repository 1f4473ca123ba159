-- PTTL gives this master's own time at less cost than TIME, at most a millisecond late, unless the key has expired by
-- it.
local left = call('PTTL', only)
local own_us = (ends - left + 1) * 1000
if left <= 0 then
  local time = call('TIME')
  own_us = time[1] * 1000000 + time[2]
end
