-- Start of the last programs.
local function recent_of(stamp)
  local how = sub(stamp, 74, 74)
  if how == '-' or how == 'a' or how == '?' then
    return how == 'a' and 91 or 75
  end
  local at = 99 + tonumber(sub(stamp, 91, 98))
  local keys = tonumber(sub(stamp, at, at + 3))
  at = at + 4
  for _ = 1, keys do
    at = at + 29 + tonumber(sub(stamp, at + 5, at + 12))
  end
  return at
end
