//! Random Lua programs: values of every kind that Redis converts, libraries, errors, and commands.

use fastrand::Rng;

/// Returns a program without commands.
pub(crate) fn simple(rng: &mut Rng) -> String {
    format!("{}return {}", head(rng), value(rng, 2))
}

/// Returns a program that runs commands made by `command`, which returns the words of one request.
pub(crate) fn program(rng: &mut Rng, mut command: impl FnMut(&mut Rng) -> Vec<Vec<u8>>) -> Vec<u8> {
    let mut text = head(rng).into_bytes();
    text.extend(b"local r = {}\n");
    for _ in 0..rng.u8(1..4) {
        let words = command(rng);
        text.extend(statement(rng, &call(&words)));
    }
    text.extend(ending(rng).into_bytes());
    text
}

fn statement(rng: &mut Rng, call: &[u8]) -> Vec<u8> {
    let parts: [&[u8]; 3] = match rng.u8(..12) {
        0..=5 => [b"r[#r + 1] = redis.call", call, b"\n"],
        6..=8 => [b"r[#r + 1] = redis.pcall", call, b"\n"],
        9 => [b"do return redis.call", call, b" end\n"],
        10 => [
            b"do local f = function() return redis.call",
            call,
            b" end r[#r + 1] = {pcall(f)} end\n",
        ],
        _ => [
            b"do local x = redis.pcall",
            call,
            b" r[#r + 1] = type(x) == 'table' and (x.err or x.ok or #x) or x end\n",
        ],
    };
    parts.concat()
}

fn head(rng: &mut Rng) -> String {
    let heads = [
        "redis.setresp(3)\n",
        "#!lua\n",
        "#!lua flags=no-writes\n",
        "#!lua name=x\n",
        "local x = KEYS[1]\n",
        "-- a comment\n",
        "redis.replicate_commands()\n",
        "redis.log(redis.LOG_DEBUG, 'x')\n",
    ];
    heads.get(rng.usize(..24)).copied().unwrap_or_default().to_owned()
}

fn ending(rng: &mut Rng) -> String {
    match rng.u8(..10) {
        0 => format!("return {}", value(rng, 2)),
        1 => "return #r".to_owned(),
        2 => "return r[1]".to_owned(),
        3 => format!("return {{r, {}}}", value(rng, 1)),
        4 => String::new(),
        _ => "return r".to_owned(),
    }
}

/// Returns the words in parentheses, each as a literal.
fn call(words: &[Vec<u8>]) -> Vec<u8> {
    let literals: Vec<_> = words.iter().map(|word| literal(word)).collect();
    [b"(", literals.join(&b", "[..]).as_slice(), b")"].concat()
}

fn literal(word: &[u8]) -> Vec<u8> {
    let mut text = vec![b'\''];
    for &byte in word {
        match byte {
            b' '..=b'~' if byte != b'\'' && byte != b'\\' => text.push(byte),
            // A text with a NUL byte is not inspected.
            _ => text.extend(format!("\\{:03}", byte.max(1)).bytes()),
        }
    }
    text.push(b'\'');
    text
}

/// Returns a random expression.
fn value(rng: &mut Rng, depth: u8) -> String {
    if depth > 0 && rng.u8(..3) == 0 {
        let inner = value(rng, depth - 1);
        let other = value(rng, depth - 1);
        return NESTING[rng.usize(..NESTING.len())].replace("{1}", &inner).replace("{2}", &other);
    }
    PLAIN[rng.usize(..PLAIN.len())].to_owned()
}

