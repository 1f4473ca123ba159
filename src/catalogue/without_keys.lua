-- Errors of `COMMAND GETKEYS` etc. for a call without keys, or one that Redis refuses.
local without_keys = {
  ['ERR The command has no key arguments'] = true,
  ['ERR Invalid arguments specified for command'] = true,
  ['ERR Invalid number of arguments specified for command'] = true,
  ['ERR Invalid command specified'] = true,
  ['ERR Lua redis lib command arguments must be strings or integers'] = true,
}
