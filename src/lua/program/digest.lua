-- The digest of a key's content, the same on every master, in whatever order a master keeps it; and its type.
local function digest(key)
  local kind = redis.call('TYPE', key).ok
  local parts
  if kind == 'none' then
    return '', kind
  elseif kind == 'string' then
    local value = redis.call('GET', key)
    -- Without an attempt's tag.
    local is_tagged = #value >= 20 and string.sub(value, 1, 4) == '\255RL\1'
    parts = { is_tagged and string.sub(value, 21) or value }
  elseif kind == 'list' then
    parts = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'zset' then
    parts = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'set' then
    parts = redis.call('SMEMBERS', key)
    table.sort(parts)
  elseif kind == 'hash' then
    local words = redis.call('HGETALL', key)
    parts = {}
    for at = 1, #words, 2 do
      parts[#parts + 1] = #words[at] .. ':' .. words[at] .. words[at + 1]
    end
    table.sort(parts)
  else
    -- Without the version of the format and the checksum over it.
    parts = { string.sub(redis.call('DUMP', key), 1, -11) }
  end
  local content = { kind }
  for _, part in ipairs(parts) do
    content[#content + 1] = #part .. ':' .. part
  end
  return redis.sha1hex(table.concat(content)), kind
end
