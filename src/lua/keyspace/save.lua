-- A key is about to change. Nothing is kept of it: nothing is ever put back.
local databases = databases

-- The program uses a key that nobody has asked for a promise for. It ends, whatever the script does about that, and runs
-- again with the key, if it has written nothing.
local function stop(key)
  if not wrote then
    missing = missing or { db, key }
    error({ err = 'stopped' }, 0)
  end
  error({ err = "ERR the script has come to the key '" .. key .. "' after it has written: declare it in KEYS" }, 0)
end

local function save(key)
  if type(key) == 'number' then
    key = string.format('%.17g', key)
  elseif type(key) ~= 'string' then
    return
  end
  local at = seen[key]
  if missing or not at then
    stop(key)
  end
  wrote = true
  written[at] = true
end
