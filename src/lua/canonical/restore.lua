-- Gives keys back what they held before a program, each if it still is what the program left. Five
-- arguments for each key: database, value (DUMP, empty: no such key) and end before the program,
-- checksum of the value and end after it.
local restored = 0
for at, key in ipairs(KEYS) do
  local first = 5 * at - 4
  local value, expiry, left, left_expiry = unpack(ARGV, first + 1, first + 4)
  redis.call('SELECT', ARGV[first])
  local now = redis.call('DUMP', key)
  local checksum = now and string.sub(now, -8) or ''
  local now_expiry = now and redis.call('PEXPIRETIME', key) or -2
  if checksum == left and now_expiry == tonumber(left_expiry) then
    if value == '' then
      redis.call('DEL', key)
    else
      local ends = tonumber(expiry) > 0 and expiry or 0
      redis.call('RESTORE', key, ends, value, 'REPLACE', 'ABSTTL')
    end
    restored = restored + 1
  end
end
return restored
