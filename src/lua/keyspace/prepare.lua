-- Promises ballot ARGV[1] for all keys, and shows for each its stamp, whether its value is gone, and its lease. KEYS: the
-- keys; ARGV from the third on: the database of each. ARGV[2]: the database that is selected.
local ballot, db = ARGV[1], ARGV[2]
local stamps, highest = {}, NONE
local function choose(wanted)
  if wanted ~= db then
    call('SELECT', wanted)
    db = wanted
  end
end
for at, key in ipairs(KEYS) do
  choose(ARGV[at + 2])
  stamps[at] = call('GET', companion(key)) or NEW
  if is_below(highest, sub(stamps[at], 1, 32)) then
    highest = sub(stamps[at], 1, 32)
  end
end
if not is_below(highest, ballot) then
  return { 'refused', highest }
end
local shown = { 'promised' }
for at, key in ipairs(KEYS) do
  choose(ARGV[at + 2])
  local is_gone, lease = look(key, stamps[at])
  call('SET', companion(key), ballot .. sub(stamps[at], 33))
  shown[at + 1] = { sub(stamps[at], 33), is_gone and 1 or 0, lease }
end
return shown
