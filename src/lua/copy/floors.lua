-- Does the flushes that the others have done, and raises the floors to theirs, before anything they have dropped can
-- arrive late. ARGV: per database the provisional mark, the floor, and the last flush. KEYS[1]: the mark. Returns -1
-- and changes nothing if the mark differs.
for at = 1, #ARGV, 3 do
  call('SELECT', (at - 1) / 3)
  if string.match(call('GET', KEYS[1]) or '', '^([^;]*;)%d+ %d+$') ~= ARGV[at] then
    return -1
  end
end
for at = 1, #ARGV, 3 do
  call('SELECT', (at - 1) / 3)
  flush(tonumber(ARGV[at + 2]), 'ASYNC')
  local head, floor, last = string.match(call('GET', KEYS[1]), '^([^;]*;)(%d+) (%d+)$')
  floor = math.max(tonumber(floor), tonumber(ARGV[at + 1]))
  call('SET', KEYS[1], head .. string.format('%.0f ', floor) .. last)
end
return 1
