-- The number of keys in the database, without the proxies' own.
local own = redis.call(
  'EXISTS', 'redlock-proxy:mark', 'redlock-proxy:roster', 'redlock-proxy:copying', 'redlock-proxy:clocks',
  'redlock-proxy:over', 'redlock-proxy:libraries'
)
return redis.call('DBSIZE') - own
