//! Rows of the command table, in alphabetical order.
//!
//! Arity, flags, key positions and versions are those that redis-server 7.0 reports in `COMMAND INFO` and
//! `COMMAND DOCS`. Clients that route or check by them must find the same values here. `DELEX` comes from Redis 8.4,
//! and `DELIFEQ` from Valkey 9.0.

use super::{Family, KEYS, NO_KEY, ONE_KEY, RunBy, Spec, commands};

commands! {
    Acl "acl" -2 NO_KEY []
        "6.0.0" Server "The connection's user, and all users",
        "Answered from the users in the settings file; changes are refused.";
    Append "append" 3 ONE_KEY ["write" "denyoom" "fast"]
        "2.0.0" Key "Add to the end of a value",
        REGISTER;
    Auth "auth" -2 NO_KEY ["noscript" "loading" "stale" "fast" "no_auth" "allow_busy"]
        "1.0.0" Connection "Authenticate the client",
        "Checked against the proxy's own users; only the proxy logs in to the masters.";
    Client "client" -2 NO_KEY []
        "2.4.0" Connection "Name, list and control connections",
        "Answered by the proxy about its own connections.";
    Cluster "cluster" -2 NO_KEY []
        "3.0.0" Server "Refused: no cluster",
        NO_CLUSTER;
    Command "command" -1 NO_KEY ["loading" "stale"]
        "2.8.13" Server "Describe the commands",
        "Answered from the proxy's own command table.";
    Config "config" -2 NO_KEY []
        "2.0.0" Server "Read and change settings",
        "The proxy's settings; SET changes those that can change while it runs, until the next start.";
    DbSize "dbsize" 1 NO_KEY ["readonly" "fast"]
        "1.0.0" Keyspace "Count the keys",
        "The number of keys that a majority of masters holds.";
    Decr "decr" 2 ONE_KEY ["write" "denyoom" "fast"]
        "1.0.0" Counter "Subtract one from a number",
        REGISTER;
    DecrBy "decrby" 3 ONE_KEY ["write" "denyoom" "fast"]
        "1.0.0" Counter "Subtract an amount from a number",
        REGISTER;
    Del "del" -2 KEYS ["write"]
        "1.0.0" Lock "Delete keys",
        VOTED_SUM;
    DelEx "delex" -2 ONE_KEY ["write" "fast"]
        "8.4.0" Lock "Delete a key if its value is as expected",
        RELEASE;
    DelIfEq "delifeq" 3 ONE_KEY ["write" "fast"]
        "9.0.0" Lock "Delete a key if its value is equal",
        RELEASE;
    Discard "discard" 1 NO_KEY ["noscript" "loading" "stale" "fast" "allow_busy"]
        "2.0.0" Transaction "Discard the queued commands",
        LOCAL;
    Echo "echo" 2 NO_KEY ["loading" "stale" "fast"]
        "1.0.0" Connection "Answer with the argument",
        LOCAL;
    Eval "eval" -3 NO_KEY ["noscript" "stale" "skip_monitor" "no_mandatory_keys" "movablekeys"]
        "2.6.0" Script "Run a Lua script",
        PROGRAM;
    EvalRo "eval_ro" -3 NO_KEY ["readonly" "noscript" "stale" "skip_monitor" "no_mandatory_keys" "movablekeys"]
        "7.0.0" Script "Run a Lua script that changes nothing",
        PROGRAM;
    EvalSha "evalsha" -3 NO_KEY ["noscript" "stale" "skip_monitor" "no_mandatory_keys" "movablekeys"]
        "2.6.0" Script "Run a Lua script by its SHA1",
        PROGRAM;
    EvalShaRo "evalsha_ro" -3 NO_KEY ["readonly" "noscript" "stale" "skip_monitor" "no_mandatory_keys" "movablekeys"]
        "7.0.0" Script "Run a Lua script that changes nothing, by its SHA1",
        PROGRAM;
    Exec "exec" 1 NO_KEY ["noscript" "loading" "stale" "skip_slowlog"]
        "1.2.0" Transaction "Run the queued commands",
        "A program of all commands in the queue; if a watched key has changed, nothing runs.";
    Exists "exists" -2 KEYS ["readonly" "fast"]
        "1.0.0" Key "Count which of the keys exist",
        "The keys that a quorum holds at one moment; the reply is their number.";
    Expire "expire" -3 ONE_KEY ["write" "fast"]
        "1.0.0" Expiry "Set the time to live in seconds",
        REGISTER_EXPIRY;
    ExpireAt "expireat" -3 ONE_KEY ["write" "fast"]
        "1.2.0" Expiry "Set the Unix time of expiry in seconds",
        REGISTER_EXPIRY;
    ExpireTime "expiretime" 2 ONE_KEY ["readonly" "fast"]
        "7.0.0" Expiry "The Unix time of expiry in seconds",
        VOTED_TIME;
    Fcall "fcall" -3 NO_KEY ["noscript" "stale" "skip_monitor" "no_mandatory_keys" "movablekeys"]
        "7.0.0" Script "Call a function of a library",
        FUNCTION;
    FcallRo "fcall_ro" -3 NO_KEY ["readonly" "noscript" "stale" "skip_monitor" "no_mandatory_keys" "movablekeys"]
        "7.0.0" Script "Call a function of a library that changes nothing",
        FUNCTION;
    FlushAll "flushall" -1 NO_KEY ["write"]
        "1.0.0" Keyspace "Remove all keys of all databases",
        FLUSH;
    FlushDb "flushdb" -1 NO_KEY ["write"]
        "1.0.0" Keyspace "Remove all keys of the database",
        FLUSH;
    Function "function" -2 NO_KEY []
        "7.0.0" Script "Load, list and remove libraries of functions",
        "Libraries are kept in a register reserved for the proxies.";
    Get "get" 2 ONE_KEY ["readonly" "fast"]
        "1.0.0" Key "The value of a key",
        VOTED_VALUE;
    GetDel "getdel" 2 ONE_KEY ["write" "fast"]
        "6.2.0" Key "The value of a key, which is deleted",
        REGISTER;
    GetEx "getex" -2 ONE_KEY ["write" "fast"]
        "6.2.0" Key "The value of a key, whose expiry is changed",
        REGISTER;
    GetRange "getrange" 4 ONE_KEY ["readonly"]
        "2.4.0" Key "A part of a value",
        VOTED_VALUE;
    GetSet "getset" 3 ONE_KEY ["write" "denyoom" "fast"]
        "1.0.0" Key "Replace a value and return the old one",
        REGISTER;
    Hello "hello" -1 NO_KEY ["noscript" "loading" "stale" "fast" "no_auth" "allow_busy"]
        "6.0.0" Connection "Choose the protocol, authenticate and name the connection",
        LOCAL;
    Incr "incr" 2 ONE_KEY ["write" "denyoom" "fast"]
        "1.0.0" Counter "Add one to a number",
        REGISTER;
    IncrBy "incrby" 3 ONE_KEY ["write" "denyoom" "fast"]
        "1.0.0" Counter "Add an amount to a number",
        REGISTER;
    Info "info" -1 NO_KEY ["loading" "stale"]
        "1.0.0" Server "Information about the server",
        "The proxy's own facts and its view of the masters.";
    Keys "keys" 2 NO_KEY ["readonly"]
        "1.0.0" Keyspace "Keys that match a pattern",
        "One master after another, page by page, in one reply: only keys that a majority holds.";
    Latency "latency" -2 NO_KEY []
        "2.8.13" Server "Latency of requests",
        "HISTOGRAM: from the first question to the masters to the reply, by command; there is no latency monitor.";
    Mget "mget" -2 KEYS ["readonly" "fast"]
        "1.0.0" Key "The values of several keys",
        "The values a quorum holds at one moment; each lock is read separately.";
    Monitor "monitor" 1 NO_KEY ["admin" "noscript" "loading" "stale"]
        "1.0.0" Server "Watch the requests of all clients",
        "Every request of every client of this proxy, as it is started, and the commands of its scripts once they are decided.";
    Multi "multi" 1 NO_KEY ["noscript" "loading" "stale" "fast" "allow_busy"]
        "1.2.0" Transaction "Queue commands until EXEC",
        LOCAL;
    Persist "persist" 2 ONE_KEY ["write" "fast"]
        "2.2.0" Expiry "Remove the expiry",
        "A program on registers. This turns a lock into a register.";
    Pexpire "pexpire" -3 ONE_KEY ["write" "fast"]
        "2.6.0" Expiry "Set the time to live in milliseconds",
        REGISTER_EXPIRY;
    PexpireAt "pexpireat" -3 ONE_KEY ["write" "fast"]
        "2.6.0" Expiry "Set the Unix time of expiry in milliseconds",
        REGISTER_EXPIRY;
    PexpireTime "pexpiretime" 2 ONE_KEY ["readonly" "fast"]
        "7.0.0" Expiry "The Unix time of expiry in milliseconds",
        VOTED_TIME;
    Ping "ping" -1 NO_KEY ["fast"]
        "1.0.0" Connection "Check that the connection works",
        LOCAL;
    PsetEx "psetex" 4 ONE_KEY ["write" "denyoom"]
        "2.6.0" Lock "Set a value that expires, in milliseconds",
        REGISTER;
    Psubscribe "psubscribe" -2 NO_KEY ["pubsub" "noscript" "loading" "stale"]
        "2.0.0" Pubsub "Listen to the channels that match patterns",
        SUBSCRIBE;
    Pttl "pttl" 2 ONE_KEY ["readonly" "fast"]
        "2.6.0" Expiry "The time to live in milliseconds",
        VOTED_TIME;
    Publish "publish" 3 NO_KEY ["pubsub" "loading" "stale" "fast"]
        "2.0.0" Pubsub "Publish a message to a channel",
        PUBLISH;
    Pubsub "pubsub" -2 NO_KEY []
        "2.8.0" Pubsub "Subscriptions and subscribers",
        "Subscriptions at any master, with the proxy's own connections replaced by its clients.";
    Punsubscribe "punsubscribe" -1 NO_KEY ["pubsub" "noscript" "loading" "stale"]
        "2.0.0" Pubsub "Stop listening to the channels that match patterns",
        UNSUBSCRIBE;
    Quit "quit" -1 NO_KEY ["noscript" "loading" "stale" "fast" "no_auth" "allow_busy"]
        "1.0.0" Connection "Close the connection",
        LOCAL;
    RandomKey "randomkey" 1 NO_KEY ["readonly"]
        "1.0.0" Keyspace "A random key",
        "Chosen on one master from the keys that a majority holds.";
    ReadOnly "readonly" 1 NO_KEY ["loading" "stale" "fast"]
        "3.0.0" Connection "Refused: no cluster",
        NO_CLUSTER;
    ReadWrite "readwrite" 1 NO_KEY ["loading" "stale" "fast"]
        "3.0.0" Connection "Refused: no cluster",
        NO_CLUSTER;
    Reset "reset" 1 NO_KEY ["noscript" "loading" "stale" "fast" "no_auth" "allow_busy"]
        "6.2.0" Connection "Forget the state of the connection",
        LOCAL;
    Role "role" 1 NO_KEY ["noscript" "loading" "stale" "fast"]
        "2.8.12" Server "The role in replication",
        "Always a master without replicas.";
    Scan "scan" -2 NO_KEY ["readonly"]
        "2.8.0" Keyspace "Walk over the keys",
        "One master after another, page by page; only keys that a majority holds.";
    Script "script" -2 NO_KEY []
        "2.6.0" Script "Load, look up and forget scripts",
        "Answered from the proxy's script cache.";
    Select "select" 2 NO_KEY ["loading" "stale" "fast"]
        "1.0.0" Connection "Choose the database",
        "Kept by the session; its requests run in that database of the masters.";
    Set "set" -3 ONE_KEY ["write" "denyoom"]
        "1.0.0" Lock "Set a value, or claim a lock with NX",
        "With NX and a time to live a claim: granted by a quorum in time, else taken back. Otherwise a program on registers.";
    SetEx "setex" 4 ONE_KEY ["write" "denyoom"]
        "2.0.0" Lock "Set a value that expires, in seconds",
        REGISTER;
    SetNx "setnx" 3 ONE_KEY ["write" "denyoom" "fast"]
        "1.0.0" Lock "Claim a key that must not exist",
        "Without a TTL, a program on registers; with --no-ttl lease=, a claim.";
    Slowlog "slowlog" -2 NO_KEY []
        "2.2.12" Server "Slow requests",
        "From the first request to the masters until the reply; each entry has the command and its key.";
    Spublish "spublish" 3 ONE_KEY ["pubsub" "loading" "stale" "fast"]
        "7.0.0" Pubsub "Publish a message to a shard channel",
        PUBLISH;
    Ssubscribe "ssubscribe" -2 KEYS ["pubsub" "noscript" "loading" "stale"]
        "7.0.0" Pubsub "Listen to shard channels",
        SUBSCRIBE;
    Strlen "strlen" 2 ONE_KEY ["readonly" "fast"]
        "2.2.0" Key "The length of a value",
        VOTED_VALUE;
    Subscribe "subscribe" -2 NO_KEY ["pubsub" "noscript" "loading" "stale"]
        "2.0.0" Pubsub "Listen to channels",
        SUBSCRIBE;
    Substr "substr" 4 ONE_KEY ["readonly"]
        "1.0.0" Key "Part of a value (old name of GETRANGE)",
        VOTED_VALUE;
    Sunsubscribe "sunsubscribe" -1 KEYS ["pubsub" "noscript" "loading" "stale"]
        "7.0.0" Pubsub "Stop listening to shard channels",
        UNSUBSCRIBE;
    Time "time" 1 NO_KEY ["loading" "stale" "fast"]
        "2.6.0" Server "The server's wall clock",
        "The median of the masters' clocks.";
    Touch "touch" -2 KEYS ["readonly" "fast"]
        "3.2.1" Key "Count which of the keys exist, and mark them used",
        "As `EXISTS`: which keys were used is the masters' affair.";
    Ttl "ttl" 2 ONE_KEY ["readonly" "fast"]
        "1.0.0" Expiry "The time to live in seconds",
        VOTED_TIME;
    Type "type" 2 ONE_KEY ["readonly" "fast"]
        "1.0.0" Key "The type of a value",
        "The type that a quorum agrees on.";
    Unlink "unlink" -2 KEYS ["write" "fast"]
        "4.0.0" Lock "Delete keys and free their memory later",
        VOTED_SUM;
    Unsubscribe "unsubscribe" -1 NO_KEY ["pubsub" "noscript" "loading" "stale"]
        "2.0.0" Pubsub "Stop listening to channels",
        UNSUBSCRIBE;
    Unwatch "unwatch" 1 NO_KEY ["noscript" "loading" "stale" "fast" "allow_busy"]
        "2.2.0" Transaction "Unwatch all keys",
        LOCAL;
    Wait "wait" 3 NO_KEY ["noscript"]
        "3.0.0" Server "Wait for replicas",
        "Answers 0 at once: independent masters have no replicas.";
    Watch "watch" -2 KEYS ["noscript" "loading" "stale" "fast" "allow_busy"]
        "2.2.0" Transaction "Make EXEC do nothing if a key has changed",
        "The proxy remembers each key's last program as a quorum shows it, and EXEC fails if it has changed.";
}

