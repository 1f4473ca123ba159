//! A script or a transaction counts when a majority of masters has executed it. If only a minority has, all masters
//! adopt it or all drop it, and nobody notices a minority that fails.

mod support;

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::scripts::{REDISSON_LOCK, REDISSON_UNLOCK};
use support::{
    Master, Masters, PATIENCE, Proxy, Relay, Reply, Stage, State, eventually, int,
    target_is_plain_redis, text, value,
};

/// Longer than any test.
const LEASE: &str = "600000";
const ADD: &str = "return redis.call('INCRBY', KEYS[1], 1)";

/// The client receives an error: nobody knows whether the script was executed. From some moment on, every reader sees
/// its effect, or none ever does.
#[tokio::test]
async fn what_a_minority_has_done_is_everybodys_or_nobodys() {
    let Some(stage) = Stage::set(&["--vote-timeout", "100ms"]) else { return };
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for turn in 0..6 {
        stage.complete().await;
        let key = format!("count {turn}");
        // The last writer of a key does not ask for a promise before it writes again.
        assert_eq!(int(&mut far, &["EVAL", ADD, "1", &key, "arrives"]).await, 1);
        let held_back = [0, 1, 2].into_iter().filter(|master| *master != turn % 3);
        held_back.for_each(|master| stage.relays[master].hold_back("is held back"));
        assert_undecided(value(&mut far, &["EVAL", ADD, "1", &key, "is held back"]).await);
        let mut seen = 1;
        for look in 0..10 {
            if look == 5 {
                stage.heal();
            }
            let now = number(&mut near, &key).await;
            assert!(now == seen || (seen, now) == (1, 2), "{key} was {seen} and is {now}");
            seen = now;
        }
        stage.settled().await;
        all_agree(&stage.masters, &key).await;
        let now = number(&mut near, &key).await;
        assert!(now == seen || (seen, now) == (1, 2), "{key} was {seen} and is {now}");
        assert_eq!(int(&mut near, &["EVAL", ADD, "1", &key, "arrives"]).await, now + 1);
    }
}

/// Redisson's lock, granted by a minority to a client that received an error. It excludes the next client, or it is
/// no lock.
#[tokio::test]
async fn a_lock_that_a_minority_has_granted_has_one_holder() {
    let Some(stage) = Stage::set(&["--vote-timeout", "100ms"]) else { return };
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for turn in 0..6 {
        stage.complete().await;
        let key = format!("lock {turn}");
        assert_eq!(value(&mut far, &lock(&key, "mine")).await, Ok(Value::Nil));
        assert_eq!(int(&mut far, &unlock(&key)).await, 1);
        assert_eq!(int(&mut far, &["DEL", "latch"]).await, 1);
        let held_back = [0, 1, 2].into_iter().filter(|master| *master != turn % 3);
        held_back.for_each(|master| stage.relays[master].hold_back("is late"));
        assert_undecided(value(&mut far, &lock(&key, "who is late")).await);
        let is_granted = value(&mut near, &lock(&key, "other")).await == Ok(Value::Nil);
        let (holder, excluded) = match is_granted {
            true => ("other", "who is late"),
            false => ("who is late", "other"),
        };
        for look in 0..10 {
            if look == 5 {
                stage.heal();
            }
            let left_ms = int(&mut near, &lock(&key, excluded)).await;
            assert!(left_ms > 500_000, "{holder} has {key} for {left_ms} ms");
        }
        stage.settled().await;
        all_agree(&stage.masters, &key).await;
        let held = stage.near.raw().await.ask(&["HGETALL", &key]).await;
        assert_eq!(held, Reply::Array(vec![Reply::bulk(holder), Reply::bulk("1")]));
    }
}

#[tokio::test]
async fn scripts_go_on_without_a_killed_master() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    cycle(&mut client).await;
    masters.minority().iter_mut().for_each(Master::kill_9);
    cycle(&mut client).await;
}

#[tokio::test]
async fn scripts_go_on_without_a_stopped_master() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    masters.minority().iter().for_each(Master::stop);
    cycle(&mut client).await;
    masters.minority().iter().for_each(Master::cont);
    cycle(&mut client).await;
}

