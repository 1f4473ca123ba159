//! Promise 2: after a release or a refused claim the key is free again, on every master, even on one that was
//! unreachable at the time.
//!
//! TTLs here are ten minutes: if a key disappears, it was deleted and did not expire.

mod support;

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::scripts::{RELEASE, RELEASES};
use support::{Masters, Proxy, Relay, eventually, int, target_is_plain_redis, text, value};

const TEN_MINUTES: &str = "600000";

#[tokio::test]
async fn a_release_leaves_nothing_on_any_master() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    for (number, release) in RELEASES.iter().enumerate() {
        let key = format!("lock {number}");
        assert_eq!(claim(&mut client, &key, "mine").await, "OK");
        let released = int(&mut client, &["EVAL", release.text, "1", &key, "mine"]).await;
        assert_eq!(released, 1, "{}", release.name);
        masters.forget(&key).await;
    }
}

#[tokio::test]
async fn a_released_key_can_be_claimed_at_once_through_any_proxy() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut clients = [proxies[0].connection().await, proxies[1].connection().await];
    for turn in 0..50 {
        let token = format!("turn {turn}");
        let client = &mut clients[turn / 2 % 2];
        assert_eq!(claim(client, "lock", &token).await, "OK", "turn {turn}");
        assert_eq!(release(client, "lock", &token).await, 1, "turn {turn}");
    }
}

#[tokio::test]
async fn every_way_to_delete_leaves_nothing_on_any_master() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    for (number, words) in [["DEL"], ["UNLINK"], ["GETDEL"]].iter().enumerate() {
        let key = format!("lock {number}");
        assert_eq!(claim(&mut client, &key, "mine").await, "OK");
        value(&mut client, &[words[0], &key]).await.expect("an answer without error");
        masters.forget(&key).await;
    }
}

/// The leftover of a claim that lost: two masters belong to another client, the third said yes and must remove the
/// key again.
#[tokio::test]
async fn a_refused_claim_leaves_nothing_on_the_minority_that_said_yes() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--split-vote-delay", "5ms"]);
    let held = masters.quorum();
    for master in &masters[..held] {
        let mut connection = master.connection().await;
        value(&mut connection, &["SET", "lock", "foreign"]).await.expect("SET on a master");
    }
    let mut client = proxy.connection().await;
    for _ in 0..10 {
        assert_eq!(claim(&mut client, "lock", "mine").await, "nil");
    }
    for master in &masters[held..] {
        master.forgets("lock").await;
    }
    assert_eq!(masters.holding("lock", b"foreign").await, held);
}

/// Many concurrent claims for few keys through two proxies split votes. When the winners are gone, nothing may be
/// left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_after_a_fight_of_two_proxies() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut fighters = Vec::new();
    for id in 0..12 {
        let client = proxies[id % 2].connection().await;
        fighters.push(tokio::spawn(claim_and_release(client, id)));
    }
    let mut granted = 0;
    for fighter in fighters {
        granted += fighter.await.expect("a client that does not panic");
    }
    assert!(granted > 0, "nobody ever won");
    for master in masters.iter() {
        eventually("a master without keys", || async {
            (master.key_count().await == 0).then_some(())
        })
        .await;
    }
}

async fn claim_and_release(mut client: MultiplexedConnection, id: usize) -> usize {
    let mut granted = 0;
    for turn in 0..60 {
        let key = format!("lock {}", turn % 3);
        let token = format!("client {id} turn {turn}");
        if claim(&mut client, &key, &token).await == "OK" {
            granted += 1;
            assert_eq!(release(&mut client, &key, &token).await, 1, "{token} held {key}");
        }
    }
    granted
}

/// A request that the network swallowed is sent again over a new link: the old link is reset, so TCP does not deliver
/// it.
#[tokio::test]
async fn a_release_reaches_a_master_that_was_cut_off() {
    let masters = Masters::start(3);
    let relay = Relay::to(&masters[0]);
    let proxy = partly_relayed(&masters, &relay);
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, "OK");
    masters[0].holds("lock", "mine").await;
    if target_is_plain_redis() {
        return;
    }

    relay.black_hole();
    assert_eq!(release(&mut client, "lock", "mine").await, 1);
    for master in &masters[1..] {
        master.forgets("lock").await;
    }
    assert_eq!(masters[0].get("lock").await.as_deref(), Some(b"mine".as_slice()));

    relay.reset();
    relay.heal();
    masters[0].forgets("lock").await;
}

