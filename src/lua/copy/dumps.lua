-- The mark, then DUMP of each key of database ARGV[1]; '' for no key. KEYS[1]: the mark.
redis.call('SELECT', ARGV[1])
local dumps = { redis.call('GET', KEYS[1]) or '' }
for at = 2, #KEYS do
  dumps[at] = redis.call('DUMP', KEYS[at]) or ''
end
return dumps
