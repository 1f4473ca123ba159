//! A client that must retry does so while its first attempt is still in flight. A grant to the second attempt is not
//! taken back with the first, by any proxy.

mod support;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use support::scripts::{REDISSON_LOCK, TAKE_AGAIN, TAKE_OR_EXTEND};
use support::{Masters, Proxy, target_is_plain_redis, value};

/// Longer than any test.
const LEASE: &str = "600000";
/// Number of times that two masters pause and continue.
const TIMES: usize = 4;
/// Takes both keys, or extends them if both are the caller's own (as bsm/redislock does).
const TAKE_TWO: &str = "if redis.call('msetnx', KEYS[1], ARGV[1], KEYS[2], ARGV[1]) == 0 then \
     for _, key in ipairs(KEYS) do if redis.call('get', key) ~= ARGV[1] then return false end end end \
     for _, key in ipairs(KEYS) do redis.call('pexpire', key, ARGV[2]) end \
     return redis.status_reply('OK')";

#[tokio::test]
async fn a_lock_on_two_keys_is_not_lost_to_the_first_attempt() {
    for other_proxy in [false, true] {
        attempts(other_proxy, is_ok, |n, who| {
            let (first, second) = (format!("{n} a"), format!("{n} b"));
            ["EVAL", TAKE_TWO, "2", &first, &second, who, LEASE].map(str::to_owned).to_vec()
        })
        .await;
    }
}

#[tokio::test]
async fn a_lock_that_its_holder_may_take_again_is_not_lost_to_the_first_attempt() {
    for other_proxy in [false, true] {
        attempts(other_proxy, is_ok, |n, who| {
            let words = ["EVAL", TAKE_AGAIN, "1", &n.to_string(), who, LEASE, "yes"];
            words.map(str::to_owned).to_vec()
        })
        .await;
        attempts(other_proxy, is_ok, |n, who| {
            let key = format!("extend {n}");
            ["EVAL", TAKE_OR_EXTEND, "1", &key, who, LEASE].map(str::to_owned).to_vec()
        })
        .await;
    }
}

#[tokio::test]
async fn a_hash_lock_is_not_lost_to_the_first_attempt() {
    for other_proxy in [false, true] {
        attempts(
            other_proxy,
            |reply| *reply == Value::Nil,
            |n, who| {
                let key = format!("hash {n}");
                ["EVAL", REDISSON_LOCK, "1", &key, LEASE, who].map(str::to_owned).to_vec()
            },
        )
        .await;
    }
}

/// `mine` tries while two masters are paused, and is told that the outcome is unknown. It retries through the same
/// proxy or another one, just before they continue. If it is granted then, `other` is refused.
async fn attempts(
    other_proxy: bool,
    is_grant: fn(&Value) -> bool,
    lock: impl Fn(usize, &str) -> Vec<String>,
) {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    proxies.iter().for_each(Proxy::expect_warnings);
    let mut first = proxies[0].connection().await;
    let mut second = proxies[usize::from(other_proxy)].connection().await;
    let mut other = proxies[1].connection().await;
    // Masters check new scripts first, which is not the subject of this test.
    for client in [&mut first, &mut second, &mut other] {
        let _ = ask(client, &lock(TIMES, "somebody")).await;
    }
    for n in 0..TIMES {
        masters[..2].iter().for_each(support::Master::stop);
        let _ = ask(&mut first, &lock(n, "mine")).await;
        let again = {
            let words = lock(n, "mine");
            let mut second = second.clone();
            tokio::spawn(async move { ask(&mut second, &words).await })
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
        masters[..2].iter().for_each(support::Master::cont);
        let again = again.await.expect("a task that does not panic");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let stranger = ask(&mut other, &lock(n, "other")).await;
        let granted = [&again, &stranger].map(|reply| reply.as_ref().is_ok_and(is_grant));
        assert_ne!(granted, [true, true], "{again:?}, then {stranger:?} to another client");
    }
}

fn is_ok(reply: &Value) -> bool {
    match reply {
        Value::Okay | Value::Int(1) => true,
        Value::SimpleString(text) => text == "OK",
        _ => false,
    }
}

async fn ask(client: &mut MultiplexedConnection, words: &[String]) -> RedisResult<Value> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    value(client, &words).await
}
