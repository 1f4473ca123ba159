-- What is done before a key is read or changes. Nothing is kept of it: nothing is ever put back.
-- The database of the script, that of its call, and 'ro' or not.
local db, home, mode
-- Keys of the program by database and name, as numbers, those of this database, and which of them it has written.
local databases, seen, written
-- Whether it had written before the present command.
local wrote = false
-- What is to be published: command, channel and message of each.
local messages
local popped = 0
if whole then
  db, mode, databases, written = unpack(whole)
else
  db, mode = string.format('%d', sub(here_and_mode, 1, 5)), sub(here_and_mode, 6)
  databases, written = { [db] = { [only] = 1 } }, {}
end
home, seen = db, databases[db] or {}
rest = function()
  return messages, db, home
end

-- Whether a value begins with the tag of an attempt, which the script must not see.
local function has_tag()
  return false
end

-- A command of the script begins: the one before has run.
local function begins()
  wrote = writes
end

-- The program uses a key that nobody has asked for a promise for. It ends, whatever the script does about that, and runs
-- again with the key, if it has written nothing. Else it fails there, as it does on every master.
local function stop(key)
  if not wrote then
    missing = missing or { db, key }
    error({ err = 'stopped' }, 0)
  end
  error({ err = 'undeclared ' .. key }, 0)
end

-- A key is read. Says where it is among those of the program.
local function need(key)
  if type(key) == 'number' then
    key = string.format('%.17g', key)
  elseif type(key) ~= 'string' then
    return
  end
  local at = seen[key]
  if missing or not at then
    stop(key)
  end
  return at
end

-- A key is about to change.
local function save(key)
  local at = need(key)
  if at then
    writes, is_unknown = true, true
    written[at] = true
  end
end

-- A command that reads its keys, wherever they stand.
local function reading(handle)
  return function(run, ...)
    local keys = real.pcall('COMMAND', 'GETKEYS', ...)
    for at = 1, type(keys) == 'table' and not keys.err and #keys or 0 do
      need(keys[at])
    end
    return handle(run, ...)
  end
end

-- A command that may change some of its keys, and only read others.
local function keyed(run, ...)
  local keys = real.pcall('COMMAND', 'GETKEYSANDFLAGS', ...)
  for at = 1, type(keys) == 'table' and not keys.err and #keys or 0 do
    local key, flags = unpack(keys[at])
    local only_reads = false
    for one, other in pairs(flags.set or flags) do
      local flag = type(one) == 'table' and one or other
      only_reads = only_reads or flag.ok == 'RO'
    end
    if only_reads then
      need(key)
    else
      save(key)
    end
  end
  return run(...)
end
