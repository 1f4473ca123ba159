//! Promise 5: `OK` only with a quorum, nil only when another client holds the key, and an error when nobody can know.
//! After an error nothing is left behind.

mod support;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use support::scripts::{EXTEND, RELEASE};
use support::{Masters, Proxy, Relay, eventually, int, target_is_plain_redis, text, value};

const SHORT_VOTE: [&str; 2] = ["--vote-timeout", "150ms"];
const TEN_MINUTES: &str = "600000";

#[tokio::test]
async fn without_a_quorum_every_claim_is_an_error() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "held", "mine").await, Ok(Value::Okay));
    masters[0].kill_9();
    masters[1].kill_9();
    for key in ["held", "free"] {
        for _ in 0..20 {
            assert_unknown(claim(&mut client, key, "other").await);
        }
    }
    masters[2].forgets("free").await;
    assert_eq!(masters[2].get("held").await.as_deref(), Some(b"mine".as_slice()));
    // Once the links are known to be down, the proxy sends nothing any more, and the reply uses Redis's own word for
    // it.
    eventually("the proxy knows that there is no quorum", || {
        let mut client = client.clone();
        async move {
            let error = claim(&mut client, "free", "other").await.expect_err("there is no quorum");
            (error.code() == Some("CLUSTERDOWN")).then_some(())
        }
    })
    .await;
}

#[tokio::test]
async fn a_stopped_majority_is_an_error_and_leaves_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &SHORT_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "warm up", "mine").await, Ok(Value::Okay));
    masters[0].stop();
    masters[1].stop();
    for turn in 0..2 {
        assert_unknown(claim(&mut client, &format!("lock {turn}"), "mine").await);
    }
    for turn in 0..2 {
        masters[2].forgets(&format!("lock {turn}")).await;
    }
    masters[0].cont();
    masters[1].cont();
    all_take_part(&mut client, &masters).await;
    for turn in 0..2 {
        masters.forget(&format!("lock {turn}")).await;
    }
}

/// If its masters do not answer, a key's state is unknown: that is not the same as an absent key.
#[tokio::test]
async fn reads_without_a_quorum_are_errors() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &SHORT_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    masters[0].stop();
    masters[1].stop();
    for words in [["GET", "lock"], ["EXISTS", "lock"], ["PTTL", "lock"], ["TYPE", "lock"]] {
        assert_unknown(value(&mut client, &words).await);
        assert_unknown(value(&mut client, &[words[0], "absent"]).await);
    }
    masters[0].cont();
    masters[1].cont();
    eventually("the lock is seen again", || {
        let mut client = client.clone();
        async move { value(&mut client, &["GET", "lock"]).await.ok() }
    })
    .await;
    assert_eq!(text(&mut client, &["GET", "lock"]).await.as_deref(), Some("mine"));
}

/// An extension without confirmation by a quorum is reported neither as done nor as refused.
#[tokio::test]
async fn an_extension_without_a_quorum_is_an_error() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &SHORT_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    masters[1].stop();
    masters[2].stop();
    let words = ["EVAL", EXTEND, "1", "lock", "mine", "700000"];
    assert_unknown(value(&mut client, &words).await);
    masters[1].cont();
    masters[2].cont();
}

/// One master has confirmed the release, and two do not answer: they may hold the lock, or another client's. Whatever
/// the reply, nothing is left when they are back.
#[tokio::test]
async fn a_release_that_only_a_minority_confirmed_is_unknown_and_arrives_later() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &SHORT_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
    masters[1].stop();
    masters[2].stop();
    assert_unknown(value(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await);
    masters[1].cont();
    masters[2].cont();
    masters.forget("lock").await;
}

/// A key that a minority does not hold may be held by all others.
#[tokio::test]
async fn a_release_that_no_master_confirmed_is_an_error() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &SHORT_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
    assert_eq!(int(&mut masters[0].connection().await, &["DEL", "lock"]).await, 1);
    masters[1].stop();
    masters[2].stop();
    assert_unknown(value(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await);
    masters[1].cont();
    masters[2].cont();
}

/// Masters that die while a claim is on its way to them have not refused it.
#[tokio::test]
async fn a_link_that_is_lost_is_no_refusal() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let flags = ["--vote-timeout", "10s", "--split-vote-retries", "0"];
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    for master in &masters[..2] {
        master.stop();
    }
    let reply = tokio::spawn(async move { claim(&mut client, "free", "mine").await });
    masters[2].holds("free", "mine").await;
    for master in &mut masters[..2] {
        master.kill_9();
    }
    assert_unknown(reply.await.expect("a task that does not panic"));
    masters[2].forgets("free").await;
}

