-- Puts libraries into their register, KEYS[1]: a hash of each one's `Library::content`, which begins with a line of its
-- functions' names. ARGV[1]: 'new', if no library of these names may exist; 'append', the same with the error of
-- RESTORE; 'replace'; or 'flush', replacing all. Then name and content of each. As in Redis, no function may have the
-- name of one in another library, in any case.
local key, policy = KEYS[1], ARGV[1]
local held = policy ~= 'flush' and redis.call('HGETALL', key) or {}
local libraries = {}
for at = 1, #held, 2 do
  libraries[held[at]] = string.match(held[at + 1], '^[^\n]*')
end
for at = 2, #ARGV, 2 do
  local name = ARGV[at]
  if libraries[name] and policy ~= 'replace' then
    return { err = 'ERR Library ' .. (policy == 'new' and "'" .. name .. "'" or name) .. ' already exists' }
  end
  libraries[name] = nil
end
local taken = {}
for _, functions in pairs(libraries) do
  for name in string.gmatch(functions, '%S+') do
    taken[string.lower(name)] = true
  end
end
for at = 3, #ARGV, 2 do
  local functions = string.match(ARGV[at], '^[^\n]*')
  for name in string.gmatch(functions, '%S+') do
    if taken[string.lower(name)] then
      return { err = 'ERR Function ' .. name .. ' already exists' }
    end
  end
  for name in string.gmatch(functions, '%S+') do
    taken[string.lower(name)] = true
  end
end
if policy == 'flush' then
  redis.call('DEL', key)
end
for at = 2, #ARGV, 2 do
  redis.call('HSET', key, ARGV[at], ARGV[at + 1])
end
return { ok = 'OK' }
