//! Masters that have missed changes to registers catch up on their own, and stamps of absent keys are dropped.

mod support;

use std::time::Duration;

use support::{Masters, Proxy, Raw, Reply, eventually, state, target_is_plain_redis, words};

/// Changes to keys of all types. `gone` is deleted.
const BEFORE: [&str; 7] = [
    "RPUSH list a b c",
    "HSET hash f v g w",
    "SADD set a b",
    "ZADD zset 1 a 2 b",
    "XADD stream 1-1 f v",
    "APPEND text hello",
    "RPUSH gone a",
];

const MEANWHILE: [&str; 8] = [
    "LPUSH list z",
    "HDEL hash f",
    "SADD set c",
    "ZINCRBY zset 5 a",
    "XADD stream 2-1 f w",
    "APPEND text world",
    "LPOP gone",
    "PEXPIRE zset 600000",
];

const KEYS: [&str; 7] = ["list", "hash", "set", "zset", "stream", "text", "gone"];

fn three_masters() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "100ms"]);
    proxy.expect_warnings();
    Some((masters, proxy))
}

async fn all_hold_the_same(masters: &Masters, keys: &[impl AsRef<str>]) -> Option<()> {
    state::all_hold_the_same(masters, keys).await.then_some(())
}

async fn ask(client: &mut Raw, line: &str) -> Reply {
    let reply = client.ask(&words(line)).await;
    assert!(!reply.is_error(""), "{line}: {reply:?}");
    reply
}

#[tokio::test]
async fn a_master_that_stood_still_catches_up_with_keys_of_all_types() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for line in BEFORE {
        ask(&mut client, line).await;
    }
    masters[2].stop();
    proxy.knows(2, "state", "down").await;
    for line in MEANWHILE {
        ask(&mut client, line).await;
    }
    eventually("the proxy knows what the master has missed", || async {
        (proxy.says_of(2, "registers_behind").await == KEYS.len().to_string()).then_some(())
    })
    .await;
    masters[2].cont();
    eventually("all masters hold the same", || all_hold_the_same(&masters, &KEYS)).await;
    proxy.knows(2, "registers_behind", "0").await;
    assert_eq!(masters[2].ask(&["LINDEX", "list", "0"]).await, Reply::bulk("z"));
    assert!(!masters[2].has("gone").await);
}

/// The proxy that knew about it is dead, so another one compares the masters.
#[tokio::test]
async fn what_a_dead_proxy_has_left_is_found() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "RPUSH list a").await;
    masters[2].stop();
    proxy.knows(2, "state", "down").await;
    let keys: Vec<String> = (0..300).map(|number| format!("key {number}")).collect();
    for key in &keys {
        client.ask(&["RPUSH", key, "a", "b"]).await;
    }
    proxy.kill_9();
    masters[2].cont();
    let other = Proxy::start(&masters, &[]);
    other.expect_warnings();
    eventually("all masters hold the same", || all_hold_the_same(&masters, &keys)).await;
    assert_eq!(masters[2].ask(&["LLEN", "key 299"]).await, Reply::Int(2));
}

#[tokio::test]
async fn a_value_that_a_master_has_lost_comes_back() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for line in BEFORE {
        ask(&mut client, line).await;
    }
    for key in KEYS {
        masters[1].ask(&["DEL", key]).await;
    }
    eventually("all masters hold the same", || all_hold_the_same(&masters, &KEYS)).await;
    assert_eq!(masters[1].ask(&["HGET", "hash", "g"]).await, Reply::bulk("w"));
}

fn stamp(key: &str) -> String {
    format!("redlock-proxy:s:{key}")
}

#[tokio::test]
async fn stamps_of_absent_keys_go_and_those_of_others_stay() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for line in ["RPUSH gone a", "LPOP gone", "SETEX ended 1 value", "RPUSH stays a"] {
        ask(&mut client, line).await;
    }
    let both = "redis.call('rpush', KEYS[1], 1) redis.call('rpush', KEYS[2], 1)";
    client.ask(&["EVAL", both, "2", "one", "other"]).await;
    ask(&mut client, "LPOP one").await;
    for key in ["gone", "ended", "one"] {
        assert!(masters[0].has(&stamp(key)).await, "{key}");
    }
    for master in masters.iter() {
        for key in ["gone", "ended", "one"] {
            let what = format!("the stamp of {key} is dropped");
            eventually(&what, || async { (!master.has(&stamp(key)).await).then_some(()) }).await;
        }
        assert!(master.has(&stamp("stays")).await && master.has(&stamp("other")).await);
    }
    // Later operations do not need the dropped stamps.
    assert_eq!(ask(&mut client, "RPUSH gone b").await, Reply::Int(1));
    assert_eq!(ask(&mut client, "LLEN stays").await, Reply::Int(1));
    assert_eq!(ask(&mut client, "LLEN one").await, Reply::Int(0));
}

/// The absent master may have missed the deletion. Only the stamp tells that from a key that the others have missed.
#[tokio::test]
async fn stamps_of_absent_keys_stay_while_a_master_is_away() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "RPUSH gone a").await;
    masters[2].stop();
    proxy.knows(2, "state", "down").await;
    ask(&mut client, "LPOP gone").await;
    // The stamp would have been dropped twice by then.
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(masters[0].has(&stamp("gone")).await && masters[1].has(&stamp("gone")).await);
    masters[2].cont();
    for master in masters.iter() {
        eventually("it goes once all have it", || async {
            (!master.has("gone").await && !master.has(&stamp("gone")).await).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn settle_shows_what_each_master_holds_and_settles_it() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "RPUSH list a b").await;
    eventually("the third has it, too", || async { masters[2].has("list").await.then_some(()) })
        .await;
    masters[2].stop();
    proxy.knows(2, "state", "down").await;
    ask(&mut client, "RPUSH list c").await;
    proxy.kill_9();
    masters[2].cont();
    let address = masters[2].address();
    let (said, code) = masters.settle(&[], &["list"]);
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("master ") && lines[0].ends_with("ends"), "{said}");
    assert!(lines[3].starts_with(&address) && lines[3].contains(" list "), "{said}");
    assert!(said.contains(&format!("{address} took over what a quorum holds.")), "{said}");
    assert_eq!(masters[2].ask(&["LLEN", "list"]).await, Reply::Int(3));
    let (said, code) = masters.settle(&[], &["list"]);
    assert!(code == Some(0) && said.ends_with("nothing was changed.\n"), "{said}");
}

#[tokio::test]
async fn settle_says_why_it_cannot() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (said, code) = masters.settle(&[], &["list"]);
    assert!(code == Some(1) && said.contains("no proxy has used these masters"), "{said}");
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    let (said, code) = masters.settle(&[], &["list", "--db", "99"]);
    assert!(code == Some(1) && said.contains("16 databases"), "{said}");
    let (said, code) = masters.settle(&[], &["redlock-proxy:mark"]);
    assert!(code == Some(1) && said.contains("are reserved"), "{said}");
    let (said, _) = masters.settle(&[], &["nothing"]);
    assert!(said.contains("no register"), "{said}");
    let mut client = proxy.raw().await;
    ask(&mut client, "SET lock token NX PX 100000").await;
    let (said, _) = masters.settle(&[], &["lock"]);
    let line = said.lines().find(|line| line.contains("held by 'token'"));
    assert!(line.is_some_and(|line| line.contains(" lock ")), "{said}");
    masters[1].stop();
    masters[2].stop();
    let (said, code) = masters.settle(&[], &["list"]);
    assert!(code == Some(1) && said.contains("It could not be settled"), "{said}");
    masters[1].cont();
    masters[2].cont();
}
