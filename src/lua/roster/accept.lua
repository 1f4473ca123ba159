-- Stores state ARGV[5] under ballot ARGV[2], and promises ARGV[3]. KEYS: roster, mark. ARGV[1]: 'adopt': unless a
-- higher ballot was promised; 'apply': and only on the state accepted under ARGV[4]; 'catch up': if it is newer,
-- whatever was promised. ARGV[6]: the state's cluster. A master with another cluster's mark stays silent and keeps its
-- state.
local promised, accepted = read_stamp(KEYS[1])
if not promised then
  return redis.error_reply('ERR the roster on this master cannot be read')
end
local mark = redis.call('GET', KEYS[2]) or ''
local how, ballot, next_ballot, expected, state, cluster = unpack(ARGV)
local theirs = string.match(mark, '^(%S+) ')
if theirs and theirs ~= '?' and theirs ~= cluster then
  return { 'silent', promised, accepted, '', mark }
end
local may
if how == 'catch up' then
  may = is_below(accepted, ballot)
  if is_below(next_ballot, promised) then
    next_ballot = promised
  end
else
  may = not is_below(ballot, promised)
end
if how == 'apply' then
  may = may and accepted == expected
end
if not may then
  return { 'refused', promised, accepted, '', mark }
end
redis.call('SET', KEYS[1], table.concat({ next_ballot, ballot, state }, ' '))
return { 'done', next_ballot, ballot, '', mark }
