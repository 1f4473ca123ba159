-- The `redis` of a script whose user is restricted: before it calls the real one, it checks the user's permission
-- (`scriptVerifyACL` in Redis's `script.c`). The rules are strings and Lua patterns made by the proxy; nil is
-- unlimited.
local function guarded(inner)
  local allowed, containers = ALLOWED_COMMANDS, CONTAINERS
  local keys, channels = ALLOWED_KEYS, ALLOWED_CHANNELS

  local cannot_access =
    "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"

  local function is_among(word, list)
    return string.find(list, ' ' .. word .. ' ', 1, true)
  end

  local function is_like(word, patterns)
    for _, pattern in ipairs(patterns) do
      if string.find(word, pattern) then
        return true
      end
    end
    return false
  end

  -- The name in the catalogue, where subcommands follow a bar.
  local function full_name(...)
    local name, word = ...
    name = string.lower(name)
    if select('#', ...) > 1 and is_among(name, containers) then
      name = name .. '|' .. (type(word) == 'string' and string.lower(word) or '')
    end
    return name
  end

  -- Redis decides which words are keys. If it finds none, it touches none.
  WITHOUT_KEYS
  -- Keys that Redis writes to without having found them: the last of several STORE and STOREDIST, also after a key
  -- named like another option, and that of a PFMERGE without sources.
  local first_option = { sort = 3, georadius = 7, georadiusbymember = 6 }
  local with_value = { STORE = true, STOREDIST = true, COUNT = true, BY = true, GET = true }
  local function overlooked(name, ...)
    local words, named = { ... }, {}
    if name == 'pfmerge' then
      return { words[2] }
    end
    local at = first_option[name]
    while at and at < #words do
      local option = string.upper(tostring(words[at]))
      if option == 'STORE' or option == 'STOREDIST' then
        named[#named + 1] = words[at + 1]
      end
      at = at + (name == 'sort' and option == 'LIMIT' and 3 or with_value[option] and 2 or 1)
    end
    return named
  end

  local function may_touch(name, ...)
    if select('#', ...) == 1 then
      return true
    end
    local named = inner.pcall('COMMAND', 'GETKEYS', ...)
    if type(named) ~= 'table' or named.err and not without_keys[named.err] then
      return false
    end
    for _, list in ipairs({ named, overlooked(name, ...) }) do
      for _, key in ipairs(list) do
        if not is_like(type(key) == 'number' and string.format('%.17g', key) or tostring(key), keys) then
          return false
        end
      end
    end
    return true
  end

  -- A number has two spellings: Redis's, and that of the shim, which holds messages back.
  local function may_publish(channel)
    if type(channel) == 'number' then
      return is_like(channel .. '', channels) and is_like(string.format('%.17g', channel), channels)
    end
    return type(channel) ~= 'string' or is_like(channel, channels)
  end

  -- SORT reads keys that are not among its words (`sortCommandGeneric`). Redis stops looking at a word that is no
  -- option.
  local sort_options = { ASC = 1, DESC = 1, ALPHA = 1, BY = 2, STORE = 2, LIMIT = 3 }
  local function is_whole(number)
    number = type(number) == 'number' and string.format('%.17g', number) or number
    return type(number) == 'string' and string.find(number, '^%-?%d+$')
  end
  local function refused_sort(...)
    local words, at = { ... }, 3
    while words[at + 1] do
      local kind = type(words[at])
      local option = (kind == 'string' or kind == 'number') and string.upper(words[at]) or ''
      if option == 'GET' or option == 'BY' and string.find(tostring(words[at + 1]), '*', 1, true) then
        return 'ERR ' .. option .. ' option of SORT denied due to insufficient ACL permissions.'
      end
      local is_limit = option == 'LIMIT'
      if not sort_options[option] or is_limit and not (is_whole(words[at + 1]) and is_whole(words[at + 2])) then
        return
      end
      at = at + sort_options[option]
    end
  end

  -- The error for the user, if any.
  local function refusal(name, ...)
    if allowed and not is_among(name, allowed) then
      return "ERR The user executing the script can't run this command or subcommand"
    end
    if keys and not may_touch(name, ...) then
      return cannot_access
    end
    if channels and (name == 'publish' or name == 'spublish') and not may_publish((select(2, ...))) then
      return "ERR The user executing the script can't publish to the channel mentioned in the command"
    end
    if keys and (name == 'sort' or name == 'sort_ro') then
      return refused_sort(...)
    end
  end

  -- Whether Redis has its own error for this command, which precedes the one for a user.
  local function is_refused_anyway(name, ...)
    for at = 1, select('#', ...) do
      local kind = type((select(at, ...)))
      if kind ~= 'string' and kind ~= 'number' then
        return true
      end
    end
    local known = inner.pcall('COMMAND', 'INFO', name)
    if type(known) ~= 'table' or known.err then
      return false
    end
    local info = known[1]
    if not info then
      return true
    end
    local words, arity = select('#', ...), info[2]
    if arity > 0 and words ~= arity or words < -arity then
      return true
    end
    -- RESP3 has a set of them, RESP2 a list.
    for at, flag in pairs(info[3].set or info[3]) do
      flag = info[3].set and at or flag
      if flag.ok == 'noscript' then
        return true
      end
    end
    return false
  end

  local function through(run, raises)
    return function(...)
      if type((...)) ~= 'string' then
        return run(...)
      end
      local name = full_name(...)
      local why = refusal(name, ...)
      if not why or is_refused_anyway(name, ...) then
        return run(...)
      end
      -- As Redis builds an error that it finds before a call.
      local refused = { err = why }
      refused.ignore_error_stats_update = true
      if raises then
        error(refused, 0)
      end
      return refused
    end
  end

  local own = { call = through(inner.call, true), pcall = through(inner.pcall) }
  function own.acl_check_cmd(...)
    return inner.acl_check_cmd(...) and not refusal(full_name(...), ...)
  end
  return setmetatable({}, {
    __index = setmetatable(own, { __index = inner }),
    __newindex = function()
      error('Attempt to modify a readonly table', 2)
    end,
    __metatable = false,
  })
end
