-- Earlier writes stay, and must not run again.
if wrote then
  error({ err = "ERR the key '" .. key .. "' was not found before the program wrote: what it wrote until then stays" }, 0)
end
