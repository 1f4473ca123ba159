-- Random choices: each master would draw differently. So they are drawn here, with the same dice on all masters, from
-- elements in the same order.

-- A key that cannot exist: calls are tried on it, to let Redis refuse their words without any change.
local NOWHERE = RESERVED_PREFIX

-- An integer from 1 to `count`, by the generator of Park and Miller, whose steps are all exact in a double. Its first
-- steps separate the seeds of programs one microsecond apart. A restarted program draws the same.
local dice
local function draw(count)
  local steps = 1
  if not dice then
    dice, steps = (now - later) % 2147483646 + 1, 5
  end
  for _ = 1, steps do
    dice = dice * 48271 % 2147483647
  end
  local drawn = dice / 2147483647 * count
  return drawn - drawn % 1 + 1
end

-- Whether this master compares strings by bytes: Lua's order follows the locale.
local is_of_bytes
local function orders_bytes()
  if is_of_bytes == nil then
    is_of_bytes = true
    for byte = 1, 254 do
      is_of_bytes = is_of_bytes and string.char(byte) < string.char(byte + 1)
    end
  end
  return is_of_bytes
end

local function is_before(one, other)
  local shorter = math.min(#one, #other)
  for at = 1, shorter do
    local byte, others = string.byte(one, at), string.byte(other, at)
    if byte ~= others then
      return byte < others
    end
  end
  return #one < #other
end

-- Sorts by bytes, which is the same on all masters.
local function in_order(words)
  if words[2] then
    table.sort(words, not orders_bytes() and is_before or nil)
  end
  return words
end

-- `count` of these elements, where `at` returns the one at a place: each at most once, or, below 0, with repeats.
local function drawn_of(size, count, at)
  local drawn, moved = {}, {}
  for place = 1, count < 0 and -count or math.min(count, size) do
    local from = count < 0 and draw(size) or place - 1 + draw(size - place + 1)
    drawn[place] = at(moved[from] or from)
    moved[from] = count > 0 and (moved[place] or place) or nil
  end
  return drawn
end

-- Each master has its own order for sets and hashes that are not small.
local function elements(command, key)
  local held, words = call(command, key), {}
  for one, other in pairs(held.set or held) do
    words[#words + 1] = held.set and one or other
  end
  return in_order(words)
end

local function is_type(key, kind)
  return (type(key) == 'string' or type(key) == 'number') and call('TYPE', key).ok == kind
end

-- Whether Redis refuses its words. `call` raises the error here.
local function tried(run, name, _, ...)
  local reply = run(name, NOWHERE, ...)
  return reply, type(reply) == 'table' and reply.err
end

-- SPOP
local function spop(run, ...)
  local name, key, count = ...
  save(key)
  if not is_type(key, 'set') then
    return run(...)
  end
  local reply, is_refused = tried(run, ...)
  if is_refused then
    return reply
  end
  local members = elements('SMEMBERS', key)
  local popped = drawn_of(#members, count and tonumber(count) or 1, function(at)
    return members[at]
  end)
  for first = 1, #popped, 1000 do
    call('SREM', key, unpack(popped, first, math.min(first + 999, #popped)))
  end
  if not count then
    return popped[1]
  elseif not reply.set then
    return popped
  end
  for _, member in ipairs(popped) do
    reply.set[member] = true
  end
  return reply
end

-- Whether replies are in RESP3, where null is not false.
local function is_resp3()
  return call('GET', NOWHERE) == nil
end

-- SRANDMEMBER, HRANDFIELD and ZRANDMEMBER on a key of this type. `list` returns the number of elements, and a function
-- that returns the one at a place, with what belongs to it.
local function drawing(kind, list)
  return function(run, ...)
    local _, key, count, with = ...
    need(key)
    if not is_type(key, kind) then
      return run(...)
    end
    local reply, is_refused = tried(run, ...)
    if is_refused then
      return reply
    end
    local size, at = list(key)
    if not count then
      return (at(draw(size)))
    elseif not with then
      return drawn_of(size, tonumber(count), function(place)
        return (at(place))
      end)
    end
    local pairs_of = drawn_of(size, tonumber(count), function(place)
      return { at(place) }
    end)
    if is_resp3() then
      return pairs_of
    end
    local flat = {}
    for _, pair in ipairs(pairs_of) do
      flat[#flat + 1], flat[#flat + 2] = pair[1], pair[2]
    end
    return flat
  end
end

local function members_of(key)
  local members = elements('SMEMBERS', key)
  return #members, function(at)
    return members[at]
  end
end

local function fields_of(key)
  local fields = elements('HKEYS', key)
  return #fields, function(at)
    return fields[at], call('HGET', key, fields[at])
  end
end

-- Sorted sets have an order.
local function scored_of(key)
  return call('ZCARD', key), function(at)
    local found = call('ZRANGE', key, at - 1, at - 1, 'WITHSCORES')
    if type(found[1]) == 'table' then
      return unpack(found[1])
    end
    return found[1], found[2]
  end
end

-- Each master has its own order for a set's members.
local function unordered(run, ...)
  local reply = run(...)
  if type(reply) == 'table' and type(reply[1]) == 'string' then
    in_order(reply)
  end
  return reply
end
