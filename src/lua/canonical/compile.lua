-- 1 if Lua understands the text, else why it does not, in the words that Redis would use.
local compiled, why = loadstring(ARGV[1], '@user_script')
return compiled and 1 or why
