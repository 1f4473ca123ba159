-- Whether the one key holds what its program expects, as its stamp says: then `kind` is its type, and nil else.
-- No stamp is shorter than one of a key that nothing was accepted for.
local is_promised, noted, _
if stamp and #stamp >= 108 then
  is_promised, _, noted, clean_text = fields('c32c16c1c16', stamp)
  is_promised = is_promised == expected
end
local flush = is_promised and THE_FLUSH
if flush then
  -- As `stamp_of` and the program in general have it. A floor that the stamp knows is below what it has promised.
  local floor, last = string.match(call('GET', 'redlock-proxy:mark') or '', ';(%d+) (%d+)$')
  local is_known = struct.unpack('>I8', sub(stamp, 77, 84)) >= tonumber(floor or 0)
  is_promised = is_known and tonumber(last or 0) == tonumber(flush)
end
if is_promised then
  clean = clean_text + 0
  local found = call('PEXPIRETIME', only)
  -- A lease is taken where nothing is, so it ends later than what masters have cleaned up before it, and nothing of ours
  -- brings a value back with the same end. Without an end there is the type to tell by.
  -- The ballot to promise is not later than a microsecond after the time.
  if found > 0 and found == clean and now + 1 < (clean - SLACK_MS) * 1000 or found == -2 and noted == '-' then
    kind = noted
  elseif found == -1 and clean == -1 then
    KIND_OF
    kind = noted == kind_of(only) and noted
  end
end
