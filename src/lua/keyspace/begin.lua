-- Empties the selected database, unless this flush or a later one (a counter) was done. `how`: 'SYNC', 'ASYNC', or ''
-- for the configured way. The proxies' own keys stay. So do the libraries of functions, as in Redis, with their
-- register's stamp. No ballot below the flush is promised after it. Returns the last flush.
local OWN = {
  'redlock-proxy:roster', 'redlock-proxy:copying', 'redlock-proxy:clocks', 'redlock-proxy:over',
  'redlock-proxy:libraries', 'redlock-proxy:s:redlock-proxy:libraries',
}

local function flush(counter, how)
  local mark = call('GET', 'redlock-proxy:mark') or ''
  local head, floor, last = string.match(mark, '^([^;]*;)(%d+) (%d+)$')
  if not head or counter <= tonumber(last) then
    return tonumber(last or 0)
  end
  local kept = {}
  for _, key in ipairs(OWN) do
    if call('EXISTS', key) == 1 then
      kept[key] = { math.max(call('PEXPIRETIME', key), 0), call('DUMP', key) }
    end
  end
  if how == '' then
    call('FLUSHDB')
  else
    call('FLUSHDB', how)
  end
  for key, entry in pairs(kept) do
    call('RESTORE', key, entry[1], entry[2], 'ABSTTL')
  end
  floor = math.max(tonumber(floor), counter)
  call('SET', 'redlock-proxy:mark', head .. string.format('%.0f %.0f', floor, counter))
  return counter
end