const PROGRAM: &str = "Recognised lock scripts run as claims, releases or extensions; all others as programs on registers.";
const FUNCTION: &str =
    "The library is run as a program on registers, after a quorum has reported the libraries.";
const VOTED_VALUE: &str =
    "The value a quorum agrees on; if no value has a majority, the key does not exist.";
pub(super) const REGISTER: &str = "A program on registers: done once, on a quorum, or not at all.";
const VOTED_SUM: &str = "Run on all masters; the reply is put to a vote and summed over the keys.";
const VOTED_TIME: &str =
    "The longest remaining time that a quorum still guarantees, less the proxy's own padding.";
const REGISTER_EXPIRY: &str =
    "A program on registers, with the time padded. This turns a lock into a register.";
const LOCAL: &str = "Answered by the proxy without the masters.";
const NO_CLUSTER: &str = "Returns the error of a Redis that is not a cluster node.";
const FLUSH: &str = "Done by a majority of the masters, and by the others before their votes count again, if the settings allow flushing.";
const PUBLISH: &str = "Published on every reachable master and delivered once. Needs no quorum; fails if no master is reachable.";
const SUBSCRIBE: &str = "Subscribes on all masters. Confirmed once all reachable masters confirm, or at least one by the end of the vote timeout.";
const UNSUBSCRIBE: &str = "No messages follow the confirmation.";
const RELEASE: &str = "A release: compared and deleted on all masters; when no quorum answers, one success is enough.";