/// Masters that rebuild a set end up with different orders. With one of three killed, the other two must still agree
/// on whether anything has changed.
#[tokio::test]
async fn a_set_in_another_order_has_not_changed() {
    let Some((mut masters, proxy)) = three_masters() else { return };
    proxy.expect_warnings();
    masters[2].kill_9();
    let mut client = proxy.connection().await;
    let long = "a member that is long enough to be packed ".repeat(20);
    for n in 0..60 {
        let (key, number) = (format!("set {n}"), (n * 1_000).to_string());
        let add = ["SADD", &key, "a", "b", "größer", &number, &long];
        assert_eq!(int(&mut client, &add).await, 5);
        let copy = "return redis.call('sunionstore', KEYS[1], KEYS[1])";
        assert_eq!(int(&mut client, &["EVAL", copy, "1", &key]).await, 5, "{key}");
        let key = format!("hash {n}");
        let set = "redis.call('hset', KEYS[1], 'a', '1', ARGV[1], ARGV[1], ARGV[2], 'c', 'd', 'e')
                   return redis.call('hlen', KEYS[1])";
        assert_eq!(int(&mut client, &["EVAL", set, "1", &key, &number, &long]).await, 4);
        let again = "redis.call('hdel', KEYS[1], 'a')
                     return redis.call('hset', KEYS[1], 'a', '1')";
        assert_eq!(int(&mut client, &["EVAL", again, "1", &key]).await, 1, "{key}");
    }
}

/// A slow master used to be left out when the script changed none of the keys that it names, and kept what all others
/// had given away.
#[tokio::test]
async fn a_new_script_runs_on_a_master_that_is_slow() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (relay, addresses) = Relay::in_place_of(&masters, 2);
    let proxy = Proxy::in_front_of(&addresses, &[]);
    let mut client = proxy.connection().await;
    assert_eq!(int(&mut client, &["RPUSH", "queue", "job"]).await, 1);
    eventually("all masters have it", || async {
        (masters.having("queue").await == 3).then_some(())
    })
    .await;
    relay.withhold_answers();
    let take = ["EVAL", "return redis.call('LPOP', 'queue')", "0"];
    assert_eq!(value(&mut client, &take).await, Ok(Value::BulkString(b"job".into())));
    relay.heal();
    masters.forget("queue").await;
}

#[tokio::test]
async fn scripts_go_on_behind_a_broken_network() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (relay, proxy) = Relay::between(&masters, 0, &LONG_VOTE);
    let mut client = proxy.connection().await;
    for worsen in [Relay::reset, Relay::black_hole, Relay::heal, Relay::cut, Relay::heal] {
        worsen(&relay);
        cycle(&mut client).await;
    }
}

/// Two of three masters are paused, so the reply is an error. Once they continue, all masters agree on one outcome.
#[tokio::test]
async fn without_a_quorum_a_script_is_an_error_and_all_masters_come_to_agree() {
    let Some((masters, proxy)) = three_masters() else { return };
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(int(&mut client, &["EVAL", ADD, "1", "known"]).await, 1);
    masters[0].stop();
    masters[1].stop();
    for key in ["known", "new"] {
        assert_undecided(value(&mut client, &["EVAL", ADD, "1", key]).await);
    }
    assert_undecided(value(&mut client, &unlock("held")).await);
    masters[0].cont();
    masters[1].cont();
    for (key, before) in [("known", 1), ("new", 0)] {
        eventually("it goes on", || async {
            value(&mut client.clone(), &["EVAL", ADD, "1", key]).await.ok()
        })
        .await;
        all_agree(&masters, key).await;
        let now = number(&mut client, key).await;
        // The script may have been executed, and so may everything else that was answered with an error since.
        assert!(now > before, "{key} was {before} and is {now}");
        assert_eq!(int(&mut client, &["EVAL", ADD, "1", key]).await, now + 1);
    }
}

/// The same when two are killed: there is no quorum to ask.
#[tokio::test]
async fn with_two_masters_killed_every_script_is_an_error() {
    let Some((mut masters, proxy)) = three_masters() else { return };
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    masters[0].kill_9();
    masters[1].kill_9();
    for _ in 0..20 {
        assert_undecided(value(&mut client, &lock("free", "mine")).await);
    }
    assert_eq!(masters[2].ask(&["EXISTS", "free"]).await, Reply::Int(0));
}

/// A master that comes back empty has forgotten a lock; the others have not.
#[tokio::test]
async fn a_master_that_restarts_empty_grants_nothing_alone() {
    let Some((mut masters, proxy)) = three_masters() else { return };
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(value(&mut client, &lock("lock", "mine")).await, Ok(Value::Nil));
    masters[0].kill_9();
    masters[0].restart_empty();
    eventually("scripts run on all masters again", || {
        let (mut client, master) = (client.clone(), &masters[0]);
        async move {
            let before = master.calls("hincrby").await;
            let key = format!("beacon {}", fastrand::u64(..));
            value(&mut client, &lock(&key, "mine")).await.ok()?;
            (master.calls("hincrby").await > before).then_some(())
        }
    })
    .await;
    for _ in 0..10 {
        let left = int(&mut client, &lock("lock", "other")).await;
        assert!(left > 500_000, "the holder has {left} ms left");
    }
    masters[0].does_not_hold_for("lock", "other").await;
    for master in &masters[1..] {
        held_by(master, "lock", "mine").await;
    }
    assert_eq!(int(&mut client, &unlock("lock")).await, 1);
}

