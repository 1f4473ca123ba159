local function failed(raised)
  return explain(raised, SHA, 1, LINES)
end

-- What is different now, six entries for each key: database, key, its image before, and the checksum
-- and end of what it holds now.
local function changes()
  local found, current = {}, nil
  for at = 1, #before, 4 do
    if before[at] ~= current and (current or before[at] ~= db) then
      call('SELECT', before[at])
    end
    current = before[at]
    local dump, expiry = image(before[at + 1])
    if dump ~= before[at + 2] or expiry ~= before[at + 3] then
      local last = #found
      found[last + 1], found[last + 2], found[last + 3] = current, before[at + 1], before[at + 2]
      found[last + 4] = before[at + 3]
      found[last + 5], found[last + 6] = dump and string.sub(dump, -8) or '', expiry
    end
  end
  return found
end

local done, reply = xpcall(program, failed)
if not done then
  reply = { err = reply }
end
if reply == nil then
  real.setresp(2)
  reply = false
end
return { reply, read_ttl + popped, changes(), messages }
