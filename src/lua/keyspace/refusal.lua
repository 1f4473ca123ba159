-- Whether a master refuses writes for its own reasons: others may have run it.
local function is_refusal(why)
  return string.find(' OOM MISCONF NOREPLICAS READONLY ', ' ' .. string.match(why, '^%S*') .. ' ', 1, true)
end