/// A slow master still owes the answer to one claim when the next one is sent.
#[tokio::test]
async fn a_late_answer_counts_only_for_the_claim_it_belongs_to() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (relay, proxy) = Relay::between(&masters, 2, &["--vote-timeout", "3s"]);
    for master in [&masters[0], &masters[2]] {
        let mut theirs = master.connection().await;
        assert_eq!(claim(&mut theirs, "held", "theirs").await, Ok(Value::Okay));
    }
    relay.delay(Duration::ZERO, Duration::from_millis(200));
    let mut client = proxy.connection().await;
    for turn in 0..3 {
        assert_eq!(claim(&mut client, &format!("free {turn}"), "mine").await, Ok(Value::Okay));
        assert_eq!(claim(&mut client, "held", "mine").await, Ok(Value::Nil), "turn {turn}");
    }
}

#[tokio::test]
async fn ok_means_that_a_quorum_holds_the_key() {
    let masters = Masters::start(5);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    for turn in 0..50 {
        let key = format!("lock {turn}");
        assert_eq!(claim(&mut client, &key, "mine").await, Ok(Value::Okay));
        let holding = masters.holding(&key, b"mine").await;
        assert!(holding >= masters.quorum(), "OK with {holding} of {} masters", masters.len());
    }
}

/// The same when a majority is slow: the client receives the reply before they could catch up.
#[tokio::test]
async fn ok_waits_for_the_last_vote_that_is_needed() {
    let masters = Masters::start(5);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "5s"]);
    let mut client = proxy.connection().await;
    for relay in &relays[masters.len() - masters.quorum()..] {
        relay.delay(Duration::from_millis(200), Duration::ZERO);
    }
    for turn in 0..3 {
        let key = format!("lock {turn}");
        assert_eq!(claim(&mut client, &key, "mine").await, Ok(Value::Okay));
        let holding = masters.holding(&key, b"mine").await;
        assert!(holding >= masters.quorum(), "OK with {holding} of {} masters", masters.len());
    }
}

/// Links break at any moment, even in the middle of claims, and often a majority at once. Every answer must be true.
#[tokio::test]
async fn answers_are_true_while_links_break() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "100ms"]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    let mut unknown = Vec::new();
    for turn in 0..150 {
        disturb(&relays, turn);
        let key = format!("lock {turn}");
        match claim(&mut client, &key, "mine").await {
            Ok(Value::Okay) => {
                let holding = masters.holding(&key, b"mine").await;
                assert!(holding >= masters.quorum(), "turn {turn}: OK with {holding} masters");
            }
            Ok(other) => panic!("turn {turn}: nobody holds {key}, but the answer was {other:?}"),
            error => {
                assert_unknown(error);
                unknown.push(key);
            }
        }
    }
    relays.iter().for_each(Relay::heal);
    all_take_part(&mut client, &masters).await;
    for key in &unknown {
        masters.forget(key).await;
    }
    assert!(unknown.len() < 150, "no claim was ever granted");
}

/// Every third turn something breaks, every third it is healed; the broken parts differ.
fn disturb(relays: &[Relay], turn: usize) {
    match turn % 12 {
        0 => relays[0].black_hole(),
        3 => relays[1].black_hole(),
        4 => relays[1].reset(),
        6 => relays.iter().for_each(Relay::heal),
        8 => relays.iter().for_each(Relay::reset),
        9 => relays[2].cut(),
        11 => relays.iter().for_each(Relay::heal),
        _ => (),
    }
}

/// Checks for errors that say "ask again", never one that sounds like a verdict.
fn assert_unknown(reply: RedisResult<Value>) {
    let error = reply.expect_err("nobody can know");
    let code = error.code().unwrap_or_default();
    assert!(["CLUSTERDOWN", "TRYAGAIN", "LOADING"].contains(&code), "{error:?}");
}

async fn all_take_part(client: &mut MultiplexedConnection, masters: &Masters) {
    eventually("every master takes part again", || {
        let mut client = client.clone();
        async move {
            let key = format!("beacon {}", fastrand::u64(..));
            claim(&mut client, &key, "light").await.ok()?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            (masters.holding(&key, b"light").await == masters.len()).then_some(())
        }
    })
    .await;
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str) -> RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", TEN_MINUTES]).await
}
