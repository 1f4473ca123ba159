-- Code that runs before a key is read or changed.
-- The database of the script, that of its call, and 'ro' or not.
local db, home, mode
-- The program's keys by database and name, as numbers, those of this database, and the written ones.
local databases, seen, written
-- Lead of the time over the one that the program sees, in microseconds.
local later
-- The leases that are as they were found, by the numbers of their keys: the token without a tag, and when masters clean
-- up.
local leases
-- Whether it had written before the present command.
local wrote = false
-- Previous values of changed keys: database, key, DUMP's result, and the time of cleanup.
IMAGES
-- Messages to publish: command, channel and message of each.
local messages
local popped = 0
if whole then
  db, mode, databases, written, later, leases = unpack(whole)
else
  db, mode = string.format('%d', sub(here_and_mode, 1, 5)), sub(here_and_mode, 6, 7)
  databases, written, later = { [db] = { [only] = 1 } }, {}, 0
  leases = {}
end
home, seen = db, databases[db] or {}
rest = function()
  return messages, db, home
end

-- Whether a value begins with an attempt's tag, which the script must not see.
local function has_tag()
  return false
end

-- A command of the script begins: the previous one has run.
local function begins()
  wrote = writes
end

-- The program uses a key without a promise. It ends, whatever the script does about that, and runs again with the key.
-- All keys hold their old values: only scripts whose text can make up keys write before they come to one, and they keep
-- images.
local function stop(key)
  GIVE_BACK
  missing, direct = missing or { db, key }, false
  error({ err = 'stopped' }, 0)
end

-- Handles a question to a key. Returns its number among the program's keys, and what it answers if it is a lease as it
-- was found.
local function ask(key)
  if type(key) == 'number' then
    key = string.format('%.17g', key)
  elseif type(key) ~= 'string' then
    return
  end
  local at = seen[key]
  if missing or not at then
    stop(key)
  end
  return at, leases[at]
end

-- Handles a read of a key. Returns its number.
local function need(key)
  local at, lease = ask(key)
  if lease then
    whole[7](at)
  end
  return at
end

-- Handles a change to a key.
local function save(key)
  local at = need(key)
  if at then
    KEEP_IMAGE
    writes, is_unknown = true, true
    written[at] = true
  end
end
