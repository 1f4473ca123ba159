-- The type of a key, as stamps abbreviate it.
local function kind_of(key)
  local kinds = { string = 's', list = 'l', set = 'e', zset = 'z', hash = 'h', stream = 'x' }
  return kinds[call('TYPE', key).ok] or '-'
end
