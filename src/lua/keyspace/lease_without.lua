-- The lease of this master once `new` has taken the place of its stamp: a program that is no part of that has not taken
-- over the lease that it found.
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
