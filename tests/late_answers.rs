//! Answers that arrive too late for their claim. After an error, or no reply, a client releases and retries with the
//! same token. A lock granted by the retry is kept: no other client gets it when the network finally delivers the
//! messages of the earlier attempt.
//!
//! TTLs here are ten minutes: if a lock disappears, it was taken away and did not expire.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use support::scripts::{EXTEND, RELEASE};
use support::{
    Masters, Proxy, Raw, Relay, Reply, Stage, encode, eventually, target_is_plain_redis, value,
};

const TEN_MINUTES: &str = "600000";
/// Short compared to the delays of the network here.
const FLAGS: [&str; 2] = ["--vote-timeout", "100ms"];
const VOTE_TIMEOUT: Duration = Duration::from_millis(100);
/// Longer than a few vote timeouts; a client of one Redis would only notice that it is slow.
const LONGEST_STALL: Duration = Duration::from_millis(450);
/// Runs of each race.
const TURNS: usize = 3;

/// The late yes to the first attempt used to be taken back on arrival, along with the grant of the second one.
/// redsync and redlock-py do this: claim, error, release, claim.
#[tokio::test]
async fn a_lock_outlives_the_late_answer_to_an_earlier_attempt_with_its_token() {
    let release =
        |key: &str, token: &str| ["EVAL", RELEASE, "1", key, token].map(str::to_owned).to_vec();
    while_all_links_stall("mine", release).await;
}

/// The same with the token that all clients of a cache share: `cache.add(key, 'true')`, `cache.delete(key)`.
#[tokio::test]
async fn a_lock_with_a_constant_token_outlives_the_late_answer_to_an_earlier_attempt() {
    while_all_links_stall("true", |key, _| ["DEL", key].map(str::to_owned).to_vec()).await;
}

/// The masters execute everything at once, and their answers arrive when the second attempt has been executed as
/// well.
async fn while_all_links_stall(token: &str, let_go: fn(&str, &str) -> Vec<String>) {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &FLAGS);
    proxy.expect_warnings();
    for turn in 0..TURNS {
        let key = format!("lock {turn}");
        let before = claims(&masters).await;
        relays.iter().for_each(Relay::withhold_answers);
        let client = proxy.connection().await;
        let insisting = tokio::spawn(insist(client, key.clone(), token.to_owned(), let_go));
        let limit = Instant::now() + LONGEST_STALL;
        while Instant::now() < limit && !have_risen_by_two(&before, &claims(&masters).await) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        relays.iter().for_each(Relay::heal);
        insisting.await.expect("a client that does not panic");
        nobody_else_gets(&key, &proxy).await;
    }
}

/// Claims until it is granted, and releases after each error what it may have.
async fn insist(
    client: MultiplexedConnection,
    key: String,
    token: String,
    let_go: fn(&str, &str) -> Vec<String>,
) {
    eventually("a claim is granted", || {
        let (mut client, key, token) = (client.clone(), &key, &token);
        async move {
            if claim(&mut client, key, token).await == Ok(Value::Okay) {
                return Some(());
            }
            let words = let_go(key, token);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let _ = value(&mut client, &words).await;
            None
        }
    })
    .await;
}

/// Returns the number of claims that each master has executed.
async fn claims(masters: &Masters) -> Vec<u64> {
    let mut claims = Vec::new();
    for master in masters.iter() {
        claims.push(master.calls("set").await);
    }
    claims
}

fn have_risen_by_two(before: &[u64], now: &[u64]) -> bool {
    before.iter().zip(now).all(|(before, now)| *now >= before + 2)
}

/// The network swallows the first attempt, and the client continues with another proxy. The first proxy's roll-back
/// used to take the lock away on all masters.
#[tokio::test]
async fn a_lock_outlives_the_rollback_by_a_proxy_whose_claim_was_swallowed() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for key in ["first swallowed", "second swallowed", "third swallowed"] {
        stage.relays.iter().for_each(|relay| relay.swallow("swallowed"));
        claim(&mut far, key, "mine").await.expect_err("a claim that no master has seen");
        assert_eq!(claim(&mut near, key, "mine").await, Ok(Value::Okay));
        stage.relays.iter().for_each(Relay::reset);
        stage.heal();
        stage.settled().await;
        nobody_else_gets(key, &stage.near).await;
    }
}

/// The first proxy stands still while its claim is answered, and the client continues with another one. When the
/// first proxy read the answers, it used to take the lock away on all masters.
#[tokio::test]
async fn a_lock_outlives_the_rollback_by_a_proxy_that_stood_still() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    let mut near = stage.near.connection().await;
    for turn in 0..TURNS {
        let key = format!("lock {turn}");
        let mut far = stage.far.raw().await;
        stage.relays.iter().for_each(Relay::withhold_answers);
        far.send(&encode(&["SET", &key, "mine", "NX", "PX", TEN_MINUTES])).await;
        all_have(&stage.masters, &key).await;
        stage.far.stop();
        stage.heal();
        let release = ["EVAL", RELEASE, "1", &key, "mine"];
        assert_eq!(value(&mut near, &release).await, Ok(Value::Int(1)));
        assert_eq!(claim(&mut near, &key, "mine").await, Ok(Value::Okay));
        // A proxy that stands still for this long has missed its deadlines.
        tokio::time::sleep(2 * VOTE_TIMEOUT).await;
        stage.far.cont();
        far.reply().await;
        stage.settled().await;
        nobody_else_gets(&key, &stage.near).await;
    }
}

