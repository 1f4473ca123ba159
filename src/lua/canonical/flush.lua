-- Empties the database, or all of them, but for what the proxies keep there: a flush by a proxy is no loss of memory.
local own = { 'redlock-proxy:mark', 'redlock-proxy:roster', 'redlock-proxy:clocks' }

local function read()
  local kept = {}
  for at, key in ipairs(own) do
    kept[at] = redis.call('GET', key)
  end
  return kept
end

local function write(kept)
  for at, key in ipairs(own) do
    if kept[at] then
      redis.call('SET', key, kept[at])
    end
  end
end

if ARGV[1] == 'FLUSHDB' then
  local kept = read()
  local done = redis.call('FLUSHDB')
  write(kept)
  return done
end
local kept, databases = {}, 0
while not redis.pcall('SELECT', databases).err do
  kept[databases] = read()
  databases = databases + 1
end
local done = redis.call('FLUSHALL')
for database = 0, databases - 1 do
  redis.call('SELECT', database)
  write(kept[database])
end
return done
