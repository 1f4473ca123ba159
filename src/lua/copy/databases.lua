-- Returns the mark and number of keys, the proxies' included, of each of the first ARGV[1] databases. KEYS[1]: mark.
local found = {}
for db = 0, ARGV[1] - 1 do
  redis.call('SELECT', db)
  found[2 * db + 1] = redis.call('GET', KEYS[1]) or ''
  found[2 * db + 2] = redis.call('DBSIZE')
end
return found
