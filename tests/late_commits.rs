//! Programs that masters answer late: a TTL counts from the answer, as with one slow Redis.

#![allow(clippy::disallowed_methods, reason = "black-box tests wait for real processes")]

mod support;

use std::time::{Duration, Instant};

use support::{
    Master, Masters, Proxy, Raw, Relay, Reply, Stage, encode, target_is_plain_redis, words,
};

/// Duration of the pause of the masters.
const PAUSE: Duration = Duration::from_secs(6);

/// The requested TTL in milliseconds, and the least that must be left at the answer, even on a slow machine.
const TTL_MS: i64 = 60_000;
const LEAST_MS: i64 = TTL_MS - 3_000;

/// A hash lock, as Redisson takes it.
const LOCK: &str = "if redis.call('exists', KEYS[1]) == 0 then \
    redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return nil end \
    return redis.call('pttl', KEYS[1])";

/// Starts masters, and a proxy that waits for them for as long as they are paused.
fn patient() -> (Masters, Proxy) {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--patience", "60s"]);
    proxy.expect_warnings();
    (masters, proxy)
}

/// Sends a request to a proxy whose masters are paused, and returns the reply.
async fn ask_late(masters: &Masters, raw: &mut Raw, request: &[&str]) -> Reply {
    masters.iter().for_each(Master::stop);
    raw.send(&encode(request)).await;
    tokio::time::sleep(PAUSE).await;
    masters.iter().for_each(Master::cont);
    raw.reply().await
}

async fn left(raw: &mut Raw, key: &str) -> i64 {
    match raw.ask(&["PTTL", key]).await {
        Reply::Int(left) => left,
        other => panic!("no time to live: {other:?}"),
    }
}

#[tokio::test]
async fn what_was_set_late_lives_as_long_as_was_asked_for() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, proxy) = patient();
    let ttl = TTL_MS.to_string();
    let lock = ["EVAL", LOCK, "2", "lock", "other", "mine", &ttl];
    let transaction = "return redis.call('set', KEYS[1], 'v', 'PX', ARGV[1])";
    for is_warm in [false, true] {
        let mut raw = proxy.raw().await;
        if is_warm {
            for key in ["lock", "k", "s"] {
                raw.ask(&["SADD", key, "member"]).await;
                raw.ask(&["DEL", key]).await;
            }
        }
        assert_eq!(ask_late(&masters, &mut raw, &lock).await, Reply::Nil);
        assert!(left(&mut raw, "lock").await > LEAST_MS, "a lock that was taken late");
        let set = ["SET", "k", "v", "PX", &ttl];
        assert_eq!(ask_late(&masters, &mut raw, &set).await, Reply::ok());
        let left_of_string = left(&mut raw, "k").await;
        assert!(left_of_string > LEAST_MS, "a string that was set late: {left_of_string}");
        assert!(left_of_string <= TTL_MS + 3_000, "not much longer: {left_of_string}");
        let eval = ["EVAL", transaction, "1", "s", &ttl];
        assert_eq!(ask_late(&masters, &mut raw, &eval).await, Reply::ok());
        assert!(left(&mut raw, "s").await > LEAST_MS, "what a script has set late");
    }
}

/// The proxy used to look for the keys in the database that the client had selected, until the patience ran out.
#[tokio::test]
async fn what_was_set_late_in_another_database_is_answered() {
    const BOTH: &str = "redis.call('set', KEYS[1], 'v', 'PX', ARGV[1]) redis.call('select', 1) \
        return redis.call('set', KEYS[1], 'v', 'PX', ARGV[1])";
    let Some(stage) = Stage::set(&["--vote-timeout", "60ms", "--patience", "10s"]) else { return };
    stage.complete().await;
    // Two rounds take longer than the vote timeout, one does not.
    let late = Duration::from_millis(40);
    stage.relays.iter().for_each(|relay| relay.delay(Duration::ZERO, late));
    let mut raw = stage.far.raw().await;
    let ttl = TTL_MS.to_string();
    for request in [&["MULTI"][..], &["SELECT", "1"], &["HSET", "one", "f", "v"]] {
        raw.ask(request).await;
    }
    raw.ask(&["PEXPIRE", "one", &ttl]).await;
    let done = Reply::Array(vec![Reply::ok(), Reply::Int(1), Reply::Int(1)]);
    assert_eq!(raw.ask(&["EXEC"]).await, done);
    assert_eq!(raw.ask(&["SELECT", "0"]).await, Reply::ok());
    assert_eq!(raw.ask(&["EVAL", BOTH, "1", "both", &ttl]).await, Reply::ok());
    for (db, key) in [("1", "one"), ("1", "both"), ("0", "both")] {
        assert_eq!(raw.ask(&["SELECT", db]).await, Reply::ok());
        let left = left(&mut raw, key).await;
        assert!(left > LEAST_MS && left <= TTL_MS + 3_000, "{key} in {db}: {left}");
    }
}

