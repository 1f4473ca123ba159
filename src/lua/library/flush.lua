-- Removes all libraries, KEYS[1].
redis.call('DEL', KEYS[1])
return { ok = 'OK' }