/// The same when the master's link is known to be down: the release is not sent before the link is back, however many
/// attempts fail.
#[tokio::test]
async fn a_release_waits_for_a_master_without_a_link() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relay = Relay::to(&masters[0]);
    let proxy = partly_relayed(&masters, &relay);
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, "OK");
    masters[0].holds("lock", "mine").await;

    relay.cut();
    proxy.knows(0, "link", "down").await;
    assert_eq!(release(&mut client, "lock", "mine").await, 1);
    proxy.owes(0).await;
    eventually("many attempts to connect", || async { (relay.refused() > 20).then_some(()) }).await;
    proxy.owes(0).await;
    relay.heal();
    masters[0].forgets("lock").await;
    proxy.knows(0, "deferred_releases", "0").await;
}

/// The same when the link breaks again while the release is on its way to the master.
#[tokio::test]
async fn a_release_that_is_lost_a_second_time_is_sent_a_third_time() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relay = Relay::to(&masters[0]);
    let proxy = partly_relayed(&masters, &relay);
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "unlucky lock", "mine").await, "OK");
    masters[0].holds("unlucky lock", "mine").await;

    relay.cut();
    proxy.knows(0, "link", "down").await;
    assert_eq!(release(&mut client, "unlucky lock", "mine").await, 1);
    proxy.owes(0).await;
    relay.swallow("unlucky lock");
    eventually("it is on its way", || async { (relay.caught() > 0).then_some(()) }).await;
    assert_eq!(masters[0].get("unlucky lock").await.as_deref(), Some(b"mine".as_slice()));
    relay.heal();
    relay.reset();
    masters[0].forgets("unlucky lock").await;
}

/// A late release must not hit the next holder, who may have claimed the key everywhere meanwhile.
#[tokio::test]
async fn a_late_release_spares_the_next_holder() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relay = Relay::to(&masters[0]);
    let proxy = partly_relayed(&masters, &relay);
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "old").await, "OK");
    relay.black_hole();
    assert_eq!(release(&mut client, "lock", "old").await, 1);
    assert_eq!(claim(&mut client, "lock", "new").await, "OK");
    relay.reset();
    relay.heal();

    beacon(&mut client, &masters).await;
    assert!(masters.holding("lock", b"new").await >= masters.quorum());
    assert_eq!(masters.holding("lock", b"old").await, 0);
    assert_eq!(text(&mut client, &["GET", "lock"]).await.as_deref(), Some("new"));
}

/// A claim without a quorum is taken back, even where its SET arrives long after the answer.
#[tokio::test]
async fn a_claim_without_quorum_leaves_nothing_when_the_network_heals() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "100ms"]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    beacon(&mut client, &masters).await;

    relays[0].black_hole();
    relays[1].black_hole();
    let reply = value(&mut client, &["SET", "lock", "mine", "NX", "PX", TEN_MINUTES]).await;
    reply.expect_err("a claim that only one master saw");
    masters[2].forgets("lock").await;
    relays[0].heal();
    relays[1].heal();
    beacon(&mut client, &masters).await;
    masters.forget("lock").await;
}

/// The same when the masters have executed it, and their answers are lost with their links.
#[tokio::test]
async fn a_claim_whose_answers_are_lost_leaves_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays = [Relay::to(&masters[0]), Relay::to(&masters[1])];
    let mut addresses = masters.addresses();
    addresses[..2].clone_from_slice(&relays.each_ref().map(Relay::address));
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "100ms"]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;

    relays.iter().for_each(Relay::withhold_answers);
    let reply = value(&mut client, &["SET", "lock", "mine", "NX", "PX", TEN_MINUTES]).await;
    reply.expect_err("a claim that only one master has answered");
    relays.iter().for_each(Relay::reset);
    relays.iter().for_each(Relay::heal);
    masters.forget("lock").await;
}

/// The same when the links are lost before there is a verdict: the take-back waits for them.
#[tokio::test]
async fn a_claim_whose_links_are_lost_before_the_verdict_leaves_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays = [Relay::to(&masters[0]), Relay::to(&masters[1])];
    let mut addresses = masters.addresses();
    addresses[..2].clone_from_slice(&relays.each_ref().map(Relay::address));
    let proxy = Proxy::in_front_of(&addresses, &[]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;

    relays.iter().for_each(Relay::withhold_answers);
    let reply = tokio::spawn(async move {
        value(&mut client, &["SET", "lock", "mine", "NX", "PX", TEN_MINUTES]).await
    });
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
    relays.iter().for_each(Relay::cut);
    let reply = reply.await.expect("a task that does not panic");
    reply.expect_err("a claim that only one master has answered");
    relays.iter().for_each(Relay::heal);
    masters.forget("lock").await;
}

