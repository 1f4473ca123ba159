-- The `redis` of a script that may do anything with it. It is empty, so that assignments to it are noticed, and its
-- calls look up every command in `how`. Its metatable would lead to the real one.
local function through(run)
  return function(...)
    return SCREENED(run, how[...] or other, ...)
  end
end

local given = setmetatable({}, {
  __index = setmetatable({ call = through(call), pcall = through(real.pcall) }, { __index = real }),
  __newindex = function()
    error('Attempt to modify a readonly table', 2)
  end,
  __metatable = false,
})
