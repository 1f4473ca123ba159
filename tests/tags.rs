//! Masters keep a tag in front of the token of a lease. No client and no script sees it, and no script removes it.

mod support;

use redlock_proxy::decision::lease::attempt::{Stored, Tag};
use support::{Masters, Proxy, Raw, Reply, compare, target_is_plain_redis, words};

/// Every command that reads a string, or its properties.
const COMMANDS: &str = r#"
    SET lock mine NX PX 600000
    GET lock
    MGET lock missing lock
    STRLEN lock
    GETRANGE lock 0 0
    GETRANGE lock -2 -1
    SUBSTR lock 1 2
    GETBIT lock 1
    BITCOUNT lock
    BITCOUNT lock 0 0
    BITPOS lock 1
    DUMP lock
    OBJECT ENCODING lock
    TYPE lock
    EXISTS lock
    GETEX lock
    BITFIELD lock GET u8 8
    SET lock other NX GET
    SORT_RO lock
    SET other mine NX PX 600000
    BITOP AND both lock other
    GET both
    MULTI
    GET lock
    STRLEN lock
    GETRANGE lock 0 1
    DUMP lock
    EXEC
    MULTI
    GET lock
    MGET missing lock lock
    EXISTS lock missing
    STRLEN lock
    GET lock
    MGET lock
    EXEC
    SET digits 41 NX PX 600000
    INCR digits
    GET digits
    SET word mine NX PX 600000
    MULTI
    GET word
    APPEND word ?
    GET word
    MGET word lock
    DEL word
    EXISTS word
    GET word
    EXEC
    SET word mine NX PX 600000
    APPEND word " or yours"
    GET word
    SET word mine NX PX 600000
    SETRANGE word 1 a
    GET word
    SET moved mine NX PX 600000
    RENAME moved elsewhere
    GET elsewhere
    DUMP elsewhere
    COPY lock copied
    GET copied
    STRLEN copied
    GETSET other theirs
    GETDEL lock
    GET lock
"#;

/// The same in scripts, with declared and undeclared keys.
const SCRIPTS: &str = r#"
    SET lock mine NX PX 600000
    EVAL "return redis.call('GET', KEYS[1])" 1 lock
    EVAL "return redis.call('GET', 'lo' .. 'ck')" 0
    EVAL "return redis.call('MGET', 'lo' .. 'ck', 'missing')" 0
    EVAL "return {redis.call('STRLEN', KEYS[1]), redis.call('STRLEN', 'lo' .. 'ck')}" 1 lock
    EVAL "return redis.call('STRLEN', 'lo' .. 'ck')" 0
    EVAL "return redis.call('GETRANGE', 'lo' .. 'ck', 0, 1)" 0
    EVAL "return redis.call('GETRANGE', 'lo' .. 'ck', -2, -1)" 0
    EVAL "return redis.call('SUBSTR', 'lo' .. 'ck', 1, 2)" 0
    EVAL "return redis.call('GETBIT', KEYS[1], 1)" 1 lock
    EVAL "return redis.call('BITCOUNT', 'lo' .. 'ck')" 0
    EVAL "return redis.call('DUMP', KEYS[1])" 1 lock
    EVAL "return redis.call('DUMP', 'lo' .. 'ck')" 0
    EVAL "local name = 'GET' return redis.call(name, KEYS[1])" 1 lock
    EVAL "local name = 'GET' return redis.pcall(name, 'lo' .. 'ck')" 0
    EVAL_RO "return redis.call('GET', KEYS[1])" 1 lock
    EVAL_RO "return redis.call('GET', 'lo' .. 'ck')" 0
    EVAL_RO "return redis.call('STRLEN', KEYS[1])" 1 lock
    EVAL_RO "return redis.call('GETRANGE', KEYS[1], 0, 1)" 1 lock
    EVAL_RO "local name = 'GET' return redis.call(name, KEYS[1])" 1 lock
    EVAL "return redis.call('LCS', KEYS[1], 'lo' .. 'ck', 'LEN')" 1 lock
    EVAL "return redis.call('LCS', 'lo' .. 'ck', 'lo' .. 'ck', 'LEN')" 0
    EVAL "return redis.call('BITFIELD_RO', 'lo' .. 'ck', 'GET', 'u8', 0)" 0
    EVAL "return redis.call('SET', KEYS[1], 'theirs', 'XX', 'GET')" 1 lock
    EVAL "return redis.call('GETSET', 'lo' .. 'ck', 'ours')" 0
    GET lock
    SET counter 7 NX PX 600000
    EVAL "return redis.call('INCR', KEYS[1])" 1 counter
    SET counted 7 NX PX 600000
    EVAL "return redis.call('INCRBY', 'coun' .. 'ted', 5)" 0
    SET word mine NX PX 600000
    EVAL "return redis.call('APPEND', 'wo' .. 'rd', '!')" 0
    GET word
    SET left mine NX PX 600000
    EVAL "redis.call('RENAME', 'le' .. 'ft', KEYS[1]) return redis.call('GET', KEYS[1])" 1 right
    GET right
    SET kept mine NX PX 600000
    EVAL "redis.call('COPY', KEYS[1], KEYS[2]) return redis.call('GET', KEYS[2])" 2 kept copied
    DUMP copied