/// A client without an answer may retry through another proxy, with the same token. When the first proxy's links are
/// back, it must take back the old claim and not the new lock.
#[tokio::test]
async fn a_late_rollback_spares_the_lock_of_a_second_try() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays = [Relay::to(&masters[1]), Relay::to(&masters[2])];
    let mut addresses = masters.addresses();
    addresses[1..].clone_from_slice(&relays.each_ref().map(Relay::address));
    let cut_off = Proxy::in_front_of(&addresses, &["--vote-timeout", "50ms"]);
    cut_off.expect_warnings();
    let other = Proxy::start(&masters, &[]);
    let (mut first, mut second) = (cut_off.connection().await, other.connection().await);
    beacon(&mut first, &masters).await;

    relays.iter().for_each(Relay::black_hole);
    let reply = value(&mut first, &["SET", "lock", "mine", "NX", "PX", TEN_MINUTES]).await;
    reply.expect_err("a claim that only one master saw");
    eventually("the links are given up", || {
        let mut first = first.clone();
        async move {
            let info = text(&mut first, &["INFO", "redlock"]).await?;
            info.contains("voters:1").then_some(())
        }
    })
    .await;
    // The TTL distinguishes the two, so let them differ by more than clocks may.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(claim(&mut second, "lock", "mine").await, "OK");
    for relay in &relays {
        relay.reset();
        relay.heal();
    }

    beacon(&mut first, &masters).await;
    assert_eq!(masters.holding("lock", b"mine").await, masters.len());
    assert_eq!(claim(&mut second, "lock", "stranger").await, "nil");
}

/// The key may belong to another client by then, for just as long.
#[tokio::test]
async fn a_late_rollback_spares_the_lock_of_somebody_else() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays = [Relay::to(&masters[0]), Relay::to(&masters[1])];
    let mut addresses = masters.addresses();
    addresses[..2].clone_from_slice(&relays.each_ref().map(Relay::address));
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "100ms"]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;

    relays.iter().for_each(|relay| relay.swallow("contested lock"));
    let reply = value(&mut client, &["SET", "contested lock", "mine", "NX", "PX", TEN_MINUTES]);
    reply.await.expect_err("a claim that only one master saw");
    for master in &masters[..2] {
        let theirs = ["SET", "contested lock", "theirs", "PX", "606102"];
        assert_eq!(master.ask(&theirs).await, support::Reply::ok());
    }
    relays.iter().for_each(Relay::reset);
    relays.iter().for_each(Relay::heal);
    beacon(&mut client, &masters).await;
    assert_eq!(masters.holding("contested lock", b"theirs").await, 2);
}

/// Starts a proxy with the first master behind the relay.
fn partly_relayed(masters: &Masters, relay: &Relay) -> Proxy {
    let mut addresses = masters.addresses();
    addresses[0] = relay.address();
    let proxy = Proxy::in_front_of(&addresses, &[]);
    proxy.expect_warnings();
    proxy
}

/// Claims new keys until every master holds one: from then on every link is up and has delivered all earlier
/// requests.
async fn beacon(client: &mut MultiplexedConnection, masters: &Masters) {
    eventually("every master takes part again", || {
        let mut client = client.clone();
        async move {
            let key = format!("beacon {}", fastrand::u64(..));
            value(&mut client, &["SET", &key, "light", "NX", "PX", TEN_MINUTES]).await.ok()?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            (masters.holding(&key, b"light").await == masters.len()).then_some(())
        }
    })
    .await;
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str) -> &'static str {
    match value(client, &["SET", key, token, "NX", "PX", TEN_MINUTES]).await {
        Ok(Value::Okay) => "OK",
        Ok(Value::Nil) => "nil",
        other => panic!("a claim of {key} should be granted or refused, not {other:?}"),
    }
}

async fn release(client: &mut MultiplexedConnection, key: &str, token: &str) -> i64 {
    int(client, &["EVAL", RELEASE, "1", key, token]).await
}
