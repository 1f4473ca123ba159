-- Whether a SORT has a pattern that an element completes to one of the proxy's own names, which all begin with
-- `prefix`. Without a key to sort by, the command lists the elements.
local function completes_reserved(prefix, try, words)
  local heads = {}
  for at = 3, #words - 1 do
    local option, head = string.upper(words[at]), string.match(words[at + 1], '^([^*]*)%*')
    if (option == 'BY' or option == 'GET') and head and string.sub(prefix, 1, #head) == head then
      heads[#heads + 1] = head
    end
  end
  local elements = heads[1] and try(words[1], words[2], 'BY', 'nothing')
  for at = 1, type(elements) == 'table' and not elements.err and #elements or 0 do
    for _, head in ipairs(heads) do
      if string.sub(head .. elements[at], 1, #prefix) == prefix then
        return true
      end
    end
  end
  return false
end
