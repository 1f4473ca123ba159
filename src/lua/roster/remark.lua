-- Replaces the marks of all databases, if they are still those seen before: up to the semicolon, since the rest may
-- change. ARGV: how ('keep' the master's content, or 'empty' it; 'found' and a stamp of the roster: keep it, if that is
-- still the stamp), then the mark seen in each database, then the one to set there, without a tail; without any, the
-- marks are removed. KEYS: mark, roster.
local databases = (#ARGV - 1) / 2
local stamp = string.match(ARGV[1], '^found (.*)$')
if stamp then
  redis.call('SELECT', 0)
  if redis.pcall('GET', KEYS[2]) ~= stamp then
    return 0
  end
end
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
local was_copied_to = string.sub(ARGV[2], 1, 2) == '? '
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
local is_member = ARGV[2 + databases] ~= '' and string.sub(ARGV[2 + databases], 1, 2) ~= '? '
if was_copied_to and is_member then
  -- Its mark proves that it has accepted nothing unknown to it: it votes on the roster from now on, before it has
  -- received it. Masters that know it may forget at any time.
  redis.call('SELECT', 0)
  redis.call('SET', KEYS[2], '0:0:0 0:0:0 ', 'NX')
end
return 1
