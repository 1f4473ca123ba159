-- The mark, then this master's value under each key of database ARGV[1]: {} for none, else its form ('t' text of at
-- most ARGV[2] bytes, 'l' digest of a longer text, 'o' digest of any other type), itself, and the remaining TTL. {'r'}:
-- there is a stamp, so this says nothing about the key; if ARGV[3] is 1, the value next to the stamp is returned.
-- KEYS[1]: the mark.
here = ARGV[1]
call('SELECT', here)
local page = { call('GET', KEYS[1]) or '' }
for at = 2, #KEYS do
  local key = KEYS[at]
  local kind = call('TYPE', key).ok
  local ttl = call('PTTL', key)
  local stamp = stored(key)
  if stamp and ARGV[3] ~= '1' then
    page[at] = { 'r' }
  elseif kind == 'none' or stamp and not select(2, look(key, stamp)) then
    page[at] = {}
  else
    local text = kind == 'string' and call('GET', key)
    if text and #text <= tonumber(ARGV[2]) then
      page[at] = { 't', text, ttl }
    else
      page[at] = { text and 'l' or 'o', digest(key), ttl }
    end
  end
end
return page
