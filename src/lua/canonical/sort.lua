-- Runs a SORT, unless it looks up a key of the proxy's own. ARGV: what such keys begin with, the error, and the words.
-- In RESP2: what is behind a null in an array would be lost in RESP3.
if completes_reserved(ARGV[1], redis.pcall, { unpack(ARGV, 3) }) then
  return { err = ARGV[2] }
end
return redis.pcall(unpack(ARGV, 3))
