-- A quorum was seen to hold these keys' states under these ballots: they depend on nothing more. KEYS: the keys, of the
-- selected database; ARGV: the accepted ballot of each. Returns how many of them this master has.
local closed = 0
for at, key in ipairs(KEYS) do
  local stamp = stored(key)
  if stamp and sub(stamp, 17, 32) == ARGV[at] then
    -- If it is unknown what was accepted, it stays so.
    if sub(stamp, 74, 74) ~= '?' then
      call('SET', companion(key), sub(stamp, 1, 73) .. '-' .. sub(stamp, recent_of(stamp)))
    end
    closed = closed + 1
  end
end
return closed
