//! The commands of Redis 7.0 that the proxy does not answer.

/// Name and categories of `ACL CAT`, but for `slow`, which is what is not `fast`, and `dangerous` of
/// what is `admin`; in alphabetical order. Clients cannot send these, but their scripts can.
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
