-- The commands of a MULTI, or one command. ARGV: the protocol of the client; the number of watched
-- keys, and for each the key and the digest it must have; then, for each command, the number of its
-- words and its words.
local at = 3 + 2 * ARGV[2]
for watched = 3, at - 1, 2 do
  if digest(ARGV[watched]) ~= ARGV[watched + 1] then
    return false
  end
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
