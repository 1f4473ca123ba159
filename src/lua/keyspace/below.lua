-- Whether one ballot is below another.
local function is_below(one, other)
  for at = 1, 16 do
    local byte, others = string.byte(one, at), string.byte(other, at)
    if byte ~= others then
      return byte < others
    end
  end
  return false
end
