local function failed(raised)
  EXPLAIN
  return explain(raised, SCRIPT_SHA, 1, LAST_LINE)
end

local answers, running = {}, nil
local function run(number)
  local first = (number - 1) * width
  local word = words[first + width]
  only, companion_key, stamp, kind = keys[number], names[number], stamps[number], nil
  expected, next_ballot, now = fields('c32c16>I8', word)
  EXPECTED
  if not kind then
    return 'again'
  end
  writes, missing, refusal, is_unknown, new_clean, dated, rest = false, nil, nil, nil, nil, nil, nil
  FORGET_HANDLERS
  micros = now % 1000000
  seconds = (now - micros) / 1000000
  KEYS[1] = only
  for at = 1, width - 1 do
    ARGV[at] = words[first + at]
  end
  running = number
  local done, reply = xpcall(program, failed)
  if not done then
    reply = { err = reply }
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

-- Whatever fails here ends no other call: those before have run, and have to be accepted.
local function run_all()
  for number = 1, #keys do
    running = nil
    answers[number] = run(number)
  end
end
local done, why = pcall(run_all)
if stamps_kept[1] then
  call('MSET', unpack(stamps_kept))
end
for number = #answers + 1, #keys do
  answers[number] = not done and number == running and { err = 'ERR ' .. tostring(why) } or 'again'
end
return answers
