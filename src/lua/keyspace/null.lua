if reply == nil then
  real.setresp(2)
  reply = false
end
