-- This master's view of itself, at a single moment: the mark of each of ARGV[1] databases, the roster's stamp, and the
-- progress of copying to it. KEYS: mark, roster, copying.
local function read(key)
  local text = redis.pcall('GET', key) or ''
  return type(text) == 'string' and text or ''
end

local shown = {}
for database = 0, tonumber(ARGV[1]) - 1 do
  redis.call('SELECT', database)
  shown[database + 1] = read(KEYS[1])
end
redis.call('SELECT', 0)
shown[#shown + 1] = read(KEYS[2])
shown[#shown + 1] = read(KEYS[3])
return shown
