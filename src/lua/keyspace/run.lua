-- What the script says about a failure is made only when there is one.
local function failed(raised)
  EXPLAIN
  return explain(raised, SCRIPT_SHA, 1, LAST_LINE)
end

local done, reply = xpcall(program, failed)
if not done then
  reply = { err = reply }
end
DISARM
local messages, db, home
if rest then
  messages, db, home = rest()
end
-- The last programs are those before and this one. Once there are as many as are kept whoever sent them, mostly the first
-- has to go, and is of this worker: then its ballot is the one up to which its workers' are not known. Seldom there are more
-- keys or a lease before them. Bytes are cheaper to look at than strings: 45 is '-', 97 is 'a', and digits begin at 48.
local before, counted, dropped = nil, '0LAST_PROGRAMS', ''
if only and writes then
  local byte = string.byte
  local how, from = byte(stamp, 74), 91
  if how == 45 then
    from = 75
  elseif how ~= 97 then
    RECENT_OF
    from = recent_of(stamp)
  end
  local tens, ones = byte(stamp, from, from + 1)
  local kept = 10 * tens + ones - 527
  before = from + 2
  if kept <= LAST_PROGRAMS then
    counted = '0' .. kept
  else
    local thousands, hundreds, more, last = byte(stamp, from + 34, from + 37)
    before = from + 38 + 1000 * thousands + 100 * hundreds + 10 * more + last - 1111 * 48
    if kept == LAST_PROGRAMS + 1 and sub(stamp, before + 8, before + 15) == sub(expected, 9, 16) then
      dropped = sub(stamp, from + 2, from + 17)
    else
      before, counted = from, nil
    end
  end
end
local remembered
if not only or not counted then
  IS_BELOW
  REMEMBERED
end
if not only then
  return finish(reply, messages, db, remembered)
end

-- The script may have gone elsewhere.
if db ~= home then
  call('SELECT', home)
end
if missing then
  return { 'missing', missing[1], missing[2] }
elseif refusal then
  return { err = refusal }
end
-- Whole numbers go without a table around them, which costs more than to read one: twice the number, and one more if
-- nothing was written. So does nothing at all, if something was: then a time to live is told by its digits alone.
local is_whole = not messages and type(reply) == 'number' and reply % 1 == 0 and reply > -2 ^ 51 and reply < 2 ^ 51
if not writes then
  if is_whole then
    return 2 * reply + 1
  end
  NIL_AS_NULL
  return { 'read', reply, messages }
end

-- When masters would have cleaned up what it found, and what there is now.
local until_clean, text = kind == '-' and '-000000000000001' or clean_text, clean_text
if is_unknown then
  KIND_OF
  kind = kind_of(only)
  text = string.format('%016.0f', kind == '-' and 0 or call('PEXPIRETIME', only))
elseif new_clean then
  text = sub('0000000000000000', #new_clean + 1) .. new_clean
end
-- With the same end it stays at least as long as before. That may have been set anew, at a time that a promise has stopped.
-- PTTL tells this master's own time for less than TIME does, and at most a millisecond late, unless the key has ended by it.
local the_end, stays = (tonumber(text) - SLACK_MS) * 1000, '\0\0\0\0\0\0\0\0'
if the_end > 0 then
  local left = call('PTTL', only)
  local own_us = (text - left + 1) * 1000
  if left <= 0 then
    local time = call('TIME')
    own_us = time[1] * 1000000 + time[2]
  end
  local until_us = own_us + (the_end > now and the_end - now or 0)
  if text == clean_text then
    local before = struct.unpack('>I8', sub(stamp, 66, 73))
    until_us = before > until_us and before or until_us
  end
  stays = struct.pack('>I8', until_us)
end
local packed, length = reply and cmsgpack.pack(reply) or '\194', '0001'
if #packed > LONGEST_REPLY then
  packed, length = '', '0000'
elseif #packed > 1 then
  length = string.format('%04d', #packed)
end
if not counted then
  counted, before = remembered(stamp, before, sub(expected, 1, 16), true), #stamp + 1
end
call(
  'SET',
  companion_key,
  next_ballot .. expected .. kind .. text .. stays .. 'a' .. until_clean
    .. counted .. dropped .. sub(stamp, before) .. length .. packed .. sub(expected, 1, 16)
)
if dated and reply == nil and not messages then
  return string.format('%d', dated)
elseif dated then
  NIL_AS_NULL
  return { 'dated', dated, reply, messages }
elseif is_whole then
  return 2 * reply
elseif not reply and not messages then
  return reply
end
NIL_AS_NULL
return { 'wrote', reply, messages }
