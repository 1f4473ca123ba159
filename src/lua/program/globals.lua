-- The globals of a script, as a closed list: those of Redis 7.0, and the given `redis`. A script that could find the
-- real `redis` gets these names as parameters of the function around it. No variable here is shared with the proxy's
-- code: whatever the script sets, unsets or gives a metatable is its own.
local function globals_of(redis, KEYS, ARGV)
  local globals, given = _G, 'GIVEN_NAMES'
  local own = { redis = redis, KEYS = KEYS, ARGV = ARGV }
  -- Tables whose fields can be read but not changed, and a copy of them.
  local copies = {}

  local function value_of(name)
    local value = own[name]
    if value == nil and type(name) == 'string' and string.find(' GLOBAL_NAMES ', ' ' .. name .. ' ', 1, true) then
      return rawget(globals, name)
    end
    return value
  end

  local function missing(name, level)
    local kind = type(name)
    if kind ~= 'string' and kind ~= 'number' then
      error('Second argument to luaProtectedTableError must be a string or number', level + 1)
    end
    error("Script attempted to access nonexistent global variable '" .. name .. "'", level + 1)
  end

  local function readonly()
    error('Attempt to modify a readonly table', 2)
  end

  local function sealed(fields)
    return setmetatable({}, { __index = fields, __newindex = readonly, __metatable = false })
  end

  own._G = setmetatable({}, {
    __index = function(_, name)
      local value = value_of(name)
      if value == nil then
        missing(name, 2)
      end
      return value
    end,
    __newindex = readonly,
    __metatable = sealed({
      __index = function(_, name)
        missing(name, 2)
      end,
    }),
  })
  -- All strings of a master share one metatable, which older masters let everybody change.
  local of_strings = sealed({ __index = string })

  local function copy_of(table)
    local from = table == redis and rawget(globals, 'redis') or table == own._G and globals
    if from and not copies[table] then
      local copy = {}
      local fields = table == redis and redis or own._G
      for name in next, from do
        if table == redis or value_of(name) ~= nil then
          copy[name] = fields[name]
        end
      end
      copies[table] = copy
    end
    return copies[table] or table
  end

  local function is_ours(table)
    return rawequal(table, redis) or rawequal(table, own._G) or rawequal(table, of_strings)
  end

  -- As if the script had called the real one: errors have its place and the real name.
  local function told(name, done, ...)
    if done then
      return ...
    end
    local why = tostring((...))
    local has_place = string.find(why, '^bad argument') or string.find(why, '^cannot change')
    error((string.gsub(why, "'%?'", "'" .. name .. "'")), has_place and 3 or 0)
  end
  local function instead(name, real, run)
    own[name] = function(...)
      local table = ...
      if type(table) == 'table' and is_ours(table) then
        return run(...)
      end
      return (told(name, pcall(real, ...)))
    end
  end
  local function refuse()
    error('Attempt to modify a readonly table', 0)
  end
  instead('rawset', rawset, refuse)
  instead('setmetatable', setmetatable, refuse)
  instead('rawget', rawget, function(table, name)
    return rawget(copy_of(table), name)
  end)
  function own.getmetatable(...)
    local value = ...
    if type(value) == 'string' then
      return of_strings
    elseif rawequal(value, redis) then
      return nil
    end
    return (told('getmetatable', pcall(getmetatable, ...)))
  end
  function own.next(table, ...)
    if type(table) == 'table' and is_ours(table) then
      table = copy_of(table)
    end
    return told('next', pcall(next, table, ...))
  end
  function own.pairs(...)
    local table = ...
    if type(table) ~= 'table' or not is_ours(table) then
      return told('pairs', pcall(pairs, ...))
    end
    return next, copy_of(table), nil
  end

  local values, count = {}, 0
  local function all()
    return unpack(values, 1, count)
  end

  local compile, compile_pieces = loadstring, load
  local function enclosed(text, name)
    for word in string.gmatch(text, '[%a_][%w_]*') do
      local is_given = string.find(',' .. given .. ',', ',' .. word .. ',', 1, true)
      if not is_given and value_of(word) == nil and rawget(globals, word) ~= nil then
        missing(word, 3)
      end
    end
    -- As in `opening`.
    local arguments = string.find(text, '...', 1, true) and '...' or ''
    local opening = 'local ' .. given .. '=... return function(' .. arguments .. ') '
    local chunk, why = compile(opening .. text .. '\nend', name)
    if not chunk then
      return nil, why
    end
    return chunk(all())
  end

  local function expect(name, at, wanted, is_right, ...)
    if not is_right then
      local got = select('#', ...) < at and 'no value' or type((select(at, ...)))
      error('bad argument #' .. at .. " to '" .. name .. "' (" .. wanted .. ' expected, got ' .. got .. ')', 3)
    end
  end
  local function is_text(value)
    return type(value) == 'string' or type(value) == 'number'
  end

  -- A text must be Lua by itself: it cannot end the function around it.
  function own.loadstring(...)
    local text, name = ...
    expect('loadstring', 1, 'string', is_text(text), ...)
    expect('loadstring', 2, 'string', name == nil or is_text(name), ...)
    local chunk, why = compile(text, name or text)
    if not chunk then
      return nil, why
    end
    return enclosed(text, name or text)
  end

  function own.load(...)
    local pieces, name = ...
    expect('load', 1, 'function', type(pieces) == 'function', ...)
    expect('load', 2, 'string', name == nil or is_text(name), ...)
    local text = {}
    -- Errors raised by the pieces are values here, which must not reach the script's error handlers.
    local _, chunk, why = pcall(compile_pieces, function()
      local piece = pieces()
      if is_text(piece) then
        text[#text + 1] = piece
      end
      return piece
    end, name or '=(load)')
    if not chunk then
      return nil, why
    end
    return enclosed(table.concat(text), name or '=(load)')
  end

  -- Valkey calls it `server` as well. Lua's whole `os` is not for scripts.
  own.server = rawget(globals, 'server') and redis
  local os = rawget(globals, 'os')
  own.os = os and { clock = os.clock }
  for name in string.gmatch(given, '[^,]+') do
    count = count + 1
    values[count] = own[name]
  end
  return all()
end
