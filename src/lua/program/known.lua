-- Returns `program`, unless one of these names, unknown to Redis 7.0, is a global of this master, which could lead the
-- script of a restricted user anywhere.
local function known_only(program, names)
  for name in string.gmatch(names, '%S+') do
    if rawget(_G, name) ~= nil then
      return function()
        error("Script attempted to access nonexistent global variable '" .. name .. "'", 0)
      end
    end
  end
  return program
end
