-- Shows a key as a transaction of GET, GET, TYPE, PEXPIRETIME and GETRANGE does, for masters that queue no commands.
-- KEYS: the mark, the companion, the key. ARGV[1]: the last byte of the value to show.
local call = redis.pcall
return {
  call('GET', KEYS[1]),
  call('GET', KEYS[2]),
  call('TYPE', KEYS[3]),
  call('PEXPIRETIME', KEYS[3]),
  call('GETRANGE', KEYS[3], 0, ARGV[1]),
}
