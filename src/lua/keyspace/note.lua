-- The keys that the present call may change, and how they were before. In one local, as a program has room for 200.
local telling = (function()
  local telling = { keys = {}, by = {}, words = {}, tells_calls = TELLS_CALLS }
  local function count_consumers(key, words)
    local group = words[2] == key and words[3] or words[4]
    local command = string.lower(words[1])
    if command == 'xgroup' then
      group = words[4]
    elseif command == 'xreadgroup' then
      group = words[3]
    end
    local found = real.pcall('XINFO', 'CONSUMERS', key, group)
    return type(found) == 'table' and not found.err and #found or -1
  end

  -- The scores of the members that ZADD, ZINCRBY or GEOADD name.
  local function scores(key, words)
    local command, at = string.lower(words[1]), 3
    local width = command == 'geoadd' and 3 or 2
    while command ~= 'zincrby' and string.find(' NX XX GT LT CH INCR ', ' ' .. string.upper(words[at] or '?') .. ' ', 1, true) do
      at = at + 1
    end
    local members = {}
    for member = at + width - 1, #words, width do
      local score = real.pcall('ZSCORE', key, words[member])
      score = type(score) == 'table' and score.double or score
      members[#members + 1] = type(score) == 'number' and string.format('%.17g', score) or tostring(score)
    end
    return table.concat(members, ' ')
  end

  -- What is needed of a key's value to see whether it has changed.
  local before_of = {
    bitfield = function(key)
      return real.pcall('GET', key)
    end,
    getex = function(key)
      return call('PTTL', key) >= 0
    end,
    smove = function(key, words)
      return real.pcall('SISMEMBER', key, words[4]) == 1
    end,
    xadd = function(key)
      return real.pcall('XLEN', key)
    end,
    xclaim = count_consumers,
    zadd = scores,
  }
  before_of.setbit, before_of.zincrby, before_of.geoadd = before_of.bitfield, scores, scores
  before_of.xautoclaim, before_of.xreadgroup, before_of.xgroup = count_consumers, count_consumers, count_consumers
  telling.note = function(key)
    local find = before_of[string.lower(telling.words[1])]
    key = type(key) == 'number' and string.format('%.17g', key) or key
    local name = db .. ' ' .. key
    telling.by[name] = telling.by[name]
      or { key = key, db = db, was_there = call('EXISTS', key) == 1, before = find and find(key, telling.words) }
    telling.keys[#telling.keys + 1] = telling.by[name]
  end
  telling.count_consumers, telling.scores = count_consumers, scores
  return telling
end)()
