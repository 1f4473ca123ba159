//! Random words: keys of every type from a small pool, numbers at the edges, and other arguments.

use fastrand::Rng;

use crate::lua;

/// Place of a word in a request.
pub(crate) struct Setting<'a> {
    /// Its command, named as in [`crate::grammar::Syntax`].
    pub(crate) command: &'a str,
    /// The group of the command.
    pub(crate) group: &'a str,
    /// Name of the argument in the documentation.
    pub(crate) name: &'a str,
    /// Type of the argument in the documentation.
    pub(crate) kind: &'a str,
}

/// Keys of each group of commands. [`PRELUDE`] creates most of them.
const KEYS: [(&str, &[&str]); 9] = [
    ("string", &["s1", "s2", "n1", "n2"]),
    ("hash", &["h1", "h2"]),
    ("list", &["l1", "l2"]),
    ("set", &["e1", "e2", "e3"]),
    ("sorted-set", &["z1", "z2"]),
    ("stream", &["x1", "x2"]),
    ("bitmap", &["b1", "s1"]),
    ("hyperloglog", &["p1", "p2"]),
    ("geo", &["g1", "z1"]),
];

const STRANGE_KEYS: [&[u8]; 4] = [b"", b"absent", b"k\0\xff\r\n", b"two words"];

/// Beginning of every sequence: creates a key of every type.
pub(crate) const PRELUDE: [&str; 12] = [
    "SET s1 hello",
    "SET n1 10",
    "SET n2 9223372036854775806 EX 100000000",
    "HSET h1 a 1 b two c 3.5",
    "RPUSH l1 a b c b",
    "RPUSH l2 1",
    "SADD e1 a b c",
    "SADD e2 1 2 3",
    "ZADD z1 1 a 2 b 3 c",
    "XADD x1 5-1 a 1",
    "PFADD p1 a b",
    "GEOADD g1 13.361389 38.115556 a 15.087269 37.502669 b",
];

/// Numbers that programs often get wrong.
const EDGES: [&[u8]; 44] = [
    b"0",
    b"-0",
    b"1",
    b"-1",
    b"2",
    b"7",
    b"-2",
    b"01",
    b"+1",
    b" 1",
    b"1 ",
    b"",
    b"1.0",
    b"1.5",
    b"-1.5",
    b"1e3",
    b"1e400",
    b"-1e400",
    b"1e-400",
    b"nan",
    b"inf",
    b"-inf",
    b"+inf",
    b"Infinity",
    b"0x10",
    b"1\0",
    b"abc",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"4611686018427387904",
    b"9223372036854776",
    b"18446744073709551615",
    b"18446744073709551616",
    b"2147483647",
    b"2147483648",
    b"-2147483648",
    b"4294967296",
    b"9007199254740993",
    b"99999999999999999999999999",
    b"1e18",
    b"\xff\x00",
    b".5",
];

const SMALL: [&[u8]; 9] = [b"0", b"1", b"2", b"3", b"-1", b"-2", b"5", b"10", b"100"];
const VALUES: [&[u8]; 12] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"",
    b"7",
    b"-1",
    b"1.5",
    b"two words",
    b"\xff\0\r\n",
    b"gr\xc3\xb6",
    b"10",
];
const PATTERNS: [&[u8]; 11] =
    [b"*", b"?1", b"[a-l]*", b"[^s]1", b"s*", b"", b"[", b"\\*", b"n*", b"news", b"w*->a"];
const IDS: [&[u8]; 14] = [
    b"0",
    b"5-1",
    b"5",
    b"5-2",
    b"6-0",
    b"7-1",
    b"0-0",
    b"$",
    b">",
    b"-",
    b"+",
    b"(5-1",
    b"6-*",
    b"18446744073709551615-18446744073709551615",
];
const SCORES: [&[u8]; 9] = [b"1", b"2", b"-3", b"0.5", b"(1", b"(2", b"-inf", b"+inf", b"inf"];
const LEXES: [&[u8]; 8] = [b"-", b"+", b"[a", b"(a", b"[b", b"(c", b"[", b"a"];
const CHANNELS: [&[u8]; 6] = [b"news", b"news:1", b"w", b"", b"ch\0\xff", b"two words"];
const WIDTHS: [&[u8]; 9] = [b"u8", b"i8", b"u1", b"i64", b"u63", b"u64", b"i5", b"i0", b"x8"];

/// Base of times to live: long enough that nothing expires during a sequence.
const FAR: u64 = 100_000_000;

