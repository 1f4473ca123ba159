-- The roster's stamp: promised ballot, accepted ballot, state. A ballot is `epoch:counter:worker`, compared as numbers:
-- the order of strings follows the locale.
local function read_stamp(key)
  local text = redis.call('GET', key)
  if not text then
    return '0:0:0', '0:0:0', ''
  end
  return string.match(text, '^(%d+:%d+:%d+) (%d+:%d+:%d+) (.*)$')
end

local function is_below(one, other)
  one = { string.match(one, '^(%d+):(%d+):(%d+)$') }
  other = { string.match(other, '^(%d+):(%d+):(%d+)$') }
  for at = 1, 3 do
    if one[at] ~= other[at] then
      return tonumber(one[at]) < tonumber(other[at])
    end
  end
  return false
end
