-- The value of a key, and whether the key is a register, or no string: the caller then changes nothing and says 'stamped'.
-- A value with a tag is a lease, whatever is stamped beside it.
local function look(key)
  local value = redis.pcall('GET', key)
  if value and type(value) ~= 'string' then
    return false, true
  elseif tag_of(value) ~= '' then
    return value, false
  end
  -- Its accepted ballot, as some companions only hold a promise, and what follows up to its end: what does not look so was put
  -- there by somebody else, and is no stamp.
  local stamp = redis.pcall('GETRANGE', 'redlock-proxy:s:' .. key, 16, 64)
  local has_form = type(stamp) == 'string' and string.find(stamp, '^[-slezhx?][-%d]' .. string.rep('%d', 15), 33)
  return value, has_form and string.sub(stamp, 1, 16) ~= string.rep('\0', 16)
end
