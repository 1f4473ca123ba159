//! Commands of Redis 7.0 that the proxy does not answer.

/// Names and categories of `ACL CAT`, in alphabetical order. `slow` is implied by the lack of `fast`, and `dangerous`
/// by `admin`. Clients cannot send these commands, but their scripts can.
#[rustfmt::skip]
pub(super) static OTHERS: &[(&str, &str)] = &[
    ("asking", "fast connection"),
    ("bgrewriteaof", "admin"),
    ("bgsave", "admin"),
    ("debug", "admin"),
    ("failover", "admin"),
    ("lastsave", "admin fast"),
    ("lolwut", "read fast"),
    ("memory", ""),
    ("migrate", "keyspace write dangerous"),
    ("module", ""),
    ("move", "keyspace write fast"),
    ("pfdebug", "write hyperloglog admin"),
    ("pfselftest", "hyperloglog admin"),
    ("psync", "admin"),
    ("replconf", "admin"),
    ("replicaof", "admin"),
    ("restore-asking", "keyspace write dangerous"),
    ("save", "admin"),
    ("shutdown", "admin"),
    ("slaveof", "admin"),
    ("swapdb", "keyspace write fast dangerous"),
    ("sync", "admin"),
];
