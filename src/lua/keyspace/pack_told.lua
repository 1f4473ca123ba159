  -- What was told is not worth losing the reply.
  local all = packed .. cmsgpack.pack(messages)
  if #all > LONGEST_REPLY then
    local published = {}
    for at = 1, #messages, 3 do
      if sub(messages[at], 1, 1) ~= ':' then
        for part = at, at + 2 do
          published[#published + 1] = messages[part]
        end
      end
    end
    all = published[1] and packed .. cmsgpack.pack(published) or packed
  end
  packed = all
