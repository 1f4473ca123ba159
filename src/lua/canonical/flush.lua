-- Empties the database, or all of them. The call that fails is counted by the master as well: it tells the
-- proxies that this flush is one of theirs, and that the master has not lost its memory.
redis.pcall(ARGV[1], 'announced')
return redis.call(ARGV[1])