/// Returns a word for this place.
pub(crate) fn any(rng: &mut Rng, place: &Setting<'_>) -> Vec<u8> {
    if rng.u8(..30) == 0 {
        return strange(rng);
    }
    match place.kind {
        "key" => key(rng, place.group),
        "unix-time" => unix_time(rng, place.name),
        "integer" => integer(rng, place),
        "double" => double(rng, place),
        "pattern" => pick(rng, &PATTERNS),
        _ => string(rng, place),
    }
}

/// Returns an arbitrary word.
pub(crate) fn strange(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..6) {
        0 => pick(rng, &VALUES),
        1 => key(rng, ""),
        _ => pick(rng, &EDGES),
    }
}

pub(crate) fn value(rng: &mut Rng) -> Vec<u8> {
    pick(rng, &VALUES)
}

pub(crate) fn key(rng: &mut Rng, group: &str) -> Vec<u8> {
    if rng.u8(..25) == 0 {
        return pick(rng, &STRANGE_KEYS);
    }
    let own = KEYS.iter().find(|(name, _)| *name == group && rng.u8(..8) > 0);
    let (_, keys) = own.unwrap_or_else(|| &KEYS[rng.usize(..KEYS.len())]);
    keys[rng.usize(..keys.len())].as_bytes().to_vec()
}

fn integer(rng: &mut Rng, place: &Setting<'_>) -> Vec<u8> {
    match place.name {
        _ if rng.u8(..6) == 0 => pick(rng, &EDGES),
        "seconds" | "milliseconds" | "ttl" => {
            let factor = if place.name == "seconds" { 1 } else { 1000 };
            ((FAR + rng.u64(..FAR)) * factor).to_string().into_bytes()
        }
        "cursor" => b"0".to_vec(),
        "db" | "destination-db" => pick(rng, &[b"0", b"1", b"15", b"16"]),
        "protover" => pick(rng, &[b"2", b"3", b"4"]),
        _ => pick(rng, &SMALL),
    }
}

fn double(rng: &mut Rng, place: &Setting<'_>) -> Vec<u8> {
    match place.name {
        _ if rng.u8(..6) == 0 => pick(rng, &EDGES),
        "timeout" => b"0.01".to_vec(),
        "min" | "max" => pick(rng, &SCORES),
        "longitude" | "latitude" => pick(rng, &[b"13.36", b"38.11", b"15", b"0", b"-80", b"181"]),
        "radius" | "width" | "height" => pick(rng, &[b"200", b"100.5", b"0", b"10000"]),
        _ => pick(rng, &[b"1", b"2.5", b"-3", b"0.1", b"3.0e2", b"1000000"]),
    }
}

fn unix_time(rng: &mut Rng, name: &str) -> Vec<u8> {
    if rng.u8(..8) == 0 {
        return pick(rng, &EDGES);
    }
    let factor = if name.ends_with("milliseconds") { 1000 } else { 1 };
    // From the year 2033 on.
    ((2_000_000_000 + rng.u64(..FAR)) * factor).to_string().into_bytes()
}

fn string(rng: &mut Rng, place: &Setting<'_>) -> Vec<u8> {
    match (place.group, place.name) {
        ("stream", "id" | "start" | "end" | "last-id" | "threshold" | "max_deleted_entry_id") => {
            pick(rng, &IDS)
        }
        ("sorted-set", "min" | "max" | "start" | "stop") => match rng.u8(..3) {
            0 => pick(rng, &SCORES),
            1 if place.command.contains("score") => pick(rng, &SCORES),
            1 => pick(rng, &SMALL),
            _ => pick(rng, &LEXES),
        },
        (_, "group" | "groupname") => pick(rng, &[b"gr", b"gr2"]),
        (_, "consumer" | "consumername") => pick(rng, &[b"c1", b"c2"]),
        (_, "channel" | "shardchannel") => pick(rng, &CHANNELS),
        (_, "operation") => pick(rng, &[b"AND", b"or", b"Xor", b"NOT", b"nope"]),
        (_, "encoding") => pick(rng, &WIDTHS),
        (_, "script") => lua::simple(rng).into_bytes(),
        (_, "sha1") => pick(rng, &[b"nosuch", b"ffffffffffffffffffffffffffffffffffffffff", b""]),
        (_, "username") => pick(rng, &[b"default", b"reader", b"nobody", b""]),
        (_, "type") => pick(rng, &[b"string", b"list", b"HASH", b"nope"]),
        (_, "command" | "command-name") => {
            pick(rng, &[b"get", b"SET", b"zunion", b"eval", b"nope"])
        }
        (_, "min-idle-time") => b"0".to_vec(),
        _ => pick(rng, &VALUES),
    }
}

pub(crate) fn pick(rng: &mut Rng, words: &[&[u8]]) -> Vec<u8> {
    words[rng.usize(..words.len())].to_vec()
}
