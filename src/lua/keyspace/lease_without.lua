-- This master's lease once `new` has replaced its stamp: a program that is not part of `new` has not taken over the
-- lease it found.
local function lease_without(old, lease, new)
  local is_open, found, is_kept = open(old)
  if lease or not is_open or is_kept then
    return lease
  end
  local ran = last_of(old)
  if ran and fate(new, ran) == 'ran' then
    return false
  end
  return found
end
