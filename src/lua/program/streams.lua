-- Streams, without the clock of a master.

-- One more than a 64-bit number in decimal.
local function next_number(digits)
  local nines = #string.match(digits, '9*$')
  local head = string.sub(digits, 1, #digits - nines)
  local last = head == '' and '0' or string.sub(head, -1)
  return string.sub(head, 1, -2) .. string.char(string.byte(last) + 1) .. string.rep('0', nines)
end

-- A field of XINFO's pairs, a map in RESP3.
local function told_of(pairs_of, name)
  if pairs_of.map then
    return pairs_of.map[name]
  end
  for at = 1, #pairs_of, 2 do
    if pairs_of[at] == name then
      return pairs_of[at + 1]
    end
  end
end

-- The id that `*` stands for, by the program's time instead of the master's (`streamNextID` in `t_stream.c`). Lua's
-- numbers cannot hold 64 bits: the master itself counts on from the last id.
local LARGEST = '18446744073709551615'
local function next_id(key)
  if not is_type(key, 'stream') then
    return string.format('%.0f-0', now_ms())
  end
  local last_ms, last = string.match(told_of(call('XINFO', 'STREAM', key), 'last-generated-id'), '(%d+)-(%d+)')
  if #last_ms < 16 and tonumber(last_ms) < now_ms() then
    return string.format('%.0f-0', now_ms())
  elseif last ~= LARGEST then
    return last_ms .. '-*'
  end
  -- As in Redis, no id follows the largest.
  return last_ms == LARGEST and '*' or next_number(last_ms) .. '-0'
end

-- Position of XADD's id.
local function place_of_id(words)
  local at = 3
  while words[at] and words[at] ~= '*' do
    local option = string.upper(words[at])
    if option == 'MAXLEN' or option == 'MINID' then
      local is_sign = words[at + 1] == '~' or words[at + 1] == '='
      at = at + (is_sign and words[at + 2] and 3 or 2)
    elseif option == 'LIMIT' then
      at = at + 2
    elseif option == 'NOMKSTREAM' then
      at = at + 1
    else
      return at
    end
  end
  return at
end

-- XADD
local function xadd(run, ...)
  local words = { ... }
  save(words[2])
  local at = words[2] and place_of_id(words)
  -- Redis reads it as C does.
  if at and words[at] and (words[at] == '*' or string.sub(words[at], 1, 2) == '*\0') then
    words[at] = next_id(words[2])
    return run(unpack(words))
  end
  return run(...)
end

-- Masters record when an entry was delivered, by their own clocks, and never as a future time. Here it is the time of
-- the program, SLACK_MS earlier, so that it is past on all of them. Clients get it without that.
local function noted_at(delivered_ms)
  return string.format('%.0f', math.max(delivered_ms - SLACK_MS, 0))
end

local function clock_ms()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Pending entries as in XPENDING, but with the time of their delivery. XPENDING returns how long ago that is, so it is
-- repeated if the master's clock has moved meanwhile.
local function delivered(key, group, ...)
  local now_there, found
  repeat
    now_there = clock_ms()
    found = real.pcall('XPENDING', key, group, ...)
  until found.err or clock_ms() == now_there
  for _, entry in ipairs(found) do
    entry[3] = now_there - entry[3] + SLACK_MS
  end
  return found
end

-- All of them from `first` on, in pages, until `visit` has seen enough. Returns any error.
local PAGE = 100
local function each_delivered(key, group, first, last, consumer, visit)
  local from = first
  repeat
    local words = { from, last, PAGE, consumer }
    local page = delivered(key, group, unpack(words))
    if page.err then
      return page.err
    end
    for _, entry in ipairs(page) do
      if visit(entry) then
        return
      end
    end
    from = page[PAGE] and '(' .. page[PAGE][1]
  until not from
end

-- Whether Redis rejects the words of a command, not its key, which is replaced by a missing one.
local function is_wrong(name, _, ...)
  local reply = real.pcall(name, NOWHERE, ...)
  return type(reply) ~= 'table' or string.sub(reply.err or '', 1, 7) ~= 'NOGROUP'
end

-- XPENDING
local function pending(run, ...)
  local words = { ... }
  local key, group, at = words[2], words[3], 4
  need(key)
  if not words[4] or is_wrong(...) then
    return run(...)
  end
  local min_idle = 0
  if string.upper(words[4]) == 'IDLE' then
    min_idle, at = tonumber(words[5]), 6
  end
  local shown, most = {}, tonumber(words[at + 2])
  local why = each_delivered(key, group, words[at], words[at + 1], words[at + 3], function(entry)
    local idle = math.max(now_ms() - entry[3], 0)
    if #shown < most and idle >= min_idle then
      shown[#shown + 1] = { entry[1], entry[2], idle, entry[4] }
    end
    return #shown >= most
  end)
  return why and run(...) or shown
end

-- A number as Redis reads it, of 64 bits.
local function whole(word)
  word = type(word) == 'number' and string.format('%.17g', word) or word or ''
  local number = (word == '0' or string.find(word, '^%-?[1-9]%d*$')) and tonumber(word)
  return number and number >= -2 ^ 63 and number <= 2 ^ 63 and number or nil
end

-- XCLAIM: decides here which ids were delivered long enough ago.
local function claim(run, ...)
  local words = { ... }
  save(words[2])
  local name, key, group, consumer, min_idle = ...
  min_idle = whole(min_idle)
  if not words[6] or not min_idle then
    return run(...)
  end
  local call_of, at = { name, key, group, consumer, '0' }, 6
  while words[at] and string.find(words[at], '^%d+%-?%d*$') do
    local found = min_idle > 0 and delivered(key, group, words[at], words[at], 1) or {}
    if not found[1] or now_ms() - found[1][3] >= min_idle then
      call_of[#call_of + 1] = words[at]
    end
    at = at + 1
  end
  -- No entry has this id.
  call_of[6] = call_of[6] or '0-0'
  local delivered_ms = now_ms()
  while words[at] do
    local option = string.upper(words[at])
    local has_value = option == 'IDLE' or option == 'TIME' or option == 'RETRYCOUNT' or option == 'LASTID'
    local is_time = option == 'IDLE' or option == 'TIME'
    local ms = is_time and whole(words[at + 1])
    if has_value and not words[at + 1] or is_time and not ms then
      return run(...)
    elseif is_time then
      delivered_ms = option == 'IDLE' and now_ms() - ms or ms
    else
      call_of[#call_of + 1], call_of[#call_of + 2] = words[at], has_value and words[at + 1] or nil
    end
    at = at + (has_value and 2 or 1)
  end
  if delivered_ms < 0 or delivered_ms > now_ms() then
    delivered_ms = now_ms()
  end
  call_of[#call_of + 1], call_of[#call_of + 2] = 'TIME', noted_at(delivered_ms)
  return run(unpack(call_of))
end

-- Claims these, whose number does not matter.
local function claim_now(key, group, consumer, ids, ...)
  local claimed = {}
  for first = 1, #ids, 1000 do
    local words = { unpack(ids, first, math.min(first + 999, #ids)) }
    for _, word in ipairs({ 'TIME', noted_at(now_ms()), ... }) do
      words[#words + 1] = word
    end
    for _, entry in ipairs(call('XCLAIM', key, group, consumer, '0', unpack(words))) do
      claimed[#claimed + 1] = entry
    end
  end
  return claimed
end

-- XAUTOCLAIM, as `xautoclaimCommand` in `t_stream.c`: it checks ten times as many entries as it claims, and entries
-- deleted from the stream count.
local function claim_all(run, ...)
  local words = { ... }
  local _, key, group, consumer, min_idle, start = ...
  save(key)
  if is_wrong(...) then
    return run(...)
  end
  local count, is_just_ids, at = 100, nil, 7
  while words[at] do
    local is_count = string.upper(words[at]) == 'COUNT'
    count = is_count and tonumber(words[at + 1]) or count
    is_just_ids = is_just_ids or not is_count and 'JUSTID' or nil
    at = at + (is_count and 2 or 1)
  end
  local ids, gone, looks, cursor = {}, {}, 10 * count, '0-0'
  local why = each_delivered(key, group, start, '+', nil, function(entry)
    local id = entry[1]
    if #ids == count or looks == 0 then
      cursor = id
      return true
    end
    looks = looks - 1
    local is_there = call('XRANGE', key, id, id)[1]
    gone[#gone + 1] = not is_there and id or nil
    if not is_there or now_ms() - entry[3] >= tonumber(min_idle) then
      ids[#ids + 1] = id
    end
  end)
  if why then
    return run(...)
  end
  -- No entry has this id.
  local claimed = claim_now(key, group, consumer, ids[1] and ids or { '0-0' }, is_just_ids)
  return { cursor, claimed, gone }
end

-- The number of consumers in a group.
local function consumers_of(key, group)
  local groups = real.pcall('XINFO', 'GROUPS', key)
  for _, it in ipairs(type(groups) == 'table' and groups or {}) do
    if told_of(it, 'name') == group then
      return told_of(it, 'consumers')
    end
  end
end

-- XREADGROUP: its options precede the keys, and as many ids follow them. It changes the group, if there are entries or
-- the consumer is new.
local function write_streams(run, ...)
  local words, at, group, consumer, is_noted = { ... }, 2, nil, nil, true
  local width = { GROUP = 3, COUNT = 2, BLOCK = 2, NOACK = 1 }
  local function option()
    return string.upper(tostring(words[at]))
  end
  while width[option()] do
    if option() == 'GROUP' then
      group, consumer = words[at + 1], words[at + 2]
    end
    is_noted = is_noted and option() ~= 'NOACK'
    at = at + width[option()]
  end
  local before = {}
  if option() == 'STREAMS' then
    for key = at + 1, at + math.floor((#words - at) / 2) do
      save(words[key])
      before[words[key]] = not wrote and consumers_of(words[key], group) or 'unknown'
    end
  end
  local reply = run(...)
  if not reply and not wrote then
    writes = false
    for key, count in pairs(before) do
      writes = writes or consumers_of(key, group) ~= count
    end
  end
  local streams = type(reply) == 'table' and not reply.err and is_noted and (reply.map or reply) or {}
  for key, entries in pairs(streams) do
    if not reply.map then
      key, entries = unpack(entries)
    end
    local ids = {}
    for _, entry in ipairs(entries) do
      ids[#ids + 1] = entry[2] and entry[1] or nil
    end
    claim_now(key, group, consumer, ids, 'JUSTID')
  end
  return reply
end

-- Hash fields, and keys outside of SET and EXPIRE, for which newer masters have TTLs.
local function by_clock(run, name)
  name = string.lower(name)
  return fail(run, "ERR '" .. name .. "' is not supported by redlock-proxy, because each master would use its own clock: expire the whole key instead")
end
