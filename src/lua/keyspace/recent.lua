-- Where the last programs begin.
local function recent_of(stamp)
  local how = sub(stamp, 66, 66)
  if how == '-' or how == 'a' then
    return how == 'a' and 83 or 67
  end
  local at = 91 + tonumber(sub(stamp, 83, 90))
  local keys = tonumber(sub(stamp, at, at + 3))
  at = at + 4
  for _ = 1, keys do
    at = at + 29 + tonumber(sub(stamp, at + 5, at + 12))
  end
  return at
end
