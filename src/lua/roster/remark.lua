-- Replaces the marks of all databases, if they are still those that were seen: up to the semicolon, since what stands
-- behind it may change. ARGV: how ('keep' what the master holds, or 'empty' it), then what was seen in each database,
-- then what to set there, without a tail; nothing to set: the marks are removed. KEYS[1]: the mark.
local databases = (#ARGV - 1) / 2
local tails = {}
for database = 0, databases - 1 do
  redis.call('SELECT', database)
  local mark = redis.pcall('GET', KEYS[1]) or ''
  if type(mark) == 'table' then
    mark = ''
  end
  local head = string.match(mark, '^[^;]*;') or mark
  if head ~= ARGV[database + 2] then
    return 0
  end
  tails[database] = string.match(mark, '^[^;]*;(%d+ %d+)$') or '0 0'
end
if ARGV[1] == 'empty' then
  redis.call('FLUSHALL', 'ASYNC')
end
for database = 0, databases - 1 do
  redis.call('SELECT', database)
  local head = ARGV[database + 2 + databases]
  if head == '' then
    redis.call('DEL', KEYS[1])
  else
    redis.call('SET', KEYS[1], head .. tails[database])
  end
end
return 1
