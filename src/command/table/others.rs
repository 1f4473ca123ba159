//! The commands of Redis 7.0 that the proxy does not answer.

/// In alphabetical order, lower case.
#[rustfmt::skip]
pub(super) static OTHERS: &[&str] = &[
    "asking", "bgrewriteaof", "bgsave", "debug", "failover", "fcall", "fcall_ro",
    "function", "georadiusbymember", "georadiusbymember_ro", "hrandfield", "lastsave",
    "latency", "lolwut", "memory", "migrate", "module", "monitor", "move", "pfdebug",
    "pfselftest", "psync", "randomkey",
    "replconf", "replicaof", "restore-asking", "save", "shutdown", "slaveof", "slowlog",
    "spop", "srandmember", "swapdb",
    "sync", "xread", "xreadgroup", "zrandmember",
];
