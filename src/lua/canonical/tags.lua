-- Strings set by the proxy begin with a tag, hidden from clients: a marker of 4 bytes, the attempt in 14, its
-- generation in 2.
local function tag_of(value)
  if value and #value >= 20 and string.sub(value, 1, 4) == '\255RL\1' then
    return string.sub(value, 1, 20)
  end
  return ''
end
local function token_of(value)
  return value and string.sub(value, #tag_of(value) + 1)
end
-- The tag after one more extension. The last generation is followed by the second.
local function raised(tag)
  if tag == '' then
    return tag
  end
  local high, low = string.byte(tag, 19, 20)
  local generation = high * 256 + low + 1
  if generation == 65536 then
    generation = 1
  end
  return string.sub(tag, 1, 18) .. string.char(math.floor(generation / 256), generation % 256)
end
