//! Handlers of the shim for each command: by the command table, with exceptions listed here.

use crate::catalogue::table;

/// Lua expression for a handler. [`READ`] keeps no image.
pub(super) type Handler = &'static str;

/// Handler of commands that change nothing and reply the same on all masters.
pub(super) const READ: Handler = "read";

/// Commands that are neither reads nor changes of only their first key.
const EXCEPTIONS: &[(&[&str], Handler)] = &[
    (&["get"], "get"),
    (&["mget"], "mget"),
    (&["strlen"], "strlen"),
    (&["exists"], READ),
    (&["getrange", "substr"], "getrange"),
    (&["bitcount", "bitfield_ro", "bitpos", "dump", "getbit"], "strings(2, 2)"),
    (&["lcs"], "strings(2, 3)"),
    (&["set"], "if_equal(with_options(4))"),
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
    (&["lpop", "rpop", "zpopmax", "zpopmin"], "pop"),
    (&["spop"], "spop"),
    (&["srandmember"], "drawing('set', members_of)"),
    (&["hrandfield"], "drawing('hash', fields_of)"),
    (&["zrandmember"], "drawing('zset', scored_of)"),
    (&["xadd"], "xadd"),
    (&["xclaim"], "claim"),
    (&["xautoclaim"], "claim_all"),
    (&["xpending"], "pending"),
    (&["hexpire", "hexpireat", "hgetex", "hpexpire", "hpexpireat", "hsetex", "msetex"], "by_clock"),
    (&["del", "unlink"], "write_all"),
    (&["mset", "msetnx"], "write_pairs"),
    (&["rename", "renamenx", "smove"], "write_two"),
    (&["copy"], "copy"),
    (&["restore", "restore-asking"], "restore"),
    (&["lmove", "rpoplpush"], "pop_two"),
    (&["lmpop", "zmpop"], "pop_counted"),
    (&["bitop"], "strings(3, 7900)"),
    (&["pfmerge"], "merge"),
    (&["xgroup"], "write_second"),
    (&["georadius", "georadiusbymember"], "write_stored"),
    (&["sort", "sort_ro"], "looking_up(write_stored)"),
    (&["keys", "scan"], "on_all_keys(names_of_keys)"),
    (&["dbsize"], "on_all_keys(number_of_keys)"),
    (&["randomkey"], "on_all_keys(random_key)"),
    (&["info"], "keyspace_info"),
    (&["hkeys", "hvals", "sdiff", "sinter", "smembers", "sunion"], "unordered"),
    (&["hgetall"], "unordered_pairs"),
    (&["xreadgroup"], "write_streams"),
    (&["xread"], READ),
    (&["select"], "choose_db"),
    (&["flushall", "flushdb", "migrate", "move", "swapdb"], "refuse"),
];

/// Returns whether a handler only reads, and at most takes the tag off a lease. Declared keys of a script have no tags
/// while it runs.
pub(super) fn only_reads(handler: Handler) -> bool {
    [READ, "get", "mget", "strlen", "getrange", "strings(2, 2)", "strings(2, 3)"].contains(&handler)
}

/// Returns the handler of the command with this name; `None` if there is no such command.
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

/// Returns whether the effect of this command would depend on each master's own clock.
pub fn is_by_clock(name: &str) -> bool {
    handler(name) == Some("by_clock")
}

/// Returns the handler for registers, where every key that is read counts as well.
pub(super) fn on_registers(name: &str, handler: Handler) -> Handler {
    let spec = table::lookup(name.as_bytes());
    let keys = spec.map(|spec| (spec.first_key, spec.last_key));
    let moves = spec.is_some_and(|spec| spec.flags.contains(&"movablekeys"));
    match handler {
        READ if keys == Some((0, 0)) && !moves => READ,
        READ if name == "exists" => "asking.exists",
        "get" => "asking.get",
        "mget" => "asking.mget",
        READ | "strlen" | "getrange" | "strings(2, 2)" if keys == Some((1, 1)) && !moves => {
            "reading_first(read)"
        }
        READ | "strlen" | "getrange" | "strings(2, 2)" | "strings(2, 3)" => "reading(read)",
        "write" if keys == Some((1, 1)) && !moves => "write",
        "write" | "write_stored" | "strings(3, 7900)" => "keyed",
        "looking_up(write_stored)" => "looking_up(keyed)",
        "unordered" => "reading(unordered)",
        "unordered_pairs" => "reading(unordered_pairs)",
        other => other,
    }
}

/// Call of `cheap.lua` for the only key of a program on registers.
pub(super) struct Cheap {
    /// Function in `cheap.lua`.
    pub(super) function: &'static str,
    /// First argument, before those of the call itself, with a comma.
    pub(super) first: String,
    /// Required number of words, with the name of the command; `None` for any number.
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

/// Returns the commands that write, and need memory for that or not.
pub(super) fn writing(needs_memory: bool) -> String {
    let is_one = |spec: &&table::Spec| {
        spec.flags.contains(&"write") && spec.flags.contains(&"denyoom") == needs_memory
    };
    table::all().iter().filter(is_one).map(|spec| spec.name).collect::<Vec<_>>().join(" ")
}

/// Returns whether this command only adds to its one key, and its reply is the same in both protocols.
pub fn adds(name: &str) -> bool {
    GROWTH.iter().any(|(what, names)| *what != "z" && names.contains(&name))
}

/// Returns the call of `cheap.lua` for this command; `None` if there is none.
pub(super) fn cheap(name: &str) -> Option<Cheap> {
    let name = name.to_ascii_lowercase();
    if let Some((what, _)) = GROWTH.iter().find(|(_, names)| names.contains(&&*name)) {
        return Some(Cheap { function: "grow", first: format!("'{what}',"), words: None });
    }
    let (function, first, words) = match name.as_str() {
        "expire" => ("expire", "1000,", 3),
        "pexpire" => ("expire", "1,", 3),
        "exists" => ("exists", "", 2),
        "pttl" => ("pttl", "", 2),
        _ => return None,
    };
    Some(Cheap { function, first: first.to_owned(), words: Some(words) })
}

/// Returns `rare.lua` with the required lists of commands. `of` adapts each handler to the place where it is used.
pub(super) fn rare(of: fn(&str, Handler) -> Handler) -> String {
    let handlers = EXCEPTIONS.iter().map(|(names, handler)| {
        let handler = of(names[0], handler);
        let is: Vec<_> = names.iter().map(|name| format!("name == '{name}'")).collect();
        format!("  if {} then return {handler} end\n", is.join(" or "))
    });
    let named = |is_one: fn(&str) -> bool, writes: bool| {
        let of_it = |spec: &&table::Spec| spec.flags.contains(&"write") == writes;
        let specs = table::all().iter().filter(of_it);
        specs.map(|spec| spec.name).filter(|name| is_one(name)).collect::<Vec<_>>().join(" ")
    };
    let reads_first = |name: &str| on_registers(name, READ) == "reading_first(read)";
    let writes_first = |name: &str| on_registers(name, "write") == "write";
    include_str!("rare.lua")
        .replace("  HANDLERS\n", &handlers.collect::<String>())
        .replace("FIRST_READ", &named(reads_first, false))
        .replace("FIRST_WRITTEN", &named(writes_first, true))
        .replace("READS", &named(|_| true, false))
        .replace("OTHER_READ", of("", READ))
        .replace("OTHER_WRITE", of("", "write"))
}
