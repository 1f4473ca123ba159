-- The mark, then DUMP of each register of database ARGV[1] that this master accepted under this ballot. KEYS: the keys;
-- ARGV from the third on: the ballots. At most about ARGV[2] bytes at a time: 1 means ask again, 0 that this master
-- does not have it.
here = ARGV[1]
call('SELECT', here)
local held, length = { call('GET', 'redlock-proxy:mark') or '' }, 0
for at, key in ipairs(KEYS) do
  held[at + 1] = 0
  local stamp = stored(key)
  if stamp and sub(stamp, 17, 32) == ARGV[at + 2] then
    local is_gone, lease = look(key, stamp)
    if not is_gone and not lease then
      local dump = length < tonumber(ARGV[2]) and call('DUMP', key)
      held[at + 1] = dump or 1
      length = length + (dump and #dump or 0)
    end
  end
end
return held
