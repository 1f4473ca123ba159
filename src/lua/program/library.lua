-- The `redis` of a library (`function_lua.c`), and the program made of its text: it registers its functions, and then
-- calls the one of this name. Without a name the program returns the registered ones. The library sees nothing of this.
local function of_library(inner, wanted)
  local is_loading, functions, names, callback = true, {}, {}, nil
  local known_flags = ' allow-cross-slot-keys allow-oom allow-stale no-cluster no-writes '

  local function refuse(why)
    error({ err = 'ERR ' .. why }, 0)
  end

  local function text_of(value, why)
    local kind = type(value)
    if kind ~= 'string' and kind ~= 'number' then
      refuse(why)
    end
    return value .. ''
  end

  local function flags_of(given)
    if type(given) ~= 'table' then
      refuse('flags argument to redis.register_function must be a table representing function flags')
    end
    local flags, at = {}, 1
    while given[at] ~= nil do
      local flag = given[at]
      if type(flag) ~= 'string' or not string.find(known_flags, ' ' .. flag .. ' ', 1, true) then
        refuse('unknown flag given')
      end
      flags[at] = flag
      at = at + 1
    end
    return flags
  end

  local function named(arguments)
    local name, run, description, flags = nil, nil, nil, {}
    for key, value in pairs(arguments) do
      key = text_of(key, 'named argument key given to redis.register_function is not a string')
      if key == 'function_name' then
        name = text_of(value, 'function_name argument given to redis.register_function must be a string')
      elseif key == 'description' then
        description = text_of(value, 'description argument given to redis.register_function must be a string')
      elseif key == 'callback' then
        if type(value) ~= 'function' then
          refuse('callback argument given to redis.register_function must be a function')
        end
        run = value
      elseif key == 'flags' then
        flags = flags_of(value)
      else
        refuse('unknown argument given to redis.register_function')
      end
    end
    if not name then
      refuse('redis.register_function must get a function name argument')
    elseif not run then
      refuse('redis.register_function must get a callback argument')
    end
    return name, run, description, flags
  end

  local function register(...)
    local count, first, second = select('#', ...), ...
    if not is_loading then
      refuse('redis.register_function can only be called on FUNCTION LOAD command')
    elseif count < 1 or count > 2 then
      refuse('wrong number of arguments to redis.register_function')
    elseif count == 1 and type(first) ~= 'table' then
      refuse('calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).')
    end
    local name, run, description, flags
    if count == 1 then
      name, run, description, flags = named(first)
    else
      name, run, flags = text_of(first, 'first argument to redis.register_function must be a string'), second, {}
      if type(run) ~= 'function' then
        refuse('second argument to redis.register_function must be a function')
      end
    end
    if not string.find(name, '^[%w_]+$') then
      refuse('Library names can only contain letters, numbers, or underscores(_) and must be at least one character long')
    elseif names[name] then
      refuse('Function already exists in the library')
    end
    names[name] = true
    functions[#functions + 1] = { name, description and '1' or '0', description or '', unpack(flags) }
    if name == wanted then
      callback = run
    end
  end

  local at_load = { register_function = register, log = inner.log }
  local constants = { 'LOG_DEBUG', 'LOG_VERBOSE', 'LOG_NOTICE', 'LOG_WARNING', 'REDIS_VERSION', 'REDIS_VERSION_NUM' }
  for _, name in ipairs(constants) do
    at_load[name] = inner[name]
  end
  local of_scripts = { breakpoint = true, debug = true, replicate_commands = true }

  local given = setmetatable({}, {
    __index = function(_, name)
      if not is_loading then
        return not of_scripts[name] and inner[name] or nil
      elseif at_load[name] == nil then
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
      end
      return at_load[name]
    end,
    __newindex = function()
      error('Attempt to modify a readonly table', 2)
    end,
    __metatable = false,
  })

  local function called(body, keys, argv)
    return function()
      body()
      is_loading = false
      if not callback then
        error({ err = 'ERR Function not found' }, 0)
      end
      return (callback(keys, argv))
    end
  end

  -- Redis's `pcall` would turn a table into text.
  local function told(raised)
    local text = type(raised) == 'table' and raised.err or 'ERR ' .. tostring(raised)
    return (string.gsub(tostring(text), 'user_script:(%d+):', 'user_function:%1:'))
  end

  local function registered(body)
    return function()
      local done, why = xpcall(body, told)
      if not done then
        return { err = 'ERR Error registering functions: ' .. why }
      elseif not functions[1] then
        return { err = 'ERR No functions registered' }
      end
      return functions
    end
  end

  return given, wanted and called or registered
end
