-- Stores state ARGV[8] under ballot ARGV[2] ARGV[3], and promises ARGV[4] ARGV[5]. KEYS: roster, mark. ARGV[1]:
-- 'adopt': unless a higher ballot was promised; 'apply': and only on the state accepted under ARGV[6] ARGV[7];
-- 'catch up': if it is newer, whatever was promised; or if the master holds a lower version than its mark proves, which
-- was given up when the roster was begun anew. ARGV[9] ARGV[10]: cluster and version of the state. A master that has the
-- mark of another cluster says nothing and keeps what it has.
local pc, pw, ac, aw, state = read_stamp(KEYS[1])
if not pc then
  return redis.error_reply('ERR the roster on this master cannot be read')
end
local mark = redis.call('GET', KEYS[2]) or ''
local theirs = string.match(mark, '^(%S+) ')
if theirs and theirs ~= '?' and theirs ~= ARGV[9] then
  return { 'silent', pc, pw, ac, aw, '', mark }
end
local how, counter, worker, next_counter, next_worker = unpack(ARGV, 1, 5)
local may
if how == 'catch up' then
  local held = tonumber(string.match(state, '"version":(%d+)') or '0')
  local proved = tonumber(string.match(mark, '^%S+ (%d+) ') or '0')
  may = is_below(ac, aw, counter, worker) or (held < proved and held < tonumber(ARGV[10]))
  if is_below(next_counter, next_worker, pc, pw) then
    next_counter, next_worker = pc, pw
  end
else
  may = not is_below(counter, worker, pc, pw)
end
if how == 'apply' then
  may = may and tonumber(ac) == tonumber(ARGV[6]) and tonumber(aw) == tonumber(ARGV[7])
end
if not may then
  return { 'refused', pc, pw, ac, aw, '', mark }
end
local stamp = { next_counter, next_worker, counter, worker, ARGV[8] }
redis.call('SET', KEYS[1], table.concat(stamp, ' '))
return { 'done', next_counter, next_worker, counter, worker, '', mark }
