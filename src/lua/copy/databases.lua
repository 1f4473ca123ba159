-- For each of the first ARGV[1] databases its mark, and how many keys it has with those of the proxies. KEYS[1]: the
-- mark.
local found = {}
for db = 0, ARGV[1] - 1 do
  redis.call('SELECT', db)
  found[2 * db + 1] = redis.call('GET', KEYS[1]) or ''
  found[2 * db + 2] = redis.call('DBSIZE')
end
return found
