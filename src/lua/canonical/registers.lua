-- The value of a key, and whether the key is a register, or no string: the caller then changes nothing and says 'stamped'.
-- A value with a tag is a lease, whatever is stamped beside it.
local function look(key)
  local value = redis.pcall('GET', key)
  if value and type(value) ~= 'string' then
    return false, true
  elseif tag_of(value) ~= '' then
    return value, false
  end
  -- Its accepted ballot: some companions only hold a promise.
  local accepted = redis.call('GETRANGE', 'redlock-proxy:s:' .. key, 16, 31)
  return value, accepted ~= '' and accepted ~= string.rep('\0', 16)
end
