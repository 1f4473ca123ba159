if not written[at] then
  images[#images + 1] = { db, key, call('DUMP', key), call('PEXPIRETIME', key) }
end
