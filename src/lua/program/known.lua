-- `program`, unless one of these names, which Redis 7.0 has not, is a global of this master: nobody knows where
-- that would lead the script of a user who may not do everything.
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
