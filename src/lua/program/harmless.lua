-- Redis reads these fields of an error in a reply outside of any protected call: with a metatable a script could crash
-- the master.
local function harmless(reply)
  local todo, known = { reply }, {}
  while #todo > 0 do
    local table = todo[#todo]
    todo[#todo] = nil
    if type(table) == 'table' and not known[table] then
      known[table] = true
      if type(rawget(table, 'err')) == 'string' and getmetatable(table) ~= nil then
        for _, name in ipairs({ 'source', 'line', 'ignore_error_stats_update' }) do
          if rawget(table, name) == nil then
            rawset(table, name, false)
          end
        end
      end
      for key, value in next, table do
        todo[#todo + 1] = key
        todo[#todo + 1] = value
      end
    end
  end
end
harmless(reply)
