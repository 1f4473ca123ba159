-- What the proxies keep on the masters is not there for scripts, also where no call names it.

local function is_hidden(name)
  return string.sub(name, 1, PREFIX_BYTES) == RESERVED_PREFIX
end

-- KEYS and SCAN
local function names_of_keys(run, ...)
  local reply = run(...)
  if type(reply) ~= 'table' or reply.err then
    return reply
  end
  local names, kept = type(reply[2]) == 'table' and reply[2] or reply, 0
  for at = 1, #names do
    local name = names[at]
    names[at] = nil
    if not is_hidden(name) then
      kept = kept + 1
      names[kept] = name
    end
  end
  if names == reply then
    table.sort(names)
  end
  return reply
end

local function number_of_hidden()
  return call('EXISTS', OWN_KEYS)
end

-- DBSIZE
local function number_of_keys(run, ...)
  local reply = run(...)
  return type(reply) == 'number' and reply - number_of_hidden() or reply
end

-- The first key that is not hidden, or nil as Redis has it: nobody can have a key with the name of the prefix alone.
local function any_key()
  local cursor = '0'
  repeat
    local page = call('SCAN', cursor, 'COUNT', 1000)
    for _, name in ipairs(page[2]) do
      if not is_hidden(name) then
        return name
      end
    end
    cursor = page[1]
  until cursor == '0'
  return call('GET', RESERVED_PREFIX)
end

-- RANDOMKEY: of a few keys, most may be hidden.
local function random_key(run, ...)
  for _ = 1, 8 do
    local name = run(...)
    if type(name) ~= 'string' or not is_hidden(name) then
      return name
    end
  end
  return any_key()
end

-- INFO tells how many keys each database has. In RESP3 it is more than a string.
local function keyspace_info(run, ...)
  local reply = run(...)
  local verbatim = type(reply) == 'table' and reply.verbatim_string
  local text = verbatim and verbatim.string or reply
  if type(text) ~= 'string' then
    return reply
  end
  text = string.gsub(text, '(db(%d+):keys=)(%d+)(,[^\n]*\n)', function(head, number, keys, tail)
    call('SELECT', number)
    keys = keys - number_of_hidden()
    return keys > 0 and head .. keys .. tail or ''
  end)
  call('SELECT', db)
  if verbatim then
    verbatim.string = text
    return reply
  end
  return text
end

-- SORT looks up keys of which its words have the pattern only.
local function looking_up(handle)
  return function(run, ...)
    if completes_reserved(RESERVED_PREFIX, real.pcall, { ... }) then
      return fail(run, RESERVED_NAME)
    end
    return handle(run, ...)
  end
end
