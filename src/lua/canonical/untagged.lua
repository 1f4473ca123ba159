-- Runs a command that reads strings, while its keys show their tokens only.
redis.setresp(3)
local raw = {}
for _, key in ipairs(KEYS) do
  local value = not raw[key] and redis.call('TYPE', key).ok == 'string' and redis.call('GET', key)
  if value and tag_of(value) ~= '' then
    raw[key] = value
    redis.call('SET', key, token_of(value), 'KEEPTTL')
  end
end
local reply = redis.pcall(unpack(ARGV))
for key, value in pairs(raw) do
  redis.call('SET', key, value, 'KEEPTTL')
end
return reply
