-- A lease that is among the keys shows its token while the script runs, and no tag.
for _, key in ipairs(mode == 'ro' and {} or KEYS) do
  if call('TYPE', key).ok == 'string' and call('GETRANGE', key, 0, 3) == '\255RL\1' then
    local value, expiry = call('GET', key), call('PEXPIRETIME', key)
    if has_tag(value) then
      before, seen = before or {}, seen or {}
      local at = #before
      seen[key] = at
      before[at + 1], before[at + 2], before[at + 3] = db, key, call('DUMP', key)
      before[at + 4], before[at + 5] = expiry, false
      take_tag(key, value, expiry)
    end
  end
end