/// A lock that was taken late lasts for the requested time.
#[tokio::test]
async fn a_lock_that_was_taken_late_and_not_for_long_is_a_whole_one() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, proxy) = patient();
    let mut raw = proxy.raw().await;
    raw.ask(&["EVAL", LOCK, "2", "warm", "other", "mine", "3000"]).await;
    let lock = ["EVAL", LOCK, "2", "hash", "other", "mine", "3000"];
    assert_eq!(ask_late(&masters, &mut raw, &lock).await, Reply::Nil);
    let Reply::Int(left) = raw.ask(&lock).await else { panic!("another one has it") };
    assert!(left <= 3_000 + 6_000, "not for ever: {left}");
    let is_free = async || (proxy.raw().await.ask(&lock).await == Reply::Nil).then_some(());
    support::eventually("the lock is free", is_free).await;
}

/// No client may count on a lock that the next client may have by then.
#[tokio::test]
async fn what_has_ended_before_it_can_be_told_is_an_error() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &["--patience", "60s"]);
    proxy.expect_warnings();
    let mut raw = proxy.raw().await;
    // The masters know the script, so they are not asked again once they can answer.
    for key in ["one", "another"] {
        raw.ask(&["EVAL", LOCK, "2", key, "other", "mine", "3000"]).await;
    }
    for (key, lock) in [
        ("string", &["SET", "string", "mine", "PX", "3000"][..]),
        ("hash", &["EVAL", LOCK, "2", "hash", "other", "mine", "3000"]),
    ] {
        // The last writer of a key does not ask for a promise first.
        raw.ask(lock).await;
        raw.ask(&["DEL", key]).await;
        relays.iter().for_each(|relay| relay.hold_back_answers_to(key));
        raw.send(&encode(lock)).await;
        tokio::time::sleep(PAUSE).await;
        relays.iter().for_each(Relay::heal);
        let reply = raw.reply().await;
        assert!(
            reply.is_error("UNKNOWN whether the key still exists: its time to live passed"),
            "{lock:?}: {reply:?}"
        );
        assert_eq!(raw.ask(&["EXISTS", "string", "hash"]).await, Reply::Int(0));
    }
}

/// symfony/lock asks for `TIME` next to a key of one millisecond before its first lock, and Redisson's `unlock` can
/// leave such a key.
#[tokio::test]
async fn what_lives_too_short_for_a_lock_is_told_however_late() {
    if target_is_plain_redis() {
        return;
    }
    const MARK: &str = "redis.call('TIME') redis.call('SET', KEYS[1], '1', 'PX', 1) return 1";
    const LATCH: &str =
        "redis.call('SADD', KEYS[1], 'a') redis.call('PEXPIRE', KEYS[1], 2) return 1";
    let (masters, proxy) = patient();
    let mut raw = proxy.raw().await;
    for request in [
        &["EVAL", MARK, "1", "mark"][..],
        &["EVAL", LATCH, "1", "latch"],
        &["SET", "string", "1", "PX", "1"],
        &["PSETEX", "other", "2", "1"],
    ] {
        let reply = ask_late(&masters, &mut raw, request).await;
        assert!(matches!(reply, Reply::Int(1) | Reply::Simple(_)), "{request:?}: {reply:?}");
    }
}

