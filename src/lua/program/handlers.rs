//! How the shim handles each command: by the command table, with exceptions listed here.

use std::sync::LazyLock;

use super::compact;
use crate::command::table;

/// The part of the wrapper that a handler is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `shim.lua`
    Shim,
    /// `ttl.lua`
    Ttl,
    /// `rare.lua`
    Rare,
}

/// A handler as Lua has it, and where.
pub(super) type Handler = (&'static str, Part);

/// Commands that are neither reads nor changes of their first key only.
const EXCEPTIONS: &[(&[&str], Handler)] = &[
    (&["set"], ("with_options(4)", Part::Ttl)),
    (&["getex"], ("with_options(3)", Part::Ttl)),
    (&["setex"], ("setex_in(1000)", Part::Ttl)),
    (&["psetex"], ("setex_in(1)", Part::Ttl)),
    (&["expire"], ("expire_in(1000)", Part::Ttl)),
    (&["pexpire"], ("expire_in(1)", Part::Ttl)),
    (&["expireat"], ("expire_in(1000, true)", Part::Ttl)),
    (&["pexpireat"], ("expire_in(1, true)", Part::Ttl)),
    (&["ttl"], ("ttl_in(1000)", Part::Ttl)),
    (&["pttl"], ("ttl_in(1)", Part::Ttl)),
    (&["expiretime"], ("end_in(1000)", Part::Ttl)),
    (&["pexpiretime"], ("end_in(1)", Part::Ttl)),
    (&["time"], ("time", Part::Shim)),
    (&["publish", "spublish"], ("publish", Part::Shim)),
    (&["lpop", "rpop", "spop", "zpopmax", "zpopmin"], ("pop", Part::Shim)),
    (&["del", "unlink"], ("write_each(2, 1)", Part::Rare)),
    (&["mset", "msetnx"], ("write_each(2, 2)", Part::Rare)),
    (&["copy", "rename", "renamenx", "smove"], ("write_two", Part::Rare)),
    (&["lmove", "rpoplpush"], ("pop_two", Part::Rare)),
    (&["lmpop", "zmpop"], ("pop_counted", Part::Rare)),
    (&["bitop", "xgroup"], ("write_second", Part::Rare)),
    (&["georadius", "georadiusbymember", "sort"], ("write_stored", Part::Rare)),
    (
        &["hkeys", "hvals", "keys", "sdiff", "sinter", "smembers", "sunion"],
        ("unordered", Part::Rare),
    ),
    (&["select"], ("choose_db", Part::Rare)),
    (&["flushall", "flushdb", "migrate", "move", "swapdb"], ("refuse", Part::Rare)),
];

/// What is done with the command of this name; `None`: there is no such command.
pub(super) fn handler(name: &str) -> Option<Handler> {
    let name = name.to_ascii_lowercase();
    let exception = EXCEPTIONS.iter().find(|(names, _)| names.contains(&&*name));
    if let Some((_, handler)) = exception {
        return Some(*handler);
    }
    let spec = table::lookup(name.as_bytes())?;
    let writes = spec.flags.contains(&"write");
    Some((if writes { "write" } else { "read" }, Part::Shim))
}

/// `rare.lua`, with what it has to know about every command.
pub(super) static RARE: LazyLock<String> = LazyLock::new(|| {
    let handlers = EXCEPTIONS.iter().map(|(names, (handler, _))| {
        let is: Vec<_> = names.iter().map(|name| format!("name == '{name}'")).collect();
        format!("if {} then return {handler} end\n", is.join(" or "))
    });
    let reads = table::all().iter().filter(|spec| !spec.flags.contains(&"write"));
    let reads: Vec<_> = reads.map(|spec| spec.name).collect();
    compact(include_str!("rare.lua"))
        .replace("HANDLERS\n", &handlers.collect::<String>())
        .replace("READS", &reads.join(" "))
});
