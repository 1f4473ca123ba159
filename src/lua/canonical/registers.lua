-- The value of a key as `GET` answered it, and whether the key is a register, or no string: the caller then changes
-- nothing and returns 'stamped'. A value with a tag is a lease, whatever its stamp.
local function look(key, value)
  if value and type(value) ~= 'string' then
    return false, true
  elseif tag_of(value) ~= '' then
    return value, false
  end
  -- Its accepted ballot, as some companions hold only a promise, and the fields up to its end. Anything without this
  -- form is someone else's, and no stamp.
  local stamp = redis.pcall('GETRANGE', 'redlock-proxy:s:' .. key, 16, 64)
  local has_form = type(stamp) == 'string' and string.find(stamp, '^[-slezhx?][-%d]' .. string.rep('%d', 15), 33)
  return value, has_form and string.sub(stamp, 1, 16) ~= string.rep('\0', 16)
end
