-- Whether a master refuses what writes on its own account: others may have run it.
local function is_refusal(why)
  return string.find(' OOM MISCONF NOREPLICAS READONLY ', ' ' .. string.match(why, '^%S*') .. ' ', 1, true)
end
