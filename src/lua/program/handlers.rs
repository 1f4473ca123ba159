//! How the shim handles each command: by the command table, with exceptions listed here.

use crate::command::table;

/// A handler as Lua has it; [`READ`] keeps no image.
pub(super) type Handler = &'static str;

/// The handler of commands that change nothing and answer the same on all masters.
pub(super) const READ: Handler = "read";

/// Commands that are neither reads nor changes of their first key only.
const EXCEPTIONS: &[(&[&str], Handler)] = &[
    (&["get"], "get"),
    (&["mget"], "mget"),
    (&["strlen"], "strlen"),
    (&["getrange", "substr"], "getrange"),
    (&["bitcount", "bitfield_ro", "bitpos", "dump", "getbit"], "strings(2, 2)"),
    (&["lcs"], "strings(2, 3)"),
    (&["set"], "with_options(4)"),
    (&["getex"], "with_options(3)"),
    (&["setex"], "setex_in(1000)"),
    (&["psetex"], "setex_in(1)"),
    (&["expire"], "expire_in(1000, 0)"),
    (&["pexpire"], "expire_in(1, 0)"),
    (&["expireat"], "expire_in(1000, now_ms())"),
    (&["pexpireat"], "expire_in(1, now_ms())"),
    (&["ttl"], "in_seconds(remaining)"),
    (&["pttl"], "remaining"),
    (&["expiretime"], "in_seconds(expiry)"),
    (&["pexpiretime"], "expiry"),
    (&["time"], "time"),
    (&["publish", "spublish"], "publish"),
    (&["lpop", "rpop", "spop", "zpopmax", "zpopmin"], "pop"),
    (&["del", "unlink"], "write_all"),
    (&["mset", "msetnx"], "write_pairs"),
    (&["rename", "renamenx", "smove"], "write_two"),
    (&["copy"], "copy"),
    (&["restore", "restore-asking"], "restore"),
    (&["lmove", "rpoplpush"], "pop_two"),
    (&["lmpop", "zmpop"], "pop_counted"),
    (&["bitop"], "strings(3, 7900)"),
    (&["xgroup"], "write_second"),
    (&["georadius", "georadiusbymember"], "write_stored"),
    (&["sort", "sort_ro"], "looking_up(write_stored)"),
    (&["keys", "scan"], "names_of_keys"),
    (&["dbsize"], "number_of_keys"),
    (&["randomkey"], "random_key"),
    (&["info"], "keyspace_info"),
    (&["hkeys", "hvals", "sdiff", "sinter", "smembers", "sunion"], "unordered"),
    (&["hgetall"], "unordered_pairs"),
    (&["xreadgroup"], "write_streams"),
    (&["xread"], READ),
    (&["select"], "choose_db"),
    (&["flushall", "flushdb", "migrate", "move", "swapdb"], "refuse"),
];

/// Whether a handler does no more than to read, and at most takes the tag off a lease. Keys that a script declares have
/// none while it runs.
pub(super) fn only_reads(handler: Handler) -> bool {
    [READ, "get", "mget", "strlen", "getrange", "strings(2, 2)", "strings(2, 3)"].contains(&handler)
}

/// What is done with the command of this name; `None`: there is no such command.
pub(super) fn handler(name: &str) -> Option<Handler> {
    let name = name.to_ascii_lowercase();
    let exception = EXCEPTIONS.iter().find(|(names, _)| names.contains(&&*name));
    if let Some((_, handler)) = exception {
        return Some(*handler);
    }
    let spec = table::lookup(name.as_bytes())?;
    let writes = spec.flags.contains(&"write");
    Some(if writes { "write" } else { READ })
}

/// The same on registers, where every key that is read counts as well.
pub(super) fn on_registers(name: &str, handler: Handler) -> Handler {
    let spec = table::lookup(name.as_bytes());
    let keys = spec.map(|spec| (spec.first_key, spec.last_key));
    let moves = spec.is_some_and(|spec| spec.flags.contains(&"movablekeys"));
    match handler {
        READ if keys == Some((0, 0)) && !spec.is_some_and(table::Spec::has_counted_keys) => READ,
        READ | "get" | "mget" | "strlen" | "getrange" | "strings(2, 2)" | "strings(2, 3)" => {
            "reading(read)"
        }
        "write" if keys == Some((1, 1)) && !moves => "write",
        "write" | "write_stored" | "strings(3, 7900)" => "keyed",
        "looking_up(write_stored)" => "looking_up(keyed)",
        "unordered" => "reading(unordered)",
        "unordered_pairs" => "reading(unordered_pairs)",
        other => other,
    }
}

/// How a call of the one key of a program on registers is told to `cheap.lua`.
pub(super) struct Cheap {
    /// What it is, there.
    pub(super) what: &'static str,
    /// How many words it has, with the name of the command; `None`: any number.
    pub(super) words: Option<usize>,
}

/// Commands that add to a value of the type before them, never remove it, and leave its end as it is.
const GROWTH: [(&str, &[&str]); 5] = [
    ("s", &["append", "decr", "decrby", "incr", "incrby", "incrbyfloat", "setbit"]),
    ("l", &["linsert", "lpush", "lpushx", "lset", "rpush", "rpushx"]),
    ("e", &["sadd"]),
    ("z", &["zadd", "zincrby"]),
    ("h", &["hincrby", "hincrbyfloat", "hmset", "hset", "hsetnx"]),
];

/// What a call of this command is to `cheap.lua`; `None`: nothing.
pub(super) fn cheap(name: &str) -> Option<Cheap> {
    let name = name.to_ascii_lowercase();
    if let Some((what, _)) = GROWTH.iter().find(|(_, names)| names.contains(&&*name)) {
        return Some(Cheap { what, words: None });
    }
    let others = [("expire", 3), ("pexpire", 3), ("exists", 2), ("pttl", 2)];
    let (what, words) = others.into_iter().find(|(what, _)| *what == name)?;
    Some(Cheap { what, words: Some(words) })
}

/// `rare.lua`, with what it has to know about every command; `of` is what a handler is where it is used.
pub(super) fn rare(of: fn(&str, Handler) -> Handler) -> String {
    let handlers = EXCEPTIONS.iter().map(|(names, handler)| {
        let handler = of(names[0], handler);
        let is: Vec<_> = names.iter().map(|name| format!("name == '{name}'")).collect();
        format!("  if {} then return {handler} end\n", is.join(" or "))
    });
    let reads = table::all().iter().filter(|spec| !spec.flags.contains(&"write"));
    let reads: Vec<_> = reads.map(|spec| spec.name).collect();
    include_str!("rare.lua")
        .replace("  HANDLERS\n", &handlers.collect::<String>())
        .replace("READS", &reads.join(" "))
        .replace("OTHER_READ", of("", READ))
        .replace("OTHER_WRITE", of("", "write"))
}
