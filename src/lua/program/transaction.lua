-- The commands of a MULTI, or one command. ARGV: the protocol of the client; its database; the number
-- of watched keys, and for each its database, itself and the digest it must have; then, for each
-- command, the number of its words and its words.
local at = 4 + 3 * ARGV[3]
local broken = false
for watched = 4, at - 1, 3 do
  redis.call('SELECT', ARGV[watched])
  broken = broken or digest(ARGV[watched + 1]) ~= ARGV[watched + 2]
end
if broken then
  return false
end
if at > 4 then
  redis.call('SELECT', ARGV[2])
end

-- What these answer has another type in RESP3. All others run in RESP2, where Lua keeps the nulls that
-- are inside an array.
local typed = ' hgetall lcs sdiff sinter smembers sunion zadd zdiff zincrby zinter zmpop zpopmax zpopmin zrange '
  .. 'zrangebyscore zrevrange zrevrangebyscore zscore zunion '
local function run(name, ...)
  local lower = string.lower(name)
  local is_typed = ARGV[1] == '3' and string.find(typed, ' ' .. lower .. ' ', 1, true)
  if is_typed then
    redis.setresp(3)
  end
  local reply = redis.pcall(name, ...)
  if is_typed then
    redis.setresp(2)
  elseif ARGV[1] == '3' and lower == 'zmscore' and not reply.err then
    for at, score in ipairs(reply) do
      reply[at] = score and { double = tonumber(score) }
    end
  end
  return reply == nil and false or reply
end

local replies = {}
while ARGV[at] do
  replies[#replies + 1] = run(unpack(ARGV, at + 1, at + ARGV[at]))
  at = at + 1 + ARGV[at]
end
return replies
