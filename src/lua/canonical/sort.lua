-- Runs a SORT, unless it looks up one of the proxy's own keys. ARGV: their prefix, the error, and the words. Uses
-- RESP2: RESP3 would lose array elements after a null.
if completes_reserved(ARGV[1], redis.pcall, { unpack(ARGV, 3) }) then
  return { err = ARGV[2] }
end
return redis.pcall(unpack(ARGV, 3))