"#;

/// Commands of clients on keys without a TTL: `SETNX` also begins ordinary data.
const DATA: &str = r#"
    SETNX lock mine
    TTL lock
    EXPIRE lock 600
    PERSIST lock
    PERSIST lock
    TTL lock
    GET lock
    SETNX counter 0
    INCR counter
    INCRBY counter 41
    GET counter
    SETNX float 1.5
    INCRBYFLOAT float 2
    SETNX flags x
    SETBIT flags 7 1
    GETBIT flags 7
    BITFIELD flags SET u8 8 255
    BITCOUNT flags
    GET flags
    SETNX word mine
    SETRANGE word 4 " or"
    APPEND word " yours"
    GET word
    MSETNX lock 1 other 2
    MSETNX one 1 other 2
    SETNX one 2
    SET lock theirs XX GET
    GETDEL lock
    MULTI
    SETNX of_exec 1
    INCR of_exec
    SETNX of_exec 7
    STRLEN of_exec
    EXEC
    SETNX watched 1
    WATCH watched
    MULTI
    GET watched
    EXPIRE watched 600
    EXEC
    DEL watched of_exec one other
    DBSIZE
    EVAL "return {redis.call('SETNX', KEYS[1], 'a'), redis.call('GET', KEYS[1])}" 1 word
    EVAL "return {redis.call('SETNX', KEYS[1], 'a'), redis.call('GET', KEYS[1])}" 1 new
    EVAL "return redis.call('INCR', KEYS[1])" 1 counter
    SETNX gone 1
    EVAL "return redis.call('DEL', KEYS[1])" 1 gone
    EXISTS gone
"#;

/// Keys that are named by a pattern.
const SORTS: &str = r#"
    SET weight_a 2 NX PX 600000
    SET weight_b 1 NX PX 600000
    RPUSH names a b
    SORT names BY weight_* ALPHA
    SORT names BY nosort GET weight_* GET #
    SORT_RO names BY weight_* ALPHA GET weight_*
    EVAL "return redis.call('SORT', KEYS[1], 'BY', 'nosort', 'GET', 'weight_*')" 1 names
    EVAL "return redis.call('SORT_RO', KEYS[1], 'BY', 'weight_*', 'ALPHA')" 1 names
"#;

#[tokio::test]
async fn commands_answer_as_if_there_were_no_tag() {
    compare(COMMANDS).await;
}

#[tokio::test]
async fn scripts_see_no_tag() {
    compare(SCRIPTS).await;
}

/// Locks without a TTL have tags as well.
#[tokio::test]
async fn commands_and_scripts_see_no_tag_of_what_never_ends() {
    for session in [COMMANDS, SCRIPTS] {
        compare(&session.replace(" PX 600000", "")).await;
    }
    compare(DATA).await;
}

#[tokio::test]
#[ignore = "masters look up what BY and GET name as they keep it"]
async fn sorting_by_locks_shows_no_tag() {
    compare(SORTS).await;
}