/// After an error, the extension is answered with 1, so the client holds the lock. It used to be taken back all the
/// same.
#[tokio::test]
async fn a_lock_that_was_extended_after_an_error_is_kept() {
    confirmed_after_an_error(async |stage, key| {
        let extend = ["EVAL", EXTEND, "1", key, "mine", TEN_MINUTES];
        value(&mut stage.near.connection().await, &extend).await == Ok(Value::Int(1))
    })
    .await;
}

/// After an error, `GET` returns the client's token although the masters have had plenty of time to take it back.
#[tokio::test]
async fn a_lock_that_a_quorum_still_shows_after_an_error_is_kept() {
    confirmed_after_an_error(async |stage, key| {
        let mut near = stage.near.connection().await;
        let limit = Instant::now() + 6 * VOTE_TIMEOUT;
        while Instant::now() < limit {
            if value(&mut near, &["GET", key]).await == Ok(Value::Nil) {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    })
    .await;
}

/// Claims with the answers withheld until the client has received an error and has asked whether it holds the lock.
async fn confirmed_after_an_error(is_confirmed: impl AsyncFn(&Stage, &str) -> bool) {
    // Links stay up for ten vote timeouts, longer than any client's patience: requests after the claim reach the
    // masters.
    let Some(stage) = Stage::set(&["--vote-timeout", "200ms"]) else { return };
    let mut far = stage.far.connection().await;
    for turn in 0..TURNS {
        let key = format!("lock {turn}");
        stage.relays.iter().for_each(Relay::withhold_answers);
        claim(&mut far, &key, "mine").await.expect_err("a claim that no master has answered");
        let is_confirmed = is_confirmed(&stage, &key).await;
        stage.heal();
        stage.settled().await;
        if is_confirmed {
            nobody_else_gets(&key, &stage.near).await;
        }
    }
}

/// A client pipelines its requests, and the reply to the first is slow. `OK` for the second used to arrive when the
/// masters had ended the lock already.
#[tokio::test]
async fn a_lock_that_is_told_behind_a_slow_reply_is_kept_for_its_whole_ttl() {
    behind_a_slow_reply(Reply::ok(), async |_| {}, &["SET", "lock", "mine", "NX", "PX", "300"])
        .await;
}

/// The same for an extension.
#[tokio::test]
async fn an_extension_that_is_told_behind_a_slow_reply_is_kept_for_its_whole_ttl() {
    let claim = async |client: &mut Raw| {
        let claim = ["SET", "lock", "mine", "NX", "PX", "300"];
        assert_eq!(client.ask(&claim).await, Reply::ok());
    };
    let extend = ["EVAL", EXTEND, "1", "lock", "mine", "300"];
    behind_a_slow_reply(Reply::Int(1), claim, &extend).await;
}

/// Sends the request behind a read of a key with a different value on every master. The proxy repeats the read until
/// they agree. The masters decide on the request long before.
async fn behind_a_slow_reply(expected: Reply, prepare: impl AsyncFn(&mut Raw), request: &[&str]) {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags =
        ["--vote-timeout", "1s", "--split-vote-retries", "100", "--split-vote-delay", "50ms"];
    let proxy = Proxy::start(&masters, &flags);
    for (index, master) in masters.iter().enumerate() {
        let value = index.to_string();
        assert_eq!(master.ask(&["SET", "contested", &value]).await, Reply::ok());
    }
    let mut client = proxy.raw().await;
    prepare(&mut client).await;
    let requests = [encode(&["GET", "contested"]), encode(request)].concat();
    client.send(&requests).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    for master in masters.iter() {
        assert_eq!(master.ask(&["SET", "contested", "agreed"]).await, Reply::ok());
    }
    assert_eq!(client.replies(2).await, [Reply::bulk("agreed"), expected]);
    let since = Instant::now();
    let mut keeping = 0;
    for master in masters.iter() {
        let left = Duration::from_millis(master.pttl("lock").await.max(0).unsigned_abs());
        keeping += usize::from(left + since.elapsed() >= Duration::from_millis(300));
    }
    assert!(keeping >= masters.quorum(), "only {keeping} keep it for as long as its holder");
}

/// Lets another client try again and again.
async fn nobody_else_gets(key: &str, proxy: &Proxy) {
    let mut other = proxy.connection().await;
    for _ in 0..20 {
        let reply = claim(&mut other, key, "somebody else's").await;
        assert_ne!(reply, Ok(Value::Okay), "{key} was granted twice");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn all_have(masters: &Masters, key: &str) {
    eventually("all masters have the key", || async {
        (masters.having(key).await == masters.len()).then_some(())
    })
    .await;
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str) -> RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", TEN_MINUTES]).await
}
