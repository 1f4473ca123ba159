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
if not only then
  return finish(reply, messages, db)
end

-- The script may have gone elsewhere.
if db ~= home then
  call('SELECT', home)
end
if missing then
  return { 'missing', missing[1], missing[2] }
end
-- Whole numbers go without a table around them, which costs more than to read one: twice the number, and one more if
-- nothing was written. So does nothing at all, if something was.
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
local packed, length = reply and cmsgpack.pack(reply) or '\194', '0001'
if #packed > LONGEST_REPLY then
  packed, length = '', '0000'
elseif #packed > 1 then
  length = string.format('%04d', #packed)
end
-- The last programs are those before, less the first if that are too many, and this one. Seldom there are more keys or a
-- lease before them. Bytes are cheaper to look at than strings: 45 is '-', 97 is 'a', and digits begin at 48.
local byte = string.byte
local how, from = byte(stamp, 66), 83
if how == 45 then
  from = 67
elseif how ~= 97 then
  RECENT_OF
  from = recent_of(stamp)
end
local kept, before, counted = byte(stamp, from + 1) - 47, from + 2, '0MOST_PROGRAMS'
if kept < MOST_PROGRAMS then
  counted = '0' .. kept
elseif kept > MOST_PROGRAMS then
  local thousands, hundreds, tens, ones = byte(stamp, from + 18, from + 21)
  before = from + 22 + 1000 * thousands + 100 * hundreds + 10 * tens + ones - 1111 * 48
end
call(
  'SET',
  companion_key,
  next_ballot .. expected .. kind .. text .. 'a' .. until_clean
    .. counted .. sub(stamp, before) .. length .. packed .. sub(expected, 1, 16)
)
if is_whole then
  return 2 * reply
elseif not reply and not messages then
  return reply
end
NIL_AS_NULL
return { 'wrote', reply, messages }
