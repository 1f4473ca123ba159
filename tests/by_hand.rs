//! What somebody does by hand on the masters leaves no key that is stuck.

mod support;

use support::{Masters, Proxy, Raw, Reply, eventually, target_is_plain_redis, words};

/// Copies of a minority are removed after four times that.
const PATIENCE: [&str; 2] = ["--patience", "500ms"];

fn three_masters() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENCE);
    proxy.expect_warnings();
    Some((masters, proxy))
}

async fn ask(client: &mut Raw, line: &str) -> Reply {
    let reply = client.ask(&words(line)).await;
    assert!(!reply.is_error(""), "{line}: {reply:?}");
    reply
}

/// The first reply that is no error.
async fn in_the_end(proxy: &Proxy, line: &str) -> Reply {
    eventually(line, || async {
        let reply = proxy.raw().await.ask(&words(line)).await;
        (!reply.is_error("")).then_some(reply)
    })
    .await
}

async fn on_all(masters: &Masters, line: &str) {
    for master in masters.iter() {
        master.ask(&words(line)).await;
    }
}

fn stamp(key: &str) -> String {
    format!("redlock-proxy:s:{key}")
}

async fn all_hold(masters: &Masters, key: &str, value: &str) {
    eventually("all masters hold it, under a stamp", || async {
        for master in masters.iter() {
            let is_held = master.ask(&["GET", key]).await == Reply::bulk(value);
            if !is_held || !master.has(&stamp(key)).await {
                return None;
            }
        }
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_value_that_is_deleted_on_all_masters_is_absent() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for line in ["SET string x", "RPUSH list a"] {
        ask(&mut client, line).await;
    }
    on_all(&masters, "DEL string list").await;
    assert_eq!(ask(&mut client, "GET string").await, Reply::Nil);
    assert_eq!(ask(&mut client, "LLEN list").await, Reply::Int(0));
    ask(&mut client, "SET string y").await;
    assert_eq!(ask(&mut client, "DEL string").await, Reply::Int(1));
    assert_eq!(ask(&mut client, "RPUSH list b").await, Reply::Int(1));
    proxy.kill_9();
    on_all(&masters, "DEL list").await;
    let (said, code) = masters.settle(&PATIENCE, &["list"]);
    assert!(code == Some(0) && said.contains("All masters had lost what it held"), "{said}");
}

/// It may have what the others have lost.
#[tokio::test]
async fn a_value_that_two_masters_have_lost_waits_for_the_third() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET string x").await;
    all_hold(&masters, "string", "x").await;
    masters[2].stop();
    proxy.knows(2, "state", "down").await;
    for master in &masters[..2] {
        master.ask(&["DEL", "string"]).await;
    }
    let reply = client.ask(&["GET", "string"]).await;
    assert!(reply.is_error("CLUSTERDOWN"), "{reply:?}");
    masters[2].cont();
    assert_eq!(in_the_end(&proxy, "GET string").await, Reply::bulk("x"));
    all_hold(&masters, "string", "x").await;
}

#[tokio::test]
async fn different_strings_on_all_masters_give_way() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for (at, master) in masters.iter().enumerate() {
        master.ask(&["SET", "three", &format!("value {at}")]).await;
    }
    for (at, master) in masters[..2].iter().enumerate() {
        master.ask(&["SET", "two", &format!("value {at}")]).await;
    }
    for key in ["three", "two"] {
        assert_eq!(in_the_end(&proxy, &format!("SET {key} mine")).await, Reply::ok());
        assert_eq!(ask(&mut client, &format!("GET {key}")).await, Reply::bulk("mine"));
        all_hold(&masters, key, "mine").await;
        assert_eq!(ask(&mut client, &format!("DEL {key}")).await, Reply::Int(1));
    }
}

#[tokio::test]
async fn a_string_without_its_stamp_on_one_master_gets_it_back() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET string x").await;
    ask(&mut client, "SET ends x EX 1000").await;
    masters[0].ask(&["DEL", &stamp("string"), &stamp("ends")]).await;
    for key in ["string", "ends"] {
        ask(&mut client, &format!("APPEND {key} y")).await;
        assert_eq!(ask(&mut client, &format!("GET {key}")).await, Reply::bulk("xy"));
        all_hold(&masters, key, "xy").await;
    }
}

/// No proxy that counts votes for it would be asked.
#[tokio::test]
async fn a_lock_that_a_quorum_holds_stays() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET lock token NX PX 60000").await;
    masters[0].ask(&["DEL", "lock"]).await;
    masters[0].ask(&["SET", "lock", "other"]).await;
    proxy.kill_9();
    let (said, code) = masters.settle(&PATIENCE, &["lock"]);
    assert!(code == Some(0) && said.contains("no lock is: 'other'"), "{said}");
    let other = Proxy::start(&masters, &PATIENCE);
    other.expect_warnings();
    let mut client = other.raw().await;
    assert_eq!(ask(&mut client, "GET lock").await, Reply::bulk("token"));
}

/// Of a lock that somebody else wrote, with an end, it is not known when votes for it do not count any more.
#[tokio::test]
async fn what_is_left_of_locks_of_others_is_removed_when_somebody_says_so() {
    let Some((masters, proxy)) = three_masters() else { return };
    proxy.kill_9();
    for (at, master) in masters.iter().enumerate() {
        master.ask(&["SET", "lock", &format!("value {at}"), "PX", "600000"]).await;
    }
    let (said, code) = masters.settle(&PATIENCE, &["lock"]);
    assert!(code == Some(1) && said.contains("--release-locks"), "{said}");
    let (said, code) = masters.settle(&PATIENCE, &["--release-locks", "lock"]);
    assert!(code == Some(0) && said.contains("is released"), "{said}");
    for master in masters.iter() {
        assert!(!master.has("lock").await);
    }
}

/// A key that cannot be settled is with one operation at a time, and not with more and more.
#[tokio::test]
async fn a_key_that_cannot_be_settled_does_not_pile_up() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for (at, master) in masters.iter().enumerate() {
        master.ask(&["SET", "lock", &format!("value {at}"), "PX", "600000"]).await;
    }
    ask(&mut client, "SET string x").await;
    for _ in 0..12 {
        let reply = client.ask(&["APPEND", "lock", "x"]).await;
        assert!(reply.is_error(""), "{reply:?}");
    }
    let info = client.ask(&["INFO", "redlock"]).await.text();
    let in_flight = info.lines().find_map(|line| line.strip_prefix("operations_in_flight:"));
    let in_flight: usize = in_flight.and_then(|it| it.trim().parse().ok()).expect("a number");
    assert!(in_flight <= 2, "{in_flight}");
}
