-- The `redis` that the script sees.
local function through(run)
  return function(...)
    return (how[...] or other)(run, ...)
  end
end

-- Empty, so that whatever is assigned to it is noticed.
redis = setmetatable({}, {
  __index = setmetatable({ call = through(call), pcall = through(real.pcall) }, { __index = real }),
  __newindex = function()
    error('Attempt to modify a readonly table', 2)
  end,
})
