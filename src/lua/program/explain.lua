-- The client's error when its script fails, with Redis's words and line number: the first line on the way up that is
-- the script's own. Addresses differ on every master. A plain Redis crashes on a table without a text. A name that
-- begins with '@' is that of a function in a library.
local function explain(raised, sha, first, last)
  local kind, text = type(raised), nil
  if kind == 'table' then
    local done, err = pcall(function()
      return raised.err
    end)
    text = done and (type(err) == 'string' or type(err) == 'number') and err .. '' or 'ERR unknown error'
  elseif kind == 'string' then
    text = 'ERR ' .. raised
  else
    text = 'ERR ' .. string.gsub(tostring(raised), ': 0x%x+$', '')
  end
  text = string.match(text, '^[^%z]*')
  local file = 'user_script'
  if string.sub(sha, 1, 1) == '@' then
    file, sha = 'user_function', string.sub(sha, 2)
  end
  text = string.gsub(text, 'user_script:(%d+):', function(line)
    return file .. ':' .. line - first + 1 .. ':'
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
  return text .. ' script: ' .. sha .. ', on @' .. file .. ':' .. found - first + 1 .. '.'
end
