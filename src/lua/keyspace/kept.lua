-- The last programs: the earlier ones and the one that just ran. Once the maximum kept for all workers is reached, the
-- first usually has to go, and is this worker's: then its ballot is the one up to which that worker's are unknown. More
-- keys or a lease before them are rare. Bytes are cheaper to test than strings: 45 is '-', 97 is 'a', and digits begin
-- at 48.
local before, counted, dropped = nil, '0LAST_PROGRAMS', ''
if only and writes then
  local how, from = byte(stamp, 74), 91
  if how == 45 then
    from = 75
  elseif how ~= 97 then
    RECENT_OF
    from = recent_of(stamp)
  end
  local tens, ones = byte(stamp, from, from + 1)
  local kept = 10 * tens + ones - 527
  before = from + 2
  if kept <= LAST_PROGRAMS then
    counted = '0' .. kept
  else
    local thousands, hundreds, more, last = byte(stamp, from + 34, from + 37)
    before = from + 38 + 1000 * thousands + 100 * hundreds + 10 * more + last - 1111 * 48
    if kept == LAST_PROGRAMS + 1 and sub(stamp, before + 8, before + 15) == sub(expected, 9, 16) then
      dropped = sub(stamp, from + 2, from + 17)
    else
      before, counted = from, nil
    end
  end
end
local remembered
if not only or not counted then
  IS_BELOW
  REMEMBERED
end
