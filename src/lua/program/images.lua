-- What is kept of a key before it changes.
seen = seen or {}

local function save(key, keeps_value)
  if type(key) == 'number' then
    key = string.format('%.17g', key)
  elseif type(key) ~= 'string' then
    return
  end
  -- There is room for one key, as locks have no more.
  before = before or { nil, nil, nil, nil, nil }
  local at = seen[key]
  if not at then
    at = #before
    seen[key] = at
    local expiry = call('PEXPIRETIME', key)
    before[at + 1], before[at + 2] = db, key
    local dump = expiry ~= -2 and call('DUMP', key)
    before[at + 3], before[at + 4], before[at + 5] = dump, expiry, true
    -- A string, of which the marker is near the beginning.
    if dump and mode ~= 'ro' and string.byte(dump) == 0 and string.find(string.sub(dump, 1, 16), '\255RL\1', 1, true) then
      local value = call('GET', key)
      if has_tag(value) then
        take_tag(key, value, expiry)
      end
    end
  end
  before[at + 5] = before[at + 5] and keeps_value or false
end

-- A command of the script begins.
local function begins() end

-- What `seen` is of other databases.
local databases = {}
