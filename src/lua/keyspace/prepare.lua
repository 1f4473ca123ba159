-- Promises ballot ARGV[1] for all keys, and returns for each its stamp, whether its value is gone, its lease, and the
-- last flush. KEYS: the keys; ARGV from the third on: each key's database, and a flush to do first if this master
-- missed it. ARGV[2]: the selected database.
local ballot = ARGV[1]
here = ARGV[2]
if not is_in() then
  return { 'refused', NONE }
end
for at = 1, #KEYS do
  if ARGV[2 * at + 2] ~= '0' then
    choose(ARGV[2 * at + 1])
    flush(tonumber(ARGV[2 * at + 2]), 'ASYNC')
  end
end
local stamps, shown, highest, latest = {}, { 'promised' }, NONE, nil
for at, key in ipairs(KEYS) do
  choose(ARGV[2 * at + 1])
  local stamp = stamp_of(key)
  local is_gone, lease, promised = look(key, stamp)
  stamps[at] = sub(stamp, 17)
  latest = latest_of(stamp, ballot, latest)
  shown[at + 1] = { sub(shown_as(stamp), 17), is_gone and 1 or 0, lease, string.format('%.0f', last_flush()) }
  if is_below(highest, promised) then
    highest = promised
  end
end
if latest or not is_below(highest, ballot) then
  return refused(highest, latest)
end
for at, key in ipairs(KEYS) do
  choose(ARGV[2 * at + 1])
  local promised = ballot .. stamps[at]
  if redis.pcall('SET', companion(key), promised).err then
    -- A master that is out of memory must promise as well, or nothing could be read or deleted there. It refuses
    -- commands that need memory only until the script has written.
    call('DEL', 'redlock-proxy:none')
    call('SET', companion(key), promised)
  end
end
return shown
