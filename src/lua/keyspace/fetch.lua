-- Returns the values of keys in the format of DUMP if this master accepted them under these ballots. KEYS: the keys.
-- ARGV[1]: the selected database; then the database and ballot of each key.
here = ARGV[1]
local held = { 'fetched' }
for at, key in ipairs(KEYS) do
  choose(ARGV[2 * at])
  local stamp = stamp_of(key)
  local is_gone, lease = look(key, stamp)
  local has_it = sub(stamp, 17, 32) == ARGV[2 * at + 1] and not is_gone and not lease
  held[at + 1] = has_it and call('DUMP', key)
end
return held
