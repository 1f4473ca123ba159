-- The commands of a MULTI, or one command. The queue: the protocol of the client; its database; the number
-- of watched keys, and for each its database, itself and the digest it must have; then, for each
-- command, the number of its words and its words.
local at = 4 + 3 * queue[3]
local broken = false
for watched = 4, at - 1, 3 do
  redis.call('SELECT', queue[watched])
  broken = broken or digest(queue[watched + 1]) ~= queue[watched + 2]
end
if broken then
  return false
end
if at > 4 then
  redis.call('SELECT', queue[2])
end

-- What these answer has another type in RESP3. All others run in RESP2, where Lua keeps the nulls that
-- are inside an array.
local typed = ' hgetall lcs sdiff sinter smembers sunion zadd zdiff zincrby zinter zmpop zpopmax zpopmin zrange '
  .. 'zrangebyscore zrevrange zrevrangebyscore zscore zunion '
local function run(name, ...)
  local lower = string.lower(name)
  local is_typed = queue[1] == '3' and string.find(typed, ' ' .. lower .. ' ', 1, true)
  if is_typed then
    redis.setresp(3)
  end
  local reply = redis.pcall(name, ...)
  if is_typed then
    redis.setresp(2)
  elseif queue[1] == '3' and lower == 'zmscore' and type(reply) == 'table' and not reply.err then
    for at, score in ipairs(reply) do
      reply[at] = score and { double = tonumber(score) }
    end
  end
  return reply
end

local function run_script(number, sha, first, last, count, ...)
  KEYS, ARGV = {}, { ... }
  for key = 1, tonumber(count) do
    KEYS[key] = table.remove(ARGV, 1)
  end
  local done, reply = xpcall(scripts[tonumber(number)], function(raised)
    return explain(raised, sha, tonumber(first), tonumber(last))
  end)
  redis.setresp(2)
  if not done then
    return { err = reply }
  end
  return reply
end

local replies = {}
while queue[at] do
  local run_next = queue[at + 1] == ':script' and run_script or run
  local first = run_next == run and at + 1 or at + 2
  local reply = run_next(unpack(queue, first, at + queue[at]))
  if reply == nil then
    reply = false
  end
  replies[#replies + 1] = reply
  at = at + 1 + queue[at]
end
return replies