/// Expressions without further nesting. None raises a value that is not a string: that crashes a plain Redis 7.0.
const PLAIN: &[&str] = &[
    "1",
    "-1",
    "0",
    "3.99",
    "-0.5",
    "1e15",
    "2^53",
    "2^63",
    "-2^63",
    "1e100",
    "0/0",
    "1/0",
    "-1/0",
    "'a'",
    "''",
    "'1'",
    "'two words'",
    "'\\r\\n'",
    "'\\1\\255'",
    "true",
    "false",
    "nil",
    "{}",
    "{1, 2, 3}",
    "{1, nil, 3}",
    "{'a', {'b', {}}}",
    "{ok = 'FINE'}",
    "{err = 'MY error'}",
    "{err = 'x'}",
    "{ok = 'a\\r\\nb'}",
    "{err = 'a\\r\\nb'}",
    "{double = 3.5}",
    "{double = 1/0}",
    "{map = {a = 1}}",
    "{set = {a = true}}",
    "{big_number = '123'}",
    "{verbatim_string = {format = 'txt', string = 'x'}}",
    "{[1] = 1, [3] = 3}",
    "{a = 1}",
    "KEYS[1]",
    "ARGV[1]",
    "#KEYS",
    "#ARGV",
    "KEYS",
    "ARGV",
    "ARGV[3]",
    "redis.sha1hex('')",
    "redis.sha1hex(1)",
    "redis.sha1hex()",
    "redis.error_reply('x')",
    "redis.error_reply('MY x')",
    "redis.error_reply('-MY x')",
    "redis.status_reply('x')",
    "redis.error_reply(1)",
    "redis.status_reply()",
    "redis.REDIS_VERSION",
    "redis.REDIS_VERSION_NUM",
    "redis.LOG_WARNING",
    "redis.setresp(2)",
    "redis.setresp(4)",
    "redis.setresp()",
    "redis.set_repl(redis.REPL_ALL)",
    "redis.breakpoint()",
    "redis.debug('x')",
    "redis.nosuch",
    "redis.call()",
    "redis.pcall()",
    "redis.call(1)",
    "redis.call({})",
    "redis.pcall('nosuch')",
    "redis.call('nosuch')",
    "redis.call('get')",
    "redis.call('get', {})",
    "redis.call('get', true)",
    "redis.call('echo', 3.5)",
    "redis.call('echo', 1e20)",
    "redis.call('echo', -0)",
    "redis.call('echo', 0/0)",
    "redis.call('echo', '\\r\\n')",
    "redis.call('ping')",
    "redis.pcall('eval', 'return 1', 0)",
    "redis.acl_check_cmd('get', 'x')",
    "redis.acl_check_cmd('nosuch')",
    "redis.acl_check_cmd()",
    "math.floor(3.7)",
    "math.max(1, 2)",
    "math.random(1, 1)",
    "math.huge",
    "math.pi",
    "tostring(1)",
    "tostring(nil)",
    "tostring(0.1)",
    "tostring(1e15)",
    "tostring(2^53)",
    "tonumber('0x10')",
    "tonumber(' 1 ')",
    "tonumber('a')",
    "tonumber('z', 36)",
    "type(redis)",
    "type(nosuch)",
    "nosuch",
    "x",
    "KEYS.x.y",
    "string.rep('ab', 3)",
    "string.format('%d %s %q', 1, 'x', 'y')",
    "string.format('%5.2f', 1/3)",
    "string.byte('a')",
    "('x'):upper()",
    "string.find('hello', 'l+')",
    "string.gsub('hello', 'l', 'L')",
    "select('#', 1, nil)",
    "unpack({1, 2})",
    "table.concat({1, 2, 'x'}, ',')",
    "table.concat({{}})",
    "#'abc'",
    "'a' .. 1",
    "'a' + 1",
    "'1' + 1",
    "nil + 1",
    "{} .. 'a'",
    "1 < 'a'",
    "not nil",
    "cjson.encode({1, 2, 3})",
    "cjson.encode({a = 1})",
    "cjson.encode({})",
    "cjson.encode(1e20)",
    "cjson.encode(0.1)",
    "cjson.encode('\\1')",
    "cjson.decode('[1, null, {\"a\": 2}]')",
    "cjson.decode('{')",
    "cjson.decode('1')",
    "cjson.null",
    "cjson.encode({1, nil, 3})",
    "cmsgpack.pack({1, 'a'})",
    "cmsgpack.unpack(cmsgpack.pack({1, 'a', true}))",
    "cmsgpack.unpack('\\255')",
    "struct.pack('>I2', 258)",
    "struct.unpack('>I2', '\\1\\2')",
    "struct.size('i4')",
    "bit.band(7, 3)",
    "bit.tohex(255)",
    "bit.bnot(0)",
    "bit.lshift(1, 31)",
    "error('x')",
    "error({err = 'MY x'})",
    "error({err = 'x', y = 1})",
    "error(1)",
    "error('x', 0)",
    "assert(false)",
    "assert(nil, 'x')",
    "assert(1)",
    "pcall(error, 'x')",
    "{pcall(error, 'x')}",
    "{pcall(redis.call, 'nosuch')}",
    "{pcall(redis.call, 'get')}",
    "select(2, pcall(error, {err = 'x'}))",
    "(function() return 1, 2 end)()",
    "type(io)",
    "type(require)",
    "next({})",
    "rawequal(1, 1)",
    "rawget({1}, 1)",
    "#_G",
    "type(_G)",
    "getmetatable('').__index == string",
    "setmetatable({}, {__index = function() return 1 end})[1]",
    "loadstring('return 1')()",
    "loadstring('return')",
    "type(loadstring('('))",
    "string.len(string.rep('x', 70000))",
    "redis.call('set', 's1', 'x')",
    "1 1",
    "(",
    "end",
    "redis.call('lrange', 'l1', 0, -1)",
    "redis.call('hgetall', 'h1')",
    "redis.call('zrange', 'z1', 0, -1, 'withscores')",
    "redis.call('get', 'absent')",
    "redis.call('type', 's1')",
    "redis.call('zscore', 'z1', 'a')",
    "redis.call('time')[3]",
];

/// Nested expressions. None reveals the address of a table or a function.
const NESTING: &[&str] = &[
    "{{1}, {2}}",
    "{{1}}",
    "{{1}, nil, {2}}",
    "tostring(type({1}) == 'table' or type({1}) == 'function' or {1})",
    "type({1})",
    "{pcall(function() return {1} end)}",
    "{ok = {1}}",
    "{err = {1}}",
    "{double = {1}}",
    "{map = {[{1}] = {2}}}",
    "{set = {[{1}] = true}}",
    "({1}) == ({2})",
    "({1}) and ({2})",
    "#({1})",
    "({1}) .. ({2})",
    "({1}) + ({2})",
    "({1}) < ({2})",
    "cjson.encode({1})",
    "cjson.decode(cjson.encode({1}))",
    "cmsgpack.unpack(cmsgpack.pack({1}))",
    "redis.status_reply({1})",
    "redis.error_reply({1})",
    "redis.sha1hex({1})",
    "redis.call('echo', {1})",
    "redis.pcall('set', 's1', {1})",
    "redis.call('lpush', 'l1', {1}, {2})",
    "redis.call('hset', 'h1', 'f', {1})",
    "tonumber({1})",
    "error(type({1}))",
    "select(2, pcall(function() return {1} end))",
    "unpack({{1}, {2}})",
    "({1})[1]",
    "rawget({1}, 1)",
    "{big_number = {1}}",
    "{verbatim_string = {format = {1}, string = {2}}}",
    "string.format('%s', {1})",
    "string.rep({1}, 2)",
];
