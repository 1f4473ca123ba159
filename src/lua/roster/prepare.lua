-- Promises ballot ARGV[1]. A master without a stamp stays silent unless ARGV[2] is 1. KEYS: roster, mark.
local promised, accepted, state = read_stamp(KEYS[1])
if not promised then
  return redis.error_reply('ERR the roster on this master cannot be read')
end
local mark = redis.call('GET', KEYS[2]) or ''
local ballot = ARGV[1]
if ARGV[2] ~= '1' and redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'silent', promised, accepted, state, mark }
elseif not is_below(promised, ballot) then
  return { 'refused', promised, accepted, '', mark }
end
redis.call('SET', KEYS[1], table.concat({ ballot, accepted, state }, ' '))
return { 'done', ballot, accepted, state, mark }
