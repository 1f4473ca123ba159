-- The mark, then this master's record of each register of database ARGV[1]: {} without a stamp, else the promised
-- ballot, the rest of the stamp, whether the value is gone, the lease, and the last flush. Promises nothing. KEYS: the
-- keys.
here = ARGV[1]
call('SELECT', here)
local last = string.format('%.0f', last_flush())
local shown = { call('GET', 'redlock-proxy:mark') or '' }
for at, key in ipairs(KEYS) do
  shown[at + 1] = {}
  local stamp = stored(key)
  if stamp then
    stamp = stamp_of(key, stamp)
    local is_gone, lease, promised = look(key, stamp)
    shown[at + 1] = { promised, sub(shown_as(stamp), 17), is_gone and 1 or 0, lease, last }
  end
end
return shown
