for at = 1, wrote and #images or 0 do
  local where, changed, held, clean = unpack(images[at])
  call('SELECT', where)
  if held then
    call('RESTORE', changed, math.max(clean, 0), held, 'REPLACE', 'ABSTTL')
  else
    call('DEL', changed)
  end
end
if wrote then
  call('SELECT', db)
  writes, wrote, messages = false, false, nil
end
