-- What the program tells besides its reply: the calls of its scripts, and the events of keys. Both go the way of the
-- messages that it publishes, under names that no command has.
local told = (function()
  local bytes_told = 0
  local function tell(kind, about, text)
    bytes_told = bytes_told + #about + #text
    if bytes_told <= MOST_TOLD then
      messages = messages or {}
      local at = #messages
      messages[at + 1], messages[at + 2], messages[at + 3] = kind, about, text
    end
  end

  -- Beginnings of errors of calls that Redis has not run (`scriptCall` in `script.c`): monitors don't see those.
  local not_run = {
    'ERR Unknown Redis', 'ERR Wrong number of args calling Redis', 'ERR This Redis command is not allowed from script',
    'ERR Write commands are not allowed from', 'ERR Lua redis lib command arguments', 'NOPERM',
  }
  local function has_run(failure)
    for _, beginning in ipairs(not_run) do
      if string.sub(failure, 1, #beginning) == beginning then
        return false
      end
    end
    return true
  end

  -- A call, in the database that was selected after it, as Redis shows it.
  local function tell_call(words)
    local parts = {}
    for at, word in ipairs(words) do
      word = type(word) == 'number' and string.format('%.17g', word) or word
      parts[at] = '$' .. #word .. '\r\n' .. word .. '\r\n'
    end
    tell(':call', db, table.concat(parts))
  end

  -- The class, the database, the name and the key of an event.
  local function event(class, name, key, where)
    tell(':event', class .. (where or db) .. ' ' .. name, key)
  end

  local function is_there(key, where)
    if where == db then
      return call('EXISTS', key) == 1
    end
    call('SELECT', where)
    local found = call('EXISTS', key) == 1
    call('SELECT', db)
    return found
  end

  -- What a call has done to one of the keys that it may have changed: `note` has kept how it was before.
  local function created(it)
    if not it.was_there and is_there(it.key, it.db) then
      event('n', 'new', it.key, it.db)
      it.was_there = true
    end
  end

  local function emptied(it)
    if it.was_there and not is_there(it.key, it.db) then
      event('g', 'del', it.key, it.db)
      it.was_there = false
    end
  end

  -- One event, of a key that is there or was. Nothing happens to others.
  local function changed(it, class, name)
    created(it)
    if it.was_there then
      event(class, name, it.key, it.db)
    end
    emptied(it)
  end

  -- The result of a command that replaces a key, or deletes it if there is none.
  local function stored(it, class, name)
    if is_there(it.key, it.db) then
      changed(it, class, name)
    else
      emptied(it)
    end
  end

  local function chosen(words, first)
    local found = {}
    for at = first, #words do
      found[string.upper(words[at])] = true
    end
    return found
  end

  local function has_ttl(words, first)
    local found = chosen(words, first)
    return found.EX or found.PX or found.EXAT or found.PXAT
  end

  local function replaced(it, words, first)
    local ends = has_ttl(words, first)
    if ends and not is_there(it.key, it.db) then
      -- That time has passed already.
      if not it.was_there then
        event('n', 'new', it.key)
      end
      event('$', 'set', it.key)
      event('g', 'expire', it.key)
      return event('x', 'expired', it.key)
    end
    changed(it, '$', 'set')
    if ends then
      event('g', 'expire', it.key)
    end
  end

  -- A key that Redis deletes before it creates it anew.
  local function created_anew(it)
    it.was_there = false
    created(it)
  end

  local function expired_or(it, name)
    if is_there(it.key, it.db) then
      event('g', name, it.key)
    else
      emptied(it)
    end
  end

  -- LMOVE and RPOPLPUSH.
  local function moved(keys, from, to)
    local key, new_key = keys[1], keys[2]
    created(new_key)
    event('l', to == 'LEFT' and 'lpush' or 'rpush', new_key.key)
    event('l', from == 'LEFT' and 'lpop' or 'rpop', key.key)
    emptied(key)
  end

  local function consumers(it, words)
    if it.before and it.before < telling.count_consumers(it.key, words) then
      event('t', 'xgroup-createconsumer', it.key)
    end
  end

  local function of_one(keys, key)
    for _, it in ipairs(keys) do
      if it.key == key then
        return it
      end
    end
  end

  -- Events of the commands whose events depend on more than that they have changed something.
  local special = {
    set = function(keys, words)
      replaced(keys[1], words, 4)
    end,
    setex = function(keys)
      replaced(keys[1], { 'EX' }, 1)
    end,
    setrange = function(keys, words)
      if words[4] ~= '' then
        changed(keys[1], '$', 'setrange')
      end
    end,
    mset = function(keys)
      for _, it in ipairs(keys) do
        changed(it, '$', 'set')
      end
    end,
    getex = function(keys, words)
      local it, found = keys[1], chosen(words, 3)
      if not found.PERSIST then
        expired_or(it, 'expire')
      elseif it.before then
        event('g', 'persist', it.key)
      end
    end,
    expire = function(keys)
      expired_or(keys[1], 'expire')
    end,
    del = function(keys)
      for _, it in ipairs(keys) do
        emptied(it)
      end
    end,
    rename = function(keys)
      if keys[1].key ~= keys[2].key then
        created_anew(keys[2])
        event('g', 'rename_from', keys[1].key)
        event('g', 'rename_to', keys[2].key)
      end
    end,
    copy = function(keys)
      created_anew(keys[1])
      event('g', 'copy_to', keys[1].key, keys[1].db)
    end,
    restore = function(keys)
      if is_there(keys[1].key, keys[1].db) then
        created_anew(keys[1])
        event('g', 'restore', keys[1].key)
      else
        emptied(keys[1])
      end
    end,
    lmove = function(keys, words)
      moved(keys, string.upper(words[4]), string.upper(words[5]))
    end,
    rpoplpush = function(keys)
      moved(keys, 'RIGHT', 'LEFT')
    end,
    lmpop = function(keys, words, reply)
      local from = string.upper(words[3 + tonumber(words[2])])
      changed(of_one(keys, reply[1]), 'l', from == 'LEFT' and 'lpop' or 'rpop')
    end,
    zmpop = function(keys, words, reply)
      local from = string.upper(words[3 + tonumber(words[2])])
      changed(of_one(keys, reply[1]), 'z', from == 'MIN' and 'zpopmin' or 'zpopmax')
    end,
    smove = function(keys)
      if keys[1].key ~= keys[2].key then
        changed(keys[1], 's', 'srem')
        created(keys[2])
        if not keys[2].before then
          event('s', 'sadd', keys[2].key)
        end
      end
    end,
    zadd = function(keys, words)
      local it = keys[1]
      if it.before ~= telling.scores(it.key, words) then
        changed(it, 'z', (words[1] == 'zincrby' or chosen(words, 3).INCR) and 'zincr' or 'zadd')
      end
    end,
    setbit = function(keys, words)
      local it = keys[1]
      if not it.was_there or it.before ~= call('GET', it.key) then
        changed(it, '$', 'setbit')
      end
    end,
    sort = function(keys)
      stored(keys[1], 'l', 'sortstore')
    end,
    georadius = function(keys)
      stored(keys[1], 'z', 'georadiusstore')
    end,
    bitop = function(keys)
      stored(keys[1], '$', 'set')
    end,
    xadd = function(keys)
      local it = keys[1]
      changed(it, 't', 'xadd')
      if call('XLEN', it.key) <= it.before then
        event('t', 'xtrim', it.key)
      end
    end,
    xgroup = function(keys, words, reply)
      local it, name = keys[1], string.lower(words[2])
      local is_about_consumers = name == 'createconsumer' or name == 'delconsumer'
      local is_nothing = is_about_consumers and it.before == telling.count_consumers(it.key, words)
      if not is_nothing and not (name == 'destroy' and reply == 0) then
        changed(it, 't', 'xgroup-' .. name)
      end
    end,
    xclaim = function(keys, words)
      for _, it in ipairs(keys) do
        consumers(it, words)
      end
    end,
  }
  local same = {
    setex = ' psetex ', mset = ' msetnx ', expire = ' pexpire expireat pexpireat ', del = ' unlink getdel ',
    rename = ' renamenx ', zadd = ' zincrby geoadd ', setbit = ' bitfield ', georadius = ' georadiusbymember ',
    xclaim = ' xautoclaim xreadgroup ', restore = ' restore-asking ',
  }
  for name, others in pairs(same) do
    for other in string.gmatch(others, '%S+') do
      special[other] = special[name]
    end
  end

  -- All other commands change one key, and have one event. It has the name of the command, unless there is one behind it.
  local classes = {
    ['$'] = 'append decr:incrby decrby:incrby getset:set incr:incrby incrby incrbyfloat pfadd pfmerge:pfadd setnx:set',
    g = 'persist',
    h = 'hdel hincrby hincrbyfloat hmset:hset hset hsetnx:hset',
    l = 'linsert lpop lpush lpushx:lpush lrem lset ltrim rpop rpush rpushx:rpush',
    s = 'sadd sdiffstore sinterstore spop srem sunionstore',
    t = 'xdel xsetid xtrim',
    z = 'geosearchstore zdiffstore zinterstore zpopmax zpopmin zrangestore zrem zremrangebylex zremrangebyrank '
      .. 'zremrangebyscore zunionstore',
  }
  local function usual(keys, command)
    for class, names in pairs(classes) do
      local name, other = string.match(' ' .. names .. ' ', ' (' .. command .. '):?(%a*) ')
      if name and string.find(name, 'store$') then
        stored(keys[1], class, name)
      elseif name then
        changed(keys[1], class, other ~= '' and other or name)
      end
    end
  end

  local function tell_events(words, reply)
    local command = string.lower(words[1])
    if not telling.keys[1] or is_idle(reply, words) then
      return
    elseif special[command] then
      words[1] = command
      special[command](telling.keys, words, reply)
    else
      usual(telling.keys, command)
    end
  end

  -- Redis's own `pcall` would make a text of an error.
  local function as_raised(raised)
    return raised
  end

  -- Every call passes here.
  local function told(run, handle, ...)
    local words, count, is_text = { ... }, select('#', ...), true
    telling.keys, telling.by, telling.words = {}, {}, words
    local done, reply
    if count < 4000 then
      done, reply = xpcall(function()
        return screened(run, handle, unpack(words, 1, count))
      end, as_raised)
    else
      -- Lua cannot hold so many words twice. If the call fails, it is not told.
      done, reply = true, screened(run, handle, ...)
    end
    for at = 1, count do
      is_text = is_text and (type(words[at]) == 'string' or type(words[at]) == 'number')
    end
    local failure = not done and reply or type(reply) == 'table' and reply.err
    failure = type(failure) == 'table' and failure.err or failure
    if is_text and words[1] and not (missing or refusal) then
      if telling.tells_calls and (not failure or has_run(tostring(failure))) then
        tell_call(words)
      end
      if TELLS_EVENTS and not failure then
        tell_events(words, reply)
      end
    end
    if not done then
      error(reply, 0)
    end
    return reply
  end
  return told
end)()
