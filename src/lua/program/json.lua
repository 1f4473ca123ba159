-- A script's cjson settings stay on the master, but not after a restart: they apply to that script only. Plain Lua has
-- no cjson.
if cjson then
  cjson.encode_sparse_array(false, 2, 10)
  cjson.encode_max_depth(1000)
  cjson.decode_max_depth(1000)
  cjson.encode_number_precision(14)
  cjson.encode_keep_buffer(true)
  cjson.encode_invalid_numbers(false)
  cjson.decode_invalid_numbers(true)
  if cjson.decode_array_with_array_mt then
    cjson.decode_array_with_array_mt(false)
  end
end
