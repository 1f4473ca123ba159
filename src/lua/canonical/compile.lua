-- 1 if the text compiles as Lua, else the error, worded as in Redis.
local compiled, why = loadstring(ARGV[1], '@user_script')
return compiled and 1 or why
