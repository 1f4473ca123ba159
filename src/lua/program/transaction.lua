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
if ARGV[1] == '3' then
  redis.setresp(3)
end
local replies = {}
while ARGV[at] do
  local reply = redis.pcall(unpack(ARGV, at + 1, at + ARGV[at]))
  if reply == nil then
    reply = false
  end
  replies[#replies + 1] = reply
  at = at + 1 + ARGV[at]
end
redis.setresp(2)
return replies
