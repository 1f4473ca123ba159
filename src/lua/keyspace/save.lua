-- What is done before a key is read or changes.
-- The database of the script, that of its call, and 'ro' or not.
local db, home, mode
-- Keys of the program by database and name, as numbers, those of this database, and which of them it has written.
local databases, seen, written
-- By how much the time is later, in microseconds, than the one that the program is told.
local later
-- Whether it had written before the present command.
local wrote = false
-- What keys held that the program has changed: database, key, what DUMP gave, and when masters clean up.
IMAGES
-- What is to be published: command, channel and message of each.
local messages
local popped = 0
if whole then
  db, mode, databases, written, later = unpack(whole)
else
  db, mode = string.format('%d', sub(here_and_mode, 1, 5)), sub(here_and_mode, 6, 7)
  databases, written, later = { [db] = { [only] = 1 } }, {}, 0
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
-- again with the key. All keys hold what they held: only scripts whose text can make up keys write before they come to one,
-- and they keep images.
local function stop(key)
  GIVE_BACK
  missing, direct = missing or { db, key }, false
  error({ err = 'stopped' }, 0)
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
    KEEP_IMAGE
    writes, is_unknown = true, true
    written[at] = true
  end
end
