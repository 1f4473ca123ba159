-- The last programs of a stamp, which begin at `first`, after one more under this ballot: their number including it,
-- the ballots up to which others are unknown, and the programs. The latest are kept for all workers, and before those
-- the last of each worker, if not too old. If the new one does not change the key, the last that did is kept in mind.
function remembered(stamp, first, ballot, changes)
  local count = tonumber(sub(stamp, first, first + 1))
  local places = { first + (count < 50 and 34 or 50) }
  local changed = ''
  if not changes then
    changed = count >= 50 and sub(stamp, first + 34, first + 49) or count > 0 and sub(stamp, -16) or string.rep('\0', 16)
  end
  count = count % 50
  for at = 1, count do
    places[at + 1] = places[at] + 20 + tonumber(sub(stamp, places[at], places[at] + 3))
  end
  local dropped, thinned = sub(stamp, first + 2, first + 17), sub(stamp, first + 18, first + 33)
  local oldest = struct.unpack('>I8', ballot) - OLD_US
  local kept, later = {}, { [sub(ballot, 9)] = true }
  for at = count, 1, -1 do
    local ran = sub(stamp, places[at + 1] - 16, places[at + 1] - 1)
    local worker, with_this = sub(ran, 9), #kept + 2
    if
      with_this <= LAST_PROGRAMS
      or not later[worker] and with_this <= MOST_PROGRAMS and struct.unpack('>I8', ran) >= oldest
    then
      table.insert(kept, 1, sub(stamp, places[at], places[at + 1] - 1))
    elseif not later[worker] then
      dropped = is_below(dropped, ran) and ran or dropped
    else
      thinned = is_below(thinned, ran) and ran or thinned
    end
    later[worker] = true
  end
  return string.format('%02d', #kept + (changes and 1 or 51)) .. dropped .. thinned .. changed .. table.concat(kept)
end
