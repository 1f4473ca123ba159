-- Drops these keys' stamps, which every member has and nothing depends on, and raises the floor. KEYS: the keys, of the
-- selected database; ARGV: the accepted ballot of each, and the mark up to its semicolon under which all were asked.
-- Returns the number of stamps; -1: the mark differs.
local MARK = 'redlock-proxy:mark'
local mark = call('GET', MARK) or ''
local head, floor, rest = string.match(mark, '^([^;]*;)(%d+)( %d+)$')
if not head then
  return redis.error_reply('ERR the mark of this master cannot be read')
end
if head ~= ARGV[#KEYS + 1] then
  return -1
end
local highest, dropped = tonumber(floor), 0
for at, key in ipairs(KEYS) do
  local stamp = stored(key)
  if not stamp then
    -- Someone has replaced the stamp.
    dropped = dropped + call('DEL', companion(key))
  elseif sub(stamp, 17, 32) == ARGV[at] and left_of(stamp) == 0 then
    stamp = stamp_of(key, stamp)
    local is_gone, lease, promised = look(key, stamp)
    local kind, clean = sub(stamp, 49, 49), tonumber(sub(stamp, 50, 65))
    highest = math.max(highest, counter_of(promised))
    if kind ~= '-' and clean >= 0 then
      -- A ballot from before its expiry must not find it absent here, and present elsewhere.
      highest = math.max(highest, (clean - SLACK_MS) * 1000)
    end
    if kind ~= '-' and not is_gone and not lease then
      call('DEL', key)
    end
    call('DEL', companion(key))
    dropped = dropped + 1
  end
end
call('SET', MARK, head .. string.format('%.0f', highest) .. rest)
return dropped
