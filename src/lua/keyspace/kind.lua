-- The type of a key, as abbreviated in stamps; all types newer than Redis 7.0 are one.
local function kind_of(key)
  local kinds = { string = 's', list = 'l', set = 'e', zset = 'z', hash = 'h', stream = 'x' }
  local name = call('TYPE', key).ok
  return kinds[name] or name ~= 'none' and '?' or '-'
end
