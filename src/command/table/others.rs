//! The commands of Redis 7.0 that the proxy does not answer.

/// In alphabetical order, lower case.
#[rustfmt::skip]
pub(super) static OTHERS: &[&str] = &[
    "asking", "bgrewriteaof", "bgsave", "debug", "failover", "fcall", "fcall_ro",
    "function", "georadiusbymember", "georadiusbymember_ro", "hrandfield", "lastsave",
    "lolwut", "memory", "migrate", "module", "move", "pfdebug",
    "pfselftest", "psync", "randomkey",
    "replconf", "replicaof", "restore-asking", "save", "shutdown", "slaveof",
    "spop", "srandmember", "swapdb",
    "sync", "xread", "xreadgroup", "zrandmember",
];
