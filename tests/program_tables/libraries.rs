//! The Lua libraries that Redis provides to scripts.

pub(crate) const CJSON: &str = r#"
    EVAL "return cjson.encode({1, 2, 'three'})" 0
    EVAL "return cjson.encode({})" 0
    EVAL "return cjson.encode({a = {b = {1, true, cjson.null}}})" 0
    EVAL "return cjson.encode('quote\" and \\ and \n')" 0
    EVAL "return cjson.encode(1.5)" 0
    EVAL "return cjson.encode(1e20)" 0
    EVAL "return cjson.encode(12345678901234567890)" 0
    EVAL "return cjson.encode({[1] = 1, [2] = 2, [20] = 20})" 0
    EVAL "return cjson.encode(function() end)" 0
    EVAL "return cjson.encode(1/0)" 0
    EVAL "return cjson.decode('[1,2,[3]]')" 0
    EVAL "return cjson.decode('[]')" 0
    EVAL "return cjson.decode(ARGV[1]).name" 0 ' {"name": "x", "n": 3}'
    EVAL "return cjson.decode(ARGV[1]).n + 1" 0 ' {"name": "x", "n": 3}'
    EVAL "return cjson.decode('null') == cjson.null" 0
    EVAL "return cjson.decode('true')" 0
    EVAL "return cjson.decode('[1.5, -2, 1e3]')" 0
    EVAL "return cjson.decode('{')" 0
    EVAL "return cjson.decode('')" 0
    EVAL "return cjson.decode()" 0
    EVAL "cjson.encode_sparse_array(true) return cjson.encode({[1] = 1, [3] = 3})" 0
    EVAL "cjson.encode_sparse_array(false) return 'back'" 0
    EVAL "cjson.encode_keep_buffer(false) return cjson.encode({1})" 0
    EVAL "redis.call('set', KEYS[1], cjson.encode({count = 1}))
        local held = cjson.decode(redis.call('get', KEYS[1]))
        held.count = held.count + 1
        redis.call('set', KEYS[1], cjson.encode(held))
        return redis.call('get', KEYS[1])" 1 k
    GET k
"#;

pub(crate) const CMSGPACK: &str = r#"
    EVAL "return cmsgpack.pack(1)" 0
    EVAL "return cmsgpack.pack('text')" 0
    EVAL "return cmsgpack.pack({1, 2, {3}})" 0
    EVAL "return cmsgpack.pack({a = 1})" 0
    EVAL "return cmsgpack.pack(1.5, true, nil)" 0
    EVAL "return cmsgpack.unpack(cmsgpack.pack({1, 'two', {3}}))" 0
    EVAL "return cmsgpack.unpack(cmsgpack.pack({a = 'b'})).a" 0
    EVAL "return {cmsgpack.unpack(cmsgpack.pack(1, 2, 3))}" 0
    EVAL "return {cmsgpack.unpack_one(cmsgpack.pack(7, 8), 0)}" 0
    EVAL "return cmsgpack.unpack('\255\255')" 0
    EVAL "return cmsgpack.unpack('\147\1')" 0
    EVAL "return cmsgpack.unpack()" 0
    EVAL "return cmsgpack.pack()" 0
    EVAL "redis.call('set', KEYS[1], cmsgpack.pack({1, 2})) return cmsgpack.unpack(redis.call('get', KEYS[1]))" 1 k
"#;

pub(crate) const BIT: &str = r#"
    EVAL "return bit.band(0xff, 0x0f)" 0
    EVAL "return bit.bor(1, 2, 4)" 0
    EVAL "return bit.bxor(7, 2)" 0
    EVAL "return bit.bnot(0)" 0
    EVAL "return bit.lshift(1, 31)" 0
    EVAL "return bit.rshift(-1, 28)" 0
    EVAL "return bit.arshift(-8, 1)" 0
    EVAL "return bit.rol(0x12345678, 8)" 0
    EVAL "return bit.ror(0x12345678, 8)" 0
    EVAL "return bit.bswap(1)" 0
    EVAL "return bit.tobit(0xffffffff)" 0
    EVAL "return bit.tohex(255)" 0
    EVAL "return bit.tohex(255, -4)" 0
    EVAL "return bit.band('a')" 0
    EVAL "return bit.band()" 0
"#;

pub(crate) const STRUCT: &str = r#"
    EVAL "return struct.pack('>I4', 1)" 0
    EVAL "return struct.pack('<hbs', 7, 8, 'text')" 0
    EVAL "return {struct.unpack('>I4', '\0\0\1\0')}" 0
    EVAL "return {struct.unpack('<hbs', struct.pack('<hbs', 7, 8, 'text'))}" 0
    EVAL "return struct.size('>I4')" 0
    EVAL "return struct.size('bhil')" 0
    EVAL "return struct.pack('>d', 1.5)" 0
    EVAL "return struct.pack('Bc0', 5, 'hello')" 0
    EVAL "return {struct.unpack('Bc0', '\5hello')}" 0
    EVAL "return struct.unpack('>I4', 'ab')" 0
    EVAL "return struct.pack('>Q', 1)" 0
    EVAL "return struct.pack('>I4', 'text')" 0
"#;
