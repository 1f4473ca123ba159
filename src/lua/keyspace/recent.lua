-- Where the last programs begin.
local function recent_of(stamp)
  if sub(stamp, 114, 114) == '-' then
    return 115
  end
  local at = 139 + tonumber(sub(stamp, 131, 138))
  local keys = tonumber(sub(stamp, at, at + 3))
  at = at + 4
  for _ = 1, keys do
    at = at + 45 + tonumber(sub(stamp, at + 5, at + 12))
  end
  return at
end
