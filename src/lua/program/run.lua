-- What the script says about a failure is made only when there is one.
local function failed(raised)
  EXPLAIN
  return explain(raised, SCRIPT_SHA, 1, LAST_LINE)
end

TAGS_OFF
local done, reply = xpcall(program, failed)
if not done then
  reply = { err = reply }
end
DISARM
if reply == nil then
  real.setresp(2)
  reply = false
end
TAGS_BACK

-- What is different now, six entries for each key: database, key, its value and end before, and the
-- checksum and end of what it holds now.
local changes, current = { nil, nil, nil, nil, nil, nil }, nil
for at = 1, before and #before or 0, 5 do
  local where, key, value, expiry, keeps_value = unpack(before, at, at + 4)
  if where ~= current and (current or where ~= db) then
    call('SELECT', where)
  end
  current = where
  local end_now = call('PEXPIRETIME', key)
  local now = end_now ~= -2 and (keeps_value and value or call('DUMP', key))
  local differs = now ~= value
  local kind = differs and now and value and string.byte(now)
  if kind == 2 or kind == 4 then
    REORDERED
    differs = not reordered(value, now)
  end
  if differs or end_now ~= expiry then
    local last = #changes
    changes[last + 1], changes[last + 2], changes[last + 3] = where, key, value
    changes[last + 4], changes[last + 5], changes[last + 6] = expiry, now and string.sub(now, -8) or '', end_now
  end
end
-- Nothing comes after a nil: most scripts read no time.
return { reply, popped, changes, messages or {}, times }
