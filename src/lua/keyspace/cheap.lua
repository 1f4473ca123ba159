-- What is done instead of calls that many scripts make, for the one key of a program. What these do not know, the others
-- do, which are made when they are needed.

-- A command that adds to a value of one type: it never removes it, and leaves its end as it is.
local function growth(wanted, run, name, key, ...)
  if key ~= only or missing then
    return handled(name)(run, name, key, ...)
  end
  if kind ~= wanted or new_clean then
    is_unknown = true
  end
  writes = true
  return run(name, key, ...)
end

-- EXPIRE and PEXPIRE, as `clean_at` has it. Where that would be in the past of this master, its clock is wrong by more than
-- the slack, and the key is as the other masters have it, and cleaned up.
local function expiring(unit, run, name, key, ttl)
  local is_word = type(ttl) == 'string' or type(ttl) == 'number'
  local is_plain = is_word and not string.find(ttl, '%D') and string.byte(ttl) ~= 48 and ttl ~= ''
  local left = is_plain and key == only and not missing and ttl * unit
  if not left or left > MAX_TTL_MS or left >= 2 ^ 52 then
    return handled(name)(run, name, key, ttl)
  end
  writes = true
  local fresh = left / 10 - left / 10 % 1
  fresh = fresh > VOTE_TIMEOUT_MS and VOTE_TIMEOUT_MS or fresh < 5 and math.min(5, VOTE_TIMEOUT_MS) or fresh
  local drift = (left + fresh) * CLOCK_DRIFT
  drift = drift + -drift % 1
  local text = string.format('%d', seconds * 1000 + (micros - micros % 1000) / 1000 + left + drift + fresh + 2 + SLACK_MS)
  local reply = run('PEXPIREAT', key, text)
  if reply == 1 then
    new_clean = text
  end
  return reply
end

-- EXISTS of one key
local function existence(run, name, key)
  if key ~= only or writes then
    return handled(name)(run, name, key)
  end
  return kind == '-' and 0 or 1
end

-- PTTL, as `without_pad` has it
local function time_left(run, name, key)
  if key ~= only or writes or clean <= 0 then
    return handled(name)(run, name, key)
  end
  local left = clean - SLACK_MS - seconds * 1000 - (micros - micros % 1000) / 1000 - 2
  left = left > 0 and left / (1 + CLOCK_DRIFT) or 0
  left = left - left % 1
  local fresh = left / 11
  fresh = fresh - fresh % 1
  fresh = fresh > VOTE_TIMEOUT_MS and VOTE_TIMEOUT_MS or fresh < 5 and math.min(5, VOTE_TIMEOUT_MS) or fresh
  return left > fresh and left - fresh or 0
end
