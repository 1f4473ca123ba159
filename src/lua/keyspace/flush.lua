-- Does a flush. ARGV[1]: its counter; '0': none. ARGV[2]: 'SYNC', 'ASYNC' or ''. ARGV[3]: the database, or 'all'.
-- Returns its last flush. For all, that is the lowest; without a flush to do, the highest.
local counter, how = tonumber(ARGV[1]), ARGV[2]
if not is_in() then
  -- The proxy that copies to it does its flushes, between copies.
  return 0
end
if ARGV[3] ~= 'all' then
  call('SELECT', ARGV[3])
  return flush(counter, how)
end
local found, db = nil, 0
while not redis.pcall('SELECT', db).err do
  local last = flush(counter, how)
  if not found or (counter > 0) == (last < found) then
    found = last
  end
  db = db + 1
end
return found
