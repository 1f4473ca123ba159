-- The description of a failure is made only on failure.
local function failed(raised)
  EXPLAIN
  return explain(raised, SCRIPT_SHA, 1, LAST_LINE)
end

local done, reply = xpcall(program, failed)
if not done then
  reply = { err = reply }
end
DISARM
local messages, db, home
if rest then
  messages, db, home = rest()
end
KEPT
if not only then
  return finish(reply, messages, db, remembered)
end

-- The script may have changed databases.
if db ~= home then
  call('SELECT', home)
end
local answer
RAN
return answer
