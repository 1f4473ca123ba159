-- What this master holds under each key of database ARGV[1], behind its mark: {} for nothing, else how it is told ('t'
-- text of at most ARGV[2] bytes, 'l' digest of a longer text, 'o' digest of anything else), what it is, and the
-- remaining time to live. KEYS[1]: the mark.
redis.call('SELECT', ARGV[1])
local page = { redis.call('GET', KEYS[1]) or '' }
for at = 2, #KEYS do
  local key = KEYS[at]
  local kind = redis.call('TYPE', key).ok
  local ttl = redis.call('PTTL', key)
  if kind == 'none' then
    page[at] = {}
  else
    local text = kind == 'string' and redis.call('GET', key)
    if text and #text <= tonumber(ARGV[2]) then
      page[at] = { 't', text, ttl }
    else
      page[at] = { text and 'l' or 'o', digest(key), ttl }
    end
  end
end
return page