/// An absolute time stays as given, and adding to an existing key does not extend it.
#[tokio::test]
async fn what_was_not_set_to_a_time_to_live_ends_as_it_would() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, proxy) = patient();
    let mut raw = proxy.raw().await;
    raw.ask(&words("SET k 1 PX 60000")).await;
    let Reply::Int(end) = raw.ask(&["PEXPIRETIME", "k"]).await else { panic!("an end") };
    assert_eq!(ask_late(&masters, &mut raw, &["INCR", "k"]).await, Reply::Int(2));
    let at = (end + 5_000).to_string();
    assert_eq!(ask_late(&masters, &mut raw, &["PEXPIREAT", "k", &at]).await, Reply::Int(1));
    let Reply::Int(later) = raw.ask(&["PEXPIRETIME", "k"]).await else { panic!("an end") };
    assert!((end + 4_000..=end + 6_000).contains(&later), "{later}, and not {at}");
}

/// The master that answered last used to count as behind, and received again what it had: a busy proxy became busier.
#[tokio::test]
async fn a_master_that_answers_last_is_given_nothing_anew() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "200ms", "--patience", "60s"]);
    proxy.expect_warnings();
    let mut raw = proxy.raw().await;
    let changes = 8;
    // Two rounds take longer than the vote timeout, one does not.
    let late = Duration::from_millis(130);
    for (relay, towards_proxy) in relays.iter().zip([late, late, 2 * late]) {
        relay.delay(Duration::ZERO, towards_proxy);
    }
    let ttl = TTL_MS.to_string();
    let before = calls(&masters).await;
    for number in 0..changes {
        let lock = ["EVAL", LOCK, "1", &format!("lock:{number}"), "mine", &ttl];
        assert_eq!(raw.ask(&lock).await, Reply::Nil);
    }
    relays.iter().for_each(|relay| relay.delay(Duration::ZERO, Duration::ZERO));
    tokio::time::sleep(Duration::from_secs(1)).await;
    // A change is prepared, executed, and its expiry is postponed; everything else the proxy does comes about once a
    // second.
    let sent = calls(&masters).await - before;
    assert!(sent < 6 * changes, "{sent} scripts for {changes} changes");
}

/// Round-trip time between the far proxy and the masters; its vote timeout is shorter.
const FAR: Duration = Duration::from_millis(400);

/// The request that postponed the expiry used to be late itself, and the expiry was postponed again until the
/// patience ran out.
#[tokio::test]
async fn a_proxy_far_from_its_masters_answers_what_sets_a_ttl() {
    const ELSEWHERE: &str = "redis.call('select', 1) redis.call('sadd', KEYS[1], 'm') \
        return redis.call('pexpire', KEYS[1], ARGV[1])";
    let flags = ["--vote-timeout", "50ms", "--patience", "10s", "--max-ttl", "60s"];
    let Some(stage) = Stage::set(&flags) else { return };
    stage.complete().await;
    stage.relays.iter().for_each(|relay| relay.delay(FAR / 2, FAR / 2));
    let (mut far, mut near) = (stage.far.raw().await, stage.near.raw().await);
    let ttl = TTL_MS.to_string();
    for turn in ["first", "second", "third"] {
        for (key, request) in [
            ("lock", &["EVAL", LOCK, "1", "lock", "mine", &ttl][..]),
            ("string", &["SETEX", "string", "60", "v"]),
            ("string", &["GETEX", "string", "PX", &ttl]),
            ("lock", &["PEXPIRE", "lock", &ttl]),
        ] {
            let began = Instant::now();
            let reply = far.ask(request).await;
            let took = began.elapsed();
            assert!(!matches!(reply, Reply::Error(_)), "{turn}, {request:?}: {reply:?}");
            let left = left(&mut near, key).await;
            // The change is prepared and executed, and its expiry is postponed twice; a slow machine takes longer.
            assert!(took < 8 * FAR, "{turn}, {request:?}: {took:?}");
            assert!(left > TTL_MS - 300, "{turn}, {request:?}: it ends in {left} ms");
            assert!(left < TTL_MS + 1_200, "{turn}, {request:?}: it stays for {left} ms");
        }
        assert_eq!(near.ask(&["DEL", "lock"]).await, Reply::Int(1));
        // The script runs again with the key that it has not declared.
        let reply = far.ask(&["EVAL", ELSEWHERE, "1", turn, &ttl]).await;
        assert_eq!(reply, Reply::Int(1), "{turn}");
    }
}

/// Returns the number of scripts that the last master received with a key.
async fn calls(masters: &Masters) -> u64 {
    masters[2].calls("evalsha").await + masters[2].calls("eval").await
}
