-- Text that the script loads while it runs, and what it finds in _G, see the same `redis`; Valkey
-- calls it `server` as well.
server = redis
local compile, globals = loadstring, _G
local head = 'local redis,_G,load,loadstring,server=... return function(...) '

loadstring = function(text, name)
  local chunk, why = compile(head .. text .. '\nend', name or text)
  if not chunk then
    return nil, why
  end
  return chunk(redis, _G, load, loadstring, server)
end

load = function(pieces, name)
  local text = {}
  for piece in pieces do
    if piece == '' then
      break
    end
    text[#text + 1] = piece
  end
  return loadstring(table.concat(text), name or '=(load)')
end

_G = setmetatable({ KEYS = KEYS, ARGV = ARGV, redis = redis, server = server, load = load, loadstring = loadstring }, {
  __index = globals,
  __newindex = function()
    error('Attempt to modify a readonly table', 2)
  end,
  -- Instead of the one that leads to the real globals.
  __metatable = {},
})
rawset(_G, '_G', _G)
