//! Promise 4, for what never ends: a value without TTL that no quorum holds, such as a proxy leaves behind that
//! dies while it makes a lock persistent, does not keep anybody out for ever, and what a quorum holds is not
//! taken for one.

mod support;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::scripts::RELEASE;
use support::{Masters, Proxy, Raw, Relay, Reply, eventually, int, value};

#[tokio::test]
async fn a_key_that_is_another_orphan_on_every_master_can_be_claimed_again() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for (index, master) in masters.iter().enumerate() {
        master.ask(&["SET", "lock", &format!("dead {index}")]).await;
    }
    let mut client = proxy.connection().await;
    eventually("the key is free again", || {
        let mut client = client.clone();
        async move { (claim(&mut client, "lock", "mine").await == Value::Okay).then_some(()) }
    })
    .await;
    assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await, 1);
    masters.forget("lock").await;
}

#[tokio::test]
async fn an_orphan_on_one_master_does_not_outlive_the_next_claim() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    masters[2].ask(&["SELECT", "0"]).await;
    masters[2].ask(&["SET", "lock", "dead"]).await;
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Value::Okay);
    masters[2].forgets("lock").await;
    proxy.knows(2, "removed_orphans", "1").await;

    // The claim of the others has not been touched, and the master helps again where it is needed.
    assert_eq!(masters.holding("lock", b"mine").await, 2);
    assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await, 1);
    proxy.expect_warnings();
    masters[0].kill_9();
    assert_eq!(claim(&mut client, "lock", "next").await, Value::Okay);
}

#[tokio::test]
async fn a_value_that_is_another_orphan_on_every_master_can_be_replaced_again() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for (index, master) in masters.iter().enumerate() {
        master.ask(&["SET", "lock", &format!("dead {index}")]).await;
    }
    let mut raw = proxy.raw().await;
    assert!(raw.ask(&["GETSET", "lock", "1"]).await.is_error("TRYAGAIN"));
    masters.forget("lock").await;
    assert_eq!(raw.ask(&["GETSET", "lock", "1"]).await, Reply::Nil);
}

#[tokio::test]
async fn an_orphan_in_another_database_is_found_there() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let set = ["EVAL", "redis.call('SELECT', 5) redis.call('SET', KEYS[1], 'dead')", "1", "lock"];
    masters[1].ask(&set).await;
    masters[1].ask(&["SET", "lock", "of database 0"]).await;
    let mut raw = proxy.raw().await;
    raw.ask(&["SELECT", "5"]).await;
    assert_eq!(claim_raw(&mut raw, "lock", "mine").await, Reply::ok());
    proxy.knows(1, "removed_orphans", "1").await;
    assert_eq!(masters[1].get("lock").await.as_deref(), Some(&b"of database 0"[..]));
}

/// A lock without TTL stands on a quorum, whatever it is called; one with a TTL ends by itself; a hash is not ours.
#[tokio::test]
async fn what_is_no_orphan_stays() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    assert_eq!(int(&mut client, &["SETNX", "held", "1"]).await, 1);
    for master in masters.iter() {
        master.holds("held", "1").await;
    }
    masters[0].ask(&["DEL", "held"]).await;
    masters[0].ask(&["SET", "ends", "dead", "PX", "600000"]).await;
    masters[0].ask(&["HSET", "hash", "field", "1"]).await;
    masters[0].ask(&["SET", "orphan", "dead"]).await;
    assert_eq!(int(&mut client, &["SETNX", "held", "1"]).await, 0);
    assert_eq!(claim(&mut client, "ends", "mine").await, Value::Okay);
    assert_eq!(claim(&mut client, "hash", "mine").await, Value::Okay);
    // Keys are looked at one after the other: once this one has gone, the others have been seen.
    assert_eq!(claim(&mut client, "orphan", "mine").await, Value::Okay);
    masters[0].forgets("orphan").await;
    proxy.knows(0, "removed_orphans", "1").await;
    assert_eq!(masters.holding("held", b"1").await, 2);
    assert_eq!(masters[0].get("ends").await.as_deref(), Some(&b"dead"[..]));
    assert_eq!(masters[0].ask(&["HGET", "hash", "field"]).await, Reply::bulk("1"));
}

/// The lock stands on the first two masters, and one of them cannot be asked.
#[tokio::test]
async fn nothing_is_removed_while_a_master_is_away() {
    let masters = Masters::start(3);
    let (relay, addresses) = Relay::in_place_of(&masters, 1);
    let proxy = Proxy::in_front_of(&addresses, &[]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(int(&mut client, &["SETNX", "lock", "mine"]).await, 1);
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
    masters.are_heard_without(2, &client).await;
    masters[2].ask(&["DEL", "lock"]).await;
    relay.cut();
    for _ in 0..20 {
        assert_eq!(int(&mut client, &["SETNX", "lock", "other"]).await, 0);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    relay.heal();
    proxy.knows(1, "state", "voter").await;
    assert_eq!(masters.holding("lock", b"mine").await, 2);
    assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await, 1);
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str) -> Value {
    value(client, &["SET", key, token, "NX", "PX", "600000"]).await.expect("a verdict")
}

async fn claim_raw(raw: &mut Raw, key: &str, token: &str) -> Reply {
    raw.ask(&["SET", key, token, "NX", "PX", "600000"]).await
}
