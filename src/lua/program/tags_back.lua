-- Tags are put back where the value is still the same. Whoever has moved the end has confirmed the lease: its generation
-- is raised, so that no take-back on its way can hit it.
for at = 1, tagged and #tagged or 0, 4 do
  local where, key, value, expiry = unpack(tagged, at, at + 3)
  if where ~= db then
    call('SELECT', where)
    db = where
  end
  if call('TYPE', key).ok == 'string' and call('GET', key) == string.sub(value, 21) then
    if call('PEXPIRETIME', key) ~= expiry then
      local high, low = string.byte(value, 19, 20)
      local generation = (high * 256 + low) % 65535 + 1
      local raised = string.char(math.floor(generation / 256), generation % 256)
      value = string.sub(value, 1, 18) .. raised .. string.sub(value, 21)
    end
    call('SET', key, value, 'KEEPTTL')
  end
end
