-- What the client is told when its script fails, in the words and with the line number that Redis
-- would use: the first line on the way up that is the script's own.
local function explain(raised, sha, first, last)
  local text = type(raised) == 'table' and raised.err or 'ERR ' .. tostring(raised)
  text = string.gsub(text, 'user_script:(%d+):', function(line)
    return 'user_script:' .. line - first + 1 .. ':'
  end)
  local found = first
  for level = 4, 24 do
    local _, where = pcall(error, '', level)
    local line = tonumber(string.match(where, '^user_script:(%d+):'))
    if line and line >= first and line <= last then
      found = line
      break
    end
  end
  return text .. ' script: ' .. sha .. ', on @user_script:' .. found - first + 1 .. '.'
end
