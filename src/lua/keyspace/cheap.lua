-- Functions with the fewest steps for the most frequent calls on a program's single key. A master creates each of them
-- anew on every run, so only those that the script uses are included. Anything else goes to `handled`, whose functions
-- are created on demand.
local function exists(run, name, key)
  if key ~= direct or writes then
    return handled(name)(run, name, key)
  end
  return kind == '-' and 0 or 1
end
local function pttl(run, name, key)
  if key ~= direct or writes or clean <= 0 then
    return handled(name)(run, name, key)
  end
  -- As in `without_pad`.
  local left = clean - SLACK_MS - (told_us - told_us % 1000) / 1000 - 2
  left = left > 0 and left / (1 + CLOCK_DRIFT) or 0
  left = left - left % 1
  local fresh = left / 11
  fresh = fresh - fresh % 1
  fresh = fresh > VOTE_TIMEOUT_MS and VOTE_TIMEOUT_MS or fresh < 5 and math.min(5, VOTE_TIMEOUT_MS) or fresh
  return left > fresh and left - fresh or 0
end
-- The last expiry set by a call, in numbers and digits, and its inputs: the next call mostly sets the same.
local set_unit, set_ttl, set_ms, set_clean, set_text, set_padded, set_dated
-- EXPIRE and PEXPIRE. `unit`: of the TTL, in milliseconds.
local function expire(unit, run, name, key, ttl)
  if key ~= direct then
    return handled(name)(run, name, key, ttl)
  end
  -- As in `clean_at`. If that is in this master's past, its clock is wrong by more than the slack, and the key is as on
  -- other masters, and cleaned up.
  local now_ms = (told_us - told_us % 1000) / 1000
  if ttl ~= set_ttl or unit ~= set_unit or now_ms ~= set_ms then
    set_ttl, set_unit, set_ms, set_clean = ttl, unit, now_ms, nil
    local is_word = type(ttl) == 'string' or type(ttl) == 'number'
    local is_plain = is_word and not string.find(ttl, '%D') and byte(ttl) ~= 48 and ttl ~= ''
    local left = is_plain and ttl * unit
    if left and left <= MAX_TTL_MS and left < 2 ^ 52 then
      local fresh = left / 10 - left / 10 % 1
      fresh = fresh > VOTE_TIMEOUT_MS and VOTE_TIMEOUT_MS or fresh < 5 and math.min(5, VOTE_TIMEOUT_MS) or fresh
      local drift = (left + fresh) * CLOCK_DRIFT
      set_clean = now_ms + left + drift + -drift % 1 + fresh + 2 + SLACK_MS
      set_text, told_ms, told = string.format('%d', set_clean), left, string.format('%d', left)
      set_padded = sub('0000000000000000', #set_text + 1) .. set_text
      set_dated = left > 2 and left
    end
  end
  if not set_clean then
    return handled(name)(run, name, key, ttl)
  end
  local had_written = writes
  writes = true
  local reply = run('PEXPIREAT', key, set_text)
  if reply == 1 then
    new_clean, new_text = set_clean, set_padded
    if set_dated and (not dated or set_dated < dated) then
      dated = set_dated
    end
  else
    writes = had_written
  end
  return reply
end
-- A command that adds to a value of type `what`, never removes it, and keeps its expiry. On a value of another type it
-- fails and changes nothing.
local function grow(what, run, name, key, ...)
  if key ~= direct then
    return handled(name)(run, name, key, ...)
  end
  local was_nothing = kind == '-' and not new_clean
  if new_clean then
    -- If that expiry was past by this master's clock, this creates the value anew.
    is_unknown = true
  end
  local had_written = writes
  writes = true
  local reply = real.pcall(name, key, ...)
  local has_failed = type(reply) == 'table' and reply.err
  if has_failed then
    IS_REFUSAL
    if refusal or not had_written and is_refusal(reply.err) then
      -- Nothing was written, and nothing must be: writes that need no memory would succeed.
      refusal, writes, direct = refusal or reply.err, false, false
      error({ err = refusal }, 0)
    elseif run == call then
      error(reply, 0)
    end
  end
  local is_idle = (reply == 0 or reply == -1)
    and string.find(' hsetnx linsert lpushx rpushx sadd ', ' ' .. string.lower(name) .. ' ', 1, true)
  if has_failed or is_idle then
    writes = had_written
  elseif was_nothing and type(reply) == 'number' and reply > 0 then
    new_kind, new_clean, new_text = what, -1, '-000000000000001'
  elseif was_nothing then
    -- ZADD creates nothing if it only changes members.
    is_unknown = true
  end
  return reply
end
