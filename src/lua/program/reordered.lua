-- Whether two dumps hold the same members of a set or a hash, but in another order: a master that makes
-- such a table anew may come to another one. In a dump (`rdb.c` of Redis) they are strings, after a byte
-- for the type and their number.
local function reordered(one, other)
  if #one ~= #other or string.byte(one) ~= string.byte(other) then
    return false
  end
  local each = string.byte(one) == 4 and 2 or 1
  local dump, at
  local function byte()
    at = at + 1
    return string.byte(dump, at - 1)
  end
  -- A length, or nothing and how the string is packed.
  local function length()
    local first = byte()
    if first < 64 then
      return first
    elseif first < 128 then
      return first % 64 * 256 + byte()
    elseif first == 128 then
      return ((byte() * 256 + byte()) * 256 + byte()) * 256 + byte()
    end
    return nil, first % 64
  end
  local function skip_string()
    local long, packing = length()
    if packing == 3 then
      long = length()
      length()
    end
    at = at + (long or 2 ^ packing)
  end
  local function members(value)
    dump, at = value, 2
    local found = {}
    for member = 1, length() do
      local first = at
      for _ = 1, each do
        skip_string()
      end
      found[member] = string.sub(dump, first, at - 1)
    end
    table.sort(found)
    return table.concat(found)
  end
  return members(one) == members(other)
end
