-- The commands of a MULTI, or one command. Its argument keeps a script from writing. The queue: the client's protocol;
-- its database; then, per command, the number of its words and its words. A script may change the `redis` that it is
-- given.
local keep_from_writing = ...
local queue, call, try, setresp = ARGV, redis.call, redis.pcall, redis.setresp
local at = 3

-- Commands whose replies have another type in RESP3. All others run in RESP2, where Lua keeps the nulls inside an
-- array.
local typed = ' hgetall hrandfield lcs sdiff sinter smembers spop sunion zadd zdiff zincrby zinter zmpop zpopmax zpopmin '
  .. 'zrandmember zrange zrangebyscore zrevrange zrevrangebyscore zscore zunion '
-- Integers beyond Lua's range are returned as stored.
local counters = { hincrby = 'HGET', incr = 'GET', incrby = 'GET', decr = 'GET', decrby = 'GET' }
local function exact(number, name, key, field)
  local read = counters[name]
  if not read or number > -2 ^ 53 and number < 2 ^ 53 then
    return number
  end
  local words = name == 'hincrby' and { key, field } or { key }
  return { big_number = redis.call(read, unpack(words)) }
end

-- Redis turns a number too large for an integer into the smallest one, like BITFIELD's near 2^63 once Lua has rounded
-- them. This is Lua's next smaller number.
local function at_most_largest(numbers)
  for at, number in ipairs(numbers) do
    if type(number) == 'number' and number >= 2 ^ 63 then
      numbers[at] = 2 ^ 63 - 1024
    end
  end
end

-- The database selected outside of scripts: a script's own selection ends with it (since Redis 2.8.12).
local db = queue[2]
local function run(name, ...)
  local lower = string.lower(name)
  local is_typed = queue[1] == '3' and string.find(typed, ' ' .. lower .. ' ', 1, true)
  if is_typed then
    setresp(3)
  end
  local reply = try(name, ...)
  if lower == 'select' and not reply.err then
    db = ...
  end
  if type(reply) == 'number' then
    reply = exact(reply, lower, ...)
  elseif string.sub(lower, 1, 8) == 'bitfield' and type(reply) == 'table' then
    at_most_largest(reply)
  end
  if is_typed then
    setresp(2)
  elseif queue[1] == '3' and lower == 'zmscore' and type(reply) == 'table' and not reply.err then
    for at, score in ipairs(reply) do
      reply[at] = score and { double = tonumber(score) }
    end
  end
  return reply
end

local function run_script(number, mode, sha, first, last, count, ...)
  local keys, argv = {}, {}
  count = tonumber(count)
  for at, word in ipairs({ ... }) do
    if at <= count then
      keys[at] = word
    else
      argv[at - count] = word
    end
  end
  keep_from_writing(mode == 'ro', true)
  local done, reply = xpcall(opened(tonumber(number), keys, argv), function(raised)
    return explain(raised, sha, tonumber(first), tonumber(last))
  end)
  keep_from_writing(false)
  setresp(2)
  call('SELECT', db)
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
