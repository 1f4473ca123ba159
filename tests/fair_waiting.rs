//! Fair waiting: of the clients that poll for a held lock, the one that began to ask first gets it.
//!
//! A claim waits for at most a second here, the longest time that the setting allows. On a machine on which the steps of
//! a test take longer than that, they are repeated: no test depends on how fast it is.
#![allow(clippy::disallowed_methods, reason = "steps are repeated if they took too long")]

mod support;

use std::time::{Duration, Instant};

use support::http::http;
use support::{Masters, Proxy, Raw, Reply, target_is_plain_redis};

const WAITING: [&str; 4] = ["--fair-waiting", "1s", "--admin", "127.0.0.1:0"];
const LONGEST: Duration = Duration::from_secs(1);

/// Attempts to finish the steps of a test within [`LONGEST`].
const ATTEMPTS: usize = 20;

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn claim(token: &str) -> Vec<u8> {
    support::raw::encode(&["SET", "lock", token, "NX", "PX", "60000"])
}

async fn ask(client: &mut Raw, token: &str) -> Reply {
    client.send(&claim(token)).await;
    client.reply().await
}

async fn release(client: &mut Raw, token: &str) {
    assert_eq!(client.ask(&["DELEX", "lock", "IFEQ", token]).await, Reply::Int(1));
}

/// Returns clients that have been refused in the order of their tokens, while `holder` holds the lock.
async fn pollers<const N: usize>(proxy: &Proxy, tokens: [&str; N]) -> [Raw; N] {
    let mut clients = Vec::new();
    for token in tokens {
        let mut client = proxy.raw().await;
        assert_eq!(ask(&mut client, token).await, Reply::Nil);
        clients.push(client);
    }
    clients.try_into().unwrap_or_else(|_| unreachable!("one client per token"))
}

/// Whether this number of claims waits before the first has waited for too long.
async fn wait(proxy: &Proxy, count: usize) -> bool {
    let (address, began) = (proxy.admin_address(), Instant::now());
    while began.elapsed() < LONGEST * 3 / 4 {
        let metrics = http(&address, "GET", "/metrics", "").body;
        let waiting = metrics.lines().find_map(|line| line.strip_prefix("redlock_waiting_claims "));
        if waiting.and_then(|waiting| waiting.parse().ok()) == Some(count as f64) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// Repeats a test until its steps took less than a second.
async fn in_time(mut steps: impl AsyncFnMut(&Masters, &Proxy, &mut Raw) -> bool) {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &WAITING);
    let mut holder = proxy.raw().await;
    for _ in 0..ATTEMPTS {
        assert_eq!(ask(&mut holder, "holder").await, ok());
        if steps(&masters, &proxy, &mut holder).await {
            return;
        }
        holder.ask(&["DEL", "lock"]).await;
    }
    panic!("no attempt took less than a second");
}

#[tokio::test]
async fn the_client_that_began_to_ask_first_gets_the_lock() {
    in_time(async |_, proxy, holder| {
        let [mut first, mut second, mut third] = pollers(proxy, ["1", "2", "3"]).await;
        for (client, token) in [(&mut third, "3"), (&mut first, "1"), (&mut second, "2")] {
            client.send(&claim(token)).await;
        }
        let waited = wait(proxy, 3).await;
        release(holder, "holder").await;
        if !waited {
            return false;
        }
        assert_eq!(first.reply().await, ok());
        release(&mut first, "1").await;
        if second.reply().await == Reply::Nil {
            return false;
        }
        assert_eq!(third.reply().await, Reply::Nil, "its time is up while the second one holds it");
        true
    })
    .await;
}

#[tokio::test]
async fn a_first_claim_does_not_wait() {
    in_time(async |_, proxy, _| {
        let (mut client, began) = (proxy.raw().await, Instant::now());
        assert_eq!(ask(&mut client, "first").await, Reply::Nil);
        began.elapsed() < LONGEST
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_waits_holds_up_no_request_behind_it() {
    in_time(async |_, proxy, _| {
        let [mut client] = pollers(proxy, ["1"]).await;
        let began = Instant::now();
        client.send(&claim("1")).await;
        if !wait(proxy, 1).await {
            client.reply().await;
            return false;
        }
        assert_eq!(client.ask(&["PING"]).await, Reply::Nil);
        assert_eq!(client.reply().await, Reply::Simple("PONG".into()));
        began.elapsed() < LONGEST
    })
    .await;
}

#[tokio::test]
async fn a_client_that_has_gone_does_not_get_the_lock() {
    in_time(async |_, proxy, holder| {
        let [mut gone] = pollers(proxy, ["gone"]).await;
        let Reply::Int(id) = gone.ask(&["CLIENT", "ID"]).await else { panic!("a number") };
        gone.send(&claim("gone")).await;
        if !wait(proxy, 1).await {
            gone.reply().await;
            return false;
        }
        let began = Instant::now();
        drop(gone);
        while holder.ask(&["CLIENT", "LIST", "ID", &id.to_string()]).await != Reply::bulk("") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // It was not the end of the claim's waiting that made it go.
        if began.elapsed() > LONGEST / 2 {
            return false;
        }
        release(holder, "holder").await;
        let mut other = proxy.raw().await;
        assert_eq!(ask(&mut other, "other").await, ok());
        true
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_another_proxy_has_given_back_is_not_refused() {
    in_time(async |masters, proxy, _| {
        let elsewhere = Proxy::start(masters, &WAITING);
        let mut elsewhere = elsewhere.raw().await;
        let [mut client] = pollers(proxy, ["1"]).await;
        client.send(&claim("1")).await;
        wait(proxy, 1).await;
        release(&mut elsewhere, "holder").await;
        // The claim asks the masters when its time is up. It was refused before the release if that took a second.
        client.reply().await == ok()
    })
    .await;
}
