-- The stamp of the roster: promised ballot, accepted ballot, state. A ballot is a counter and a worker, compared as
-- numbers: the order of strings follows the locale.
local function read_stamp(key)
  local text = redis.call('GET', key)
  if not text then
    return '0', '0', '0', '0', ''
  end
  return string.match(text, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
end

local function is_below(counter, worker, other_counter, other_worker)
  counter, other_counter = tonumber(counter), tonumber(other_counter)
  if counter ~= other_counter then
    return counter < other_counter
  end
  return tonumber(worker) < tonumber(other_worker)
end