/// `error({})` crashes a Redis 7.0. Sent to all masters, it would crash them all.
#[tokio::test]
async fn a_script_that_ends_a_redis_does_not_end_the_masters() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut raw = proxy.raw().await;
    for script in ["error({})", "error({1, 2})", "error({ok = 'fine'})"] {
        let reply = raw.ask(&["EVAL", script, "0"]).await;
        assert!(matches!(reply, Reply::Error(_)), "{script} was answered {reply:?}");
    }
    for master in masters.iter() {
        assert_eq!(master.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    }
}

const CYCLES: usize = 50;
/// Waiting for the missing master even once per cycle would take longer than [`LIMIT`].
const LONG_VOTE: [&str; 2] = ["--vote-timeout", "3s"];
const LIMIT: Duration = PATIENCE.saturating_mul(5);

/// Locks, refuses, locks again and unlocks; every answer must be the one of a healthy Redis.
async fn cycle(client: &mut MultiplexedConnection) {
    let cycles = async {
        for turn in 0..CYCLES {
            let key = format!("lock {turn} {}", fastrand::u64(..));
            let mut again = client.clone();
            assert_eq!(value(client, &lock(&key, "mine")).await, Ok(Value::Nil), "turn {turn}");
            let left = int(client, &lock(&key, "other")).await;
            assert!((590_000..=600_000).contains(&left), "turn {turn}: {left} ms left");
            assert_eq!(value(&mut again, &lock(&key, "mine")).await, Ok(Value::Nil), "turn {turn}");
            assert_eq!(int(client, &unlock(&key)).await, 0, "turn {turn}");
            assert_eq!(int(client, &["DEL", "latch"]).await, 1, "turn {turn}");
            assert_eq!(int(client, &unlock(&key)).await, 1, "turn {turn}");
            assert_eq!(int(client, &["DEL", "latch"]).await, 1, "turn {turn}");
            assert_eq!(value(client, &unlock(&key)).await, Ok(Value::Nil), "turn {turn}");
        }
    };
    tokio::time::timeout(LIMIT, cycles).await.expect("no script waits for a missing master");
}

/// Starts three masters for what only several can show; returns `None` for one plain Redis.
fn three_masters() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    Some((masters, proxy))
}

fn lock<'a>(key: &'a str, holder: &'a str) -> [&'a str; 6] {
    ["EVAL", REDISSON_LOCK, "1", key, LEASE, holder]
}

/// Unlocks as the holder "mine".
fn unlock(key: &str) -> [&str; 11] {
    ["EVAL", REDISSON_UNLOCK, "3", key, "channel", "latch", "0", LEASE, "mine", "publish", "60000"]
}

fn holder(name: &str) -> Reply {
    Reply::Map(vec![(Reply::bulk(name), Reply::bulk("1"))])
}

/// Checks for neither a success nor a refusal.
fn assert_undecided(reply: redis::RedisResult<Value>) {
    let error = reply.expect_err("nobody can know");
    let code = error.code().unwrap_or_default();
    assert!(["CLUSTERDOWN", "TRYAGAIN", "UNKNOWN"].contains(&code), "{error}");
}

async fn number(client: &mut MultiplexedConnection, key: &str) -> i64 {
    let number = text(client, &["GET", key]).await;
    number.map_or(0, |number| number.parse().expect("a number"))
}

/// Waits until all masters hold the same, since some may be a moment late.
async fn all_agree(masters: &Masters, key: &str) {
    eventually(&format!("{key} is the same on all masters"), || async {
        let first = State::on(&masters[0], key).await;
        for master in &masters[1..] {
            if !State::on(master, key).await.holds_the_same(&first) {
                return None;
            }
        }
        Some(())
    })
    .await;
}

async fn held_by(master: &Master, key: &str, name: &str) {
    eventually(&format!("{key} is held by {name} on a master"), || async {
        (master.ask(&["HGETALL", key]).await == holder(name)).then_some(())
    })
    .await;
}

impl Master {
    async fn does_not_hold_for(&self, key: &str, name: &str) {
        eventually(&format!("{key} is not held by {name} on a master"), || async {
            (self.ask(&["HEXISTS", key, name]).await == Reply::Int(0)).then_some(())
        })
        .await;
    }
}
