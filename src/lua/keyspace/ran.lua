-- A one-key program has run: its new stamp, and its answer.
if missing then
  answer = { 'missing', missing[1], missing[2] }
elseif refusal then
  answer = { err = refusal }
else
  -- Integers go without a table around them, which costs more than to read one: twice the number, plus one if nothing
  -- was written. So does null, if something was written: then a TTL is sent as bare digits.
  local is_whole = reply and not messages and type(reply) == 'number' and reply % 1 == 0 and reply > -2 ^ 51 and reply < 2 ^ 51
  if writes then
    -- When masters would have cleaned up the value it found, and the present one.
    local until_clean, text, ends = kind == '-' and '-000000000000001' or clean_text, clean_text, clean
    if is_unknown then
      KIND_OF
      kind = kind_of(only)
      ends = kind == '-' and 0 or call('PEXPIRETIME', only)
      text = string.format('%016.0f', ends)
    elseif new_clean then
      kind, text, ends = new_kind or kind, new_text, new_clean
    end
    -- With the same expiry it stays at least as long as before. That may have been set anew, at a time stopped by a
    -- promise.
    local the_end, stays = (ends - SLACK_MS) * 1000, '\0\0\0\0\0\0\0\0'
    if the_end > 0 then
      stays = SAME_STAYS
      if not stays then
        OWN_TIME
        local until_us = own_us + (the_end > now and the_end - now or 0)
        if text == clean_text then
          local before = struct.unpack('>I8', sub(stamp, 66, 73))
          until_us = before > until_us and before or until_us
        end
        stays = struct.pack('>I8', until_us)
        KEEP_STAYS
      end
    end
    local packed, length = reply and cmsgpack.pack(reply) or '\194', '0001'
    if messages then
      PACK_MESSAGES
    end
    if #packed > LONGEST_REPLY then
      packed, length = '', '0000'
    elseif #packed > 1 then
      length = string.format('%04d', #packed)
    end
    local ran_under = sub(expected, 1, 16)
    if not counted then
      counted, before = remembered(stamp, before, ran_under, true), #stamp + 1
    end
    stamp = next_ballot .. expected .. kind .. text .. stays .. 'a' .. until_clean
      .. counted .. dropped .. sub(stamp, before) .. length .. packed .. ran_under
    KEEP_STAMP
  end
  local ttl = writes and dated
  if is_whole and not ttl then
    answer = writes and 2 * reply or 2 * reply + 1
  elseif ttl and reply == nil and not messages then
    answer = ttl == told_ms and told or string.format('%d', ttl)
  elseif writes and not ttl and not reply and not messages then
    answer = reply
  else
    NIL_AS_NULL
    if ttl then
      answer = { 'dated', ttl, reply, messages }
    else
      answer = { writes and 'wrote' or 'read', reply, messages }
    end
  end
end
