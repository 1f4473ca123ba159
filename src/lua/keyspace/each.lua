-- The current call, the last one whose program has begun, whether that runs now, and how it has failed.
local under_way, ran, is_running, failure = 1, nil, false, nil
local answers = {}

local function failed(raised)
  if not is_running then
    return raised
  end
  EXPLAIN
  return explain(raised, SCRIPT_SHA, 1, LAST_LINE)
end

local function run(number)
  local reply = failure
  failure = nil
  if not reply then
    local first = (number - 1) * width
    local word = words[first + width]
    only, companion_key, stamp, kind = keys[number], names[number], stamps[number], nil
    direct = only
    expected, next_ballot, now = fields('c32c16>I8', word)
    EXPECTED
    if not kind then
      return 'again'
    end
    writes, missing, refusal, is_unknown, new_clean, dated, rest = false, nil, nil, nil, nil, nil, nil
    new_kind = nil
    FORGET_HANDLERS
    told_us = now
    KEYS[1] = only
    for at = 1, width - 1 do
      ARGV[at] = words[first + at]
    end
    ran, is_running = number, true
    reply = program()
    is_running = false
  end
  local messages, db, home
  if rest then
    messages, db, home = rest()
  end
  KEPT
  if db ~= home then
    call('SELECT', home)
  end
  local answer
  RAN
  return answer or false
end

-- A call that fails is still concluded, and those after it run.
local function run_all()
  for number = under_way, #keys do
    under_way = number
    answers[number] = run(number)
  end
end
local done, why
repeat
  done, why = xpcall(run_all, failed)
  failure = is_running and { err = why }
  is_running = false
until not failure
-- Any other failure here ends no other call: earlier ones have run, and must be accepted.
if stamps_kept[1] then
  call('MSET', unpack(stamps_kept))
end
for at = #answers + 1, #keys do
  answers[at] = not done and at == ran and { err = 'ERR ' .. tostring(why) } or 'again'
end
return answers
