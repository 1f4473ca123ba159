-- Compare and set: only if the key has type ARGV[1] ('any': whatever it holds; 'exact': a string and its tag) and, being
-- a string, value ARGV[2] under one of the tags that follow each other in ARGV[6], or none if ARGV[7] is 1.
-- ARGV[3]: 'del', or how to set ARGV[4]: 'keep' its TTL, 'none', or 'px' with ARGV[5] milliseconds.
-- 0: it holds something else. Otherwise the tag of what it held, or 1.
local function is_known(tag)
  if tag == '' then
    return ARGV[7] == '1'
  end
  for at = 1, #ARGV[6], #tag do
    if string.sub(ARGV[6], at, at + #tag - 1) == tag then
      return true
    end
  end
  return false
end
local tag = ''
if ARGV[1] ~= 'any' then
  local kind = redis.call('TYPE', KEYS[1]).ok
  local value = kind == 'string' and redis.call('GET', KEYS[1])
  if ARGV[1] == 'exact' then
    if value ~= ARGV[2] then
      return 0
    end
  elseif kind ~= ARGV[1] or value and token_of(value) ~= ARGV[2] then
    return 0
  end
  tag = tag_of(value)
  if ARGV[1] == 'string' and not is_known(tag) then
    return 0
  end
end
if ARGV[3] == 'del' then
  redis.call('DEL', KEYS[1])
elseif ARGV[3] == 'keep' then
  redis.call('SET', KEYS[1], ARGV[4], 'KEEPTTL')
elseif ARGV[3] == 'none' then
  redis.call('SET', KEYS[1], ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
end
return tag ~= '' and tag or 1
