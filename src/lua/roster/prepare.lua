-- Promises ballot ARGV[1] ARGV[2]. A master without a stamp says nothing unless ARGV[3] is 1. KEYS: roster, mark.
local pc, pw, ac, aw, state = read_stamp(KEYS[1])
if not pc then
  return redis.error_reply('ERR the roster on this master cannot be read')
end
local mark = redis.call('GET', KEYS[2]) or ''
local counter, worker = ARGV[1], ARGV[2]
if ARGV[3] ~= '1' and redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'silent', pc, pw, ac, aw, state, mark }
elseif not is_below(pc, pw, counter, worker) then
  return { 'refused', pc, pw, ac, aw, '', mark }
end
redis.call('SET', KEYS[1], table.concat({ counter, worker, ac, aw, state }, ' '))
return { 'done', counter, worker, ac, aw, state, mark }
