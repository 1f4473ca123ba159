-- Whether the single key holds what its program expects, by its stamp: then `kind` is its type, else nil. The shortest
-- stamp is that of a key that nothing was accepted for.
local is_promised, noted, _
if stamp and #stamp >= 108 then
  is_promised, _, noted, clean_text = fields('c32c16c1c16', stamp)
  is_promised = is_promised == expected
end
local flush = is_promised and THE_FLUSH
if flush then
  -- As in `stamp_of` and the general program. A floor known to the stamp is below its promise.
  local floor, last = string.match(call('GET', 'redlock-proxy:mark') or '', ';(%d+) (%d+)$')
  local is_known = struct.unpack('>I8', sub(stamp, 77, 84)) >= tonumber(floor or 0)
  is_promised = is_known and tonumber(last or 0) == tonumber(flush)
end
if is_promised then
  clean = clean_text + 0
  local found = call('PEXPIRETIME', only)
  -- A lease is taken where nothing is, so it expires later than anything cleaned up before it, and the proxy never
  -- restores a value with the same expiry. Without an expiry the type decides. The ballot to promise is at most a
  -- microsecond after the time.
  if found > 0 and found == clean and now + 1 < (clean - SLACK_MS) * 1000 or found == -2 and noted == '-' then
    kind = noted
  elseif found == -1 and clean == -1 then
    KIND_OF
    kind = noted == kind_of(only) and noted
  end
end
