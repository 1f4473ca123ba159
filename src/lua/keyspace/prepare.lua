-- Promises ballot ARGV[1] for all keys, and shows for each its stamp, whether its value is gone, and its lease. KEYS: the
-- keys; ARGV from the third on: the database of each. ARGV[2]: the database that is selected.
local ballot = ARGV[1]
here = ARGV[2]
local stamps, shown, highest = {}, { 'promised' }, NONE
for at, key in ipairs(KEYS) do
  choose(ARGV[at + 2])
  local stamp = stamp_of(key)
  local is_gone, lease, promised = look(key, stamp)
  stamps[at] = sub(stamp, 17)
  shown[at + 1] = { stamps[at], is_gone and 1 or 0, lease }
  if is_below(highest, promised) then
    highest = promised
  end
end
if not is_below(highest, ballot) then
  return { 'refused', highest }
end
for at, key in ipairs(KEYS) do
  choose(ARGV[at + 2])
  call('SET', companion(key), ballot .. stamps[at])
end
return shown
