//! Masters forget scripts when they restart, or after `SCRIPT FLUSH`. Clients do not notice: the proxy sends the
//! script again with its text.

mod support;

use std::time::Duration;

use support::scripts::{EXTEND, RELEASE, TAKE_OR_EXTEND};
use support::{Masters, Proxy, Relay, Reply, eventually, target_is_plain_redis};

#[tokio::test]
async fn clients_do_not_notice_that_masters_have_forgotten_scripts() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&["SET", "lock", "mine", "NX", "PX", "600000"]).await, Reply::ok());
    assert_eq!(raw.ask(&["SET", "value", "1"]).await, Reply::ok());
    let steps: [(&[&str], Reply); 6] = [
        (&["EVAL", EXTEND, "1", "lock", "mine", "700000"], Reply::Int(1)),
        (&["EXISTS", "lock"], Reply::Int(1)),
        (&["EVAL", RELEASE, "1", "lock", "mine"], Reply::Int(1)),
        (&["GETSET", "value", "2"], Reply::bulk("1")),
        (&["SETNX", "for ever", "mine"], Reply::Int(1)),
        (&["DEL", "for ever"], Reply::Int(1)),
    ];
    for (request, reply) in steps {
        forget_scripts(&masters).await;
        assert_eq!(raw.ask(request).await, reply, "{request:?}");
    }
    masters.forget("lock").await;
    masters.forget("for ever").await;
    assert!(masters.holding("value", b"2").await >= masters.quorum());
}

/// A distant master cannot run the release of a lock. The next claim, with the same token, is on its way there before
/// the proxy learns about the failure.
async fn the_next_lock_outlives(end: &[&str]) {
    let masters = Masters::start(5);
    let (far, addresses) = Relay::in_place_of(&masters, 3);
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "5s"]);
    let mut raw = proxy.raw().await;
    let take = |key, ttl_ms| ["EVAL", TAKE_OR_EXTEND, "1", key, "mine", ttl_ms];
    assert_eq!(raw.ask(&take("lock", "60000")).await, Reply::Int(1));
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
    assert_eq!(masters[3].ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
    // The master learns again how to take a lock, but not how to release one.
    while masters[3].get("another").await.is_none() {
        assert_eq!(raw.ask(&take("another", "60000")).await, Reply::Int(1));
    }
    far.delay(Duration::from_millis(300), Duration::from_millis(300));
    assert_eq!(raw.ask(end).await, Reply::Int(1));
    for near in [0, 1] {
        assert_eq!(masters[near].ask(&["SET", "lock", "another's"]).await, Reply::ok());
    }
    assert_eq!(raw.ask(&take("lock", "600000")).await, Reply::Int(1));
    far.heal();
    // Requests sent there now arrive after everything that the proxy has sent meanwhile.
    let is_told = async || (proxy.says_of(3, "deferred_releases").await == "0").then_some(());
    eventually("nothing is left to tell it", is_told).await;
    assert_eq!(raw.ask(&["SET", "behind", "1", "NX", "PX", "60000"]).await, Reply::ok());
    masters[3].holds("behind", "1").await;
    assert_eq!(masters[3].get("lock").await.as_deref(), Some(&b"mine"[..]));
}

#[tokio::test]
async fn a_release_that_a_master_has_to_be_told_twice_does_not_end_the_next_lock() {
    if !target_is_plain_redis() {
        the_next_lock_outlives(&["EVAL", RELEASE, "1", "lock", "mine"]).await;
    }
}

#[tokio::test]
async fn a_deletion_that_a_master_has_to_be_told_twice_does_not_end_the_next_lock() {
    if !target_is_plain_redis() {
        the_next_lock_outlives(&["DEL", "lock"]).await;
    }
}

async fn forget_scripts(masters: &Masters) {
    for master in masters.iter() {
        assert_eq!(master.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
    }
}