/// Scripts that leave a lease a lease.
const TOUCHES: [&str; 5] = [
    "return redis.call('GET', KEYS[1])",
    "return redis.call('STRLEN', 'lo' .. 'ck')",
    "return redis.call('DUMP', 'lo' .. 'ck')",
    "redis.call('GET', KEYS[1]) return redis.error_reply('no')",
    "redis.call('GET', KEYS[1]) error('no')",
];

/// Scripts that turn a lease into a register.
const CHANGES: [&str; 3] = [
    "return redis.call('PEXPIRE', KEYS[1], 700000)",
    "return redis.call('PEXPIRE', 'lo' .. 'ck', 800000)",
    "return redis.call('SET', KEYS[1], 'mine', 'PX', 900000)",
];

/// A stamp distinguishes such a value from a lease.
#[tokio::test]
async fn a_value_that_begins_like_a_tag_is_its_owners_alone() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    let forged = [&b"\xffRL\x01"[..], &[7; 16], b"tail"].concat();
    assert_eq!(client.ask(&[&b"SET"[..], b"forged", &forged]).await, Reply::ok());
    assert_eq!(client.ask(&["GET", "forged"]).await, Reply::Bulk(forged.clone()));
    let script = "return redis.call('STRLEN', KEYS[1])";
    assert_eq!(client.ask(&["EVAL", script, "1", "forged"]).await, Reply::Int(24));
    let claim = [&b"SET"[..], b"lock", &forged, b"NX", b"PX", b"600000"];
    assert_eq!(client.ask(&claim).await, Reply::ok());
    assert_eq!(
        client.ask(&["GET", "lock"]).await,
        Reply::Bulk(forged.clone()),
        "all of it is the token"
    );
    assert_eq!(client.ask(&["DEL", "lock"]).await, Reply::Int(1));
    assert_eq!(client.ask(&["GET", "lock"]).await, Reply::Nil);
}

#[tokio::test]
async fn scripts_that_read_leave_tags_where_they_are() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, _proxy, mut client) = locked().await;
    let before = tags(&masters).await;
    for script in TOUCHES {
        client.ask(&["EVAL", script, "1", "lock"]).await;
        // Requests sent now are executed after it.
        wait_for_all(&mut client, &masters).await;
        assert_eq!(tags(&masters).await, before, "after {script}");
    }
}

/// A value that a script has changed belongs to no attempt any more: take-backs and delivered releases miss it.
#[tokio::test]
async fn scripts_that_write_make_registers_of_leases() {
    if target_is_plain_redis() {
        return;
    }
    for script in CHANGES {
        let (masters, _proxy, mut client) = locked().await;
        client.ask(&["EVAL", script, "1", "lock"]).await;
        wait_for_all(&mut client, &masters).await;
        let untagged = tags(&masters).await.iter().filter(|tag| tag.is_none()).count();
        assert!(untagged >= masters.quorum(), "{untagged} of 3 masters, after {script}");
        assert_eq!(client.ask(&["DELIFEQ", "lock", "yours"]).await, Reply::Int(0));
        assert_eq!(client.ask(&["DELIFEQ", "lock", "mine"]).await, Reply::Int(1), "{script}");
    }
}

/// Starts three masters with a lease on each.
async fn locked() -> (Masters, Proxy, Raw) {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "3s"]);
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("SET lock mine NX PX 600000")).await, Reply::ok());
    all_hold(&masters, "lock", "mine").await;
    (masters, proxy, client)
}

async fn wait_for_all(client: &mut Raw, masters: &Masters) {
    let key = format!("beacon {}", fastrand::u64(..));
    assert_eq!(client.ask(&["SET", &key, "light", "NX", "PX", "600000"]).await, Reply::ok());
    all_hold(masters, &key, "light").await;
}

async fn all_hold(masters: &Masters, key: &str, token: &str) {
    for master in masters.iter() {
        master.holds(key, token).await;
    }
}

async fn tags(masters: &Masters) -> Vec<Option<Tag>> {
    let mut tags = Vec::new();
    for master in masters.iter() {
        let Reply::Bulk(value) = master.ask(&["GET", "lock"]).await else { panic!("no lock") };
        tags.push(Stored::decode(&value).tag);
    }
    tags
}
