//! Promise 4: while a quorum is up, a free key is granted at the first try, whatever the other masters do.
//!
//! The test shows without a stopwatch that a bad minority costs no time. The vote timeout is so long that a proxy
//! which waited for the missing ballot even once per claim could not finish before the test gives up.
#![allow(clippy::disallowed_methods, reason = "a hang is told by the real clock")]

mod support;

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::scripts::{EXTEND, RELEASE};
use support::{Masters, PATIENCE, Proxy, Relay, eventually, int, target_is_plain_redis, value};

const CYCLES: usize = 100;
/// Waiting once per cycle would take more than twice [`LIMIT`].
const LONG_VOTE: [&str; 2] = ["--vote-timeout", "3s"];
const LIMIT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn one_of_three_masters_killed() {
    with_killed_minority_of(3).await;
}

#[tokio::test]
async fn two_of_five_masters_killed() {
    with_killed_minority_of(5).await;
}

#[tokio::test]
async fn one_of_three_masters_stopped() {
    with_stopped_minority_of(3).await;
}

#[tokio::test]
async fn two_of_five_masters_stopped() {
    with_stopped_minority_of(5).await;
}

#[tokio::test]
async fn one_of_three_masters_behind_a_slow_network() {
    with_relayed_minority_of(3, |relay| relay.delay(PATIENCE / 2, PATIENCE / 2)).await;
}

#[tokio::test]
async fn two_of_five_masters_behind_a_slow_network() {
    with_relayed_minority_of(5, |relay| relay.delay(PATIENCE / 2, PATIENCE / 2)).await;
}

#[tokio::test]
async fn one_of_three_masters_behind_a_black_hole() {
    with_relayed_minority_of(3, Relay::black_hole).await;
}

/// A master may be missing when a proxy starts, if the masters were used before.
#[tokio::test]
async fn one_of_three_masters_never_seen() {
    let mut masters = Masters::start(3);
    let first = Proxy::start(&masters, &LONG_VOTE);
    first.expect_warnings();
    drop(first);
    for master in masters.minority() {
        master.kill_9();
    }
    let proxy = Proxy::start(&masters, &LONG_VOTE);
    proxy.expect_warnings();
    cycle(&mut proxy.connection().await).await;
}

/// Locks survive the death of a minority: they are still held, and only their token extends and releases them.
#[tokio::test]
async fn locks_outlive_a_minority() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
    for master in masters.minority() {
        master.kill_9();
    }
    assert_eq!(claim(&mut client, "lock", "other").await, Ok(Value::Nil));
    assert_eq!(int(&mut client, &["EVAL", EXTEND, "1", "lock", "other", "600000"]).await, 0);
    assert_eq!(int(&mut client, &["EVAL", EXTEND, "1", "lock", "mine", "600000"]).await, 1);
    assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", "lock", "other"]).await, 0);
    assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await, 1);
    assert_eq!(claim(&mut client, "lock", "other").await, Ok(Value::Okay));
}

/// The proxy finds a master again by itself: after a restart, after a stop, after a broken network.
#[tokio::test]
async fn a_master_that_comes_back_takes_part_again() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let (relay, proxy) = Relay::between(&masters, 1, &[]);
    let mut client = proxy.connection().await;

    masters[0].kill_9();
    assert_eq!(claim(&mut client, "while killed", "mine").await, Ok(Value::Okay));
    masters[0].restart_empty();
    all_take_part(&mut client, &masters).await;
    proxy.knows(0, "state", "voter").await;

    relay.cut();
    assert_eq!(claim(&mut client, "while cut", "mine").await, Ok(Value::Okay));
    relay.heal();
    all_take_part(&mut client, &masters).await;

    masters[2].stop();
    assert_eq!(claim(&mut client, "while stopped", "mine").await, Ok(Value::Okay));
    masters[2].cont();
    all_take_part(&mut client, &masters).await;
}

/// A refused claim leaves nothing behind, even on the one master that receives and grants it long after the refusal.
#[tokio::test]
async fn a_claim_that_arrives_after_its_refusal_leaves_nothing() {
    const DELAY: Duration = Duration::from_secs(1);
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (relay, addresses) = Relay::in_place_of(&masters, 2);
    let proxy = Proxy::in_front_of(&addresses, &LONG_VOTE);
    let mut client = proxy.connection().await;
    all_take_part(&mut client, &masters).await;
    for master in &masters[..2] {
        let mut theirs = master.connection().await;
        assert_eq!(claim(&mut theirs, "lock", "theirs").await, Ok(Value::Okay));
    }
    let before = masters[2].calls("set").await;

    relay.delay(DELAY, DELAY);
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Nil));

    eventually("the claim arrives", || async {
        (masters[2].calls("set").await > before).then_some(())
    })
    .await;
    masters[2].forgets("lock").await;
}

async fn with_killed_minority_of(count: usize) {
    let mut masters = Masters::start(count);
    let proxy = Proxy::start(&masters, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    cycle(&mut client).await;
    for master in masters.minority() {
        master.kill_9();
    }
    cycle(&mut client).await;
}

async fn with_stopped_minority_of(count: usize) {
    let mut masters = Masters::start(count);
    let proxy = Proxy::start(&masters, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    for master in masters.minority() {
        master.stop();
    }
    cycle(&mut client).await;
    for master in masters.minority() {
        master.cont();
    }
    cycle(&mut client).await;
}

async fn with_relayed_minority_of(count: usize, worsen: fn(&Relay)) {
    let mut masters = Masters::start(count);
    let relays: Vec<Relay> = masters.minority().iter().map(Relay::to).collect();
    let mut addresses = masters.addresses();
    for (address, relay) in addresses.iter_mut().zip(&relays) {
        *address = relay.address();
    }
    let proxy = Proxy::in_front_of(&addresses, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    cycle(&mut client).await;
    relays.iter().for_each(worsen);
    cycle(&mut client).await;
}

/// Claims, refuses, extends and releases again and again; every answer must be the one of a healthy Redis.
async fn cycle(client: &mut MultiplexedConnection) {
    let cycles = async {
        for turn in 0..CYCLES {
            let (key, token) = (format!("lock {}", turn % 7), format!("turn {turn}"));
            assert_eq!(claim(client, &key, &token).await, Ok(Value::Okay), "turn {turn}");
            assert_eq!(claim(client, &key, "other").await, Ok(Value::Nil), "turn {turn}");
            let extend = ["EVAL", EXTEND, "1", &key, &token, "700000"];
            assert_eq!(int(client, &extend).await, 1, "turn {turn}");
            assert_eq!(int(client, &["EXISTS", &key]).await, 1, "turn {turn}");
            let release = ["EVAL", RELEASE, "1", &key, &token];
            assert_eq!(int(client, &release).await, 1, "turn {turn}");
        }
    };
    tokio::time::timeout(LIMIT, cycles).await.expect("no claim waits for a missing ballot");
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

async fn claim(
    client: &mut MultiplexedConnection,
    key: &str,
    token: &str,
) -> redis::RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", "600000"]).await
}
