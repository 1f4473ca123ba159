-- Lets a key that is still there end no sooner than in ARGV[1] milliseconds. Answers 0 if it is gone.
local left = redis.call('PTTL', KEYS[1])
if left == -2 then
  return 0
elseif left >= 0 and left < tonumber(ARGV[1]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 1
