//! Masters whose clocks are seconds apart: registers expire at one time of day all the same, whichever masters vote.

#![allow(clippy::disallowed_methods, reason = "black-box tests measure real time")]

mod support;

use std::time::{Duration, Instant};

use support::scripts::REDISSON_LOCK;
use support::{Clock, Master, Masters, Proxy, Raw, Relay, Reply, target_is_plain_redis, words};

/// Seconds by which each clock is ahead. Without the last master, a different clock is the one in the middle.
const AHEAD: [f64; 3] = [0.0, 12.0, 24.0];

/// Shorter than the difference between the clocks.
const TTL: Duration = Duration::from_secs(8);

fn masters(ahead: [f64; 3]) -> (Vec<Clock>, Masters) {
    let clock = |ahead: &f64| {
        let clock = Clock::new();
        clock.set_ahead_by(*ahead);
        clock
    };
    let clocks: Vec<Clock> = ahead.iter().map(clock).collect();
    let masters = clocks.iter().map(Master::start_by).collect();
    (clocks, Masters::of(masters))
}

async fn all_vote(proxy: &Proxy) {
    for master in 0..AHEAD.len() {
        proxy.knows(master, "state", "voter").await;
    }
}

async fn set(raw: &mut Raw, key: &str) -> Instant {
    let asked = Instant::now();
    let line = format!("SET {key} mine PX {}", TTL.as_millis());
    assert_eq!(raw.ask(&words(&line)).await, Reply::ok());
    asked
}

/// Returns whether the key could be checked in time; it must still exist unless this machine was slow.
async fn is_there(raw: &mut Raw, key: &str, asked: Instant) -> bool {
    let reply = raw.ask(&["GET", key]).await;
    let is_late = asked.elapsed() >= TTL;
    assert!(is_late || reply == Reply::bulk("mine"), "{reply:?} after {:?}", asked.elapsed());
    !is_late
}

#[tokio::test]
async fn what_is_set_while_one_does_not_vote_lasts_when_it_votes_again() {
    if target_is_plain_redis() {
        return;
    }
    let (_clocks, mut masters) = masters(AHEAD);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    all_vote(&proxy).await;
    let mut raw = proxy.raw().await;
    for round in 0..10 {
        let key = format!("key:{round}");
        masters[2].kill_9();
        masters[2].restart_empty();
        proxy.knows(2, "state", "probation").await;
        let asked = set(&mut raw, &key).await;
        all_vote(&proxy).await;
        if is_there(&mut raw, &key, asked).await {
            return;
        }
    }
    panic!("this machine is too slow to see whether a key lives for {TTL:?}");
}

#[tokio::test]
async fn a_proxy_that_starts_when_another_clock_is_in_the_middle_ends_nothing_early() {
    if target_is_plain_redis() {
        return;
    }
    let (_clocks, masters) = masters(AHEAD);
    let first = Proxy::start(&masters, &[]);
    first.expect_warnings();
    all_vote(&first).await;
    for master in masters.iter() {
        support::eventually("the clocks are noted", || async {
            master.has("redlock-proxy:clocks").await.then_some(())
        })
        .await;
    }
    for left_out in [2, 0] {
        masters[left_out].stop();
        let second = Proxy::start(&masters, &[]);
        second.expect_warnings();
        let (mut one, mut other) = (first.raw().await, second.raw().await);
        let asked = set(&mut one, "by:the:first").await;
        is_there(&mut other, "by:the:first", asked).await;
        let asked = set(&mut other, "by:the:second").await;
        is_there(&mut one, "by:the:second", asked).await;
        masters[left_out].cont();
    }
}

/// Starts a proxy that finds no note by another proxy.
async fn start_by_itself(masters: &Masters, addresses: &[String]) -> Proxy {
    for master in masters.iter() {
        master.ask(&["DEL", "redlock-proxy:clocks"]).await;
    }
    let proxy = Proxy::in_front_of(addresses, &[]);
    proxy.expect_warnings();
    proxy
}

async fn seconds(raw: &mut Raw) -> i64 {
    let Reply::Array(parts) = raw.ask(&["TIME"]).await else { panic!("a time") };
    parts[0].text().parse().expect("seconds")
}

/// Starts two proxies that see different masters. The second believes that it is later, by more than the TTL.
async fn two_that_disagree(masters: &Masters, networks: &[(Relay, Vec<String>); 2]) -> [Proxy; 2] {
    let founder = Proxy::start(masters, &[]);
    all_vote(&founder).await;
    drop(founder);
    for _ in 0..20 {
        let mut proxies = Vec::new();
        for (relay, addresses) in networks {
            relay.cut();
            proxies.push(start_by_itself(masters, addresses).await);
            relay.heal();
        }
        let Ok([behind, ahead]) = <[Proxy; 2]>::try_from(proxies) else { panic!("two proxies") };
        let (mut one, mut other) = (behind.raw().await, ahead.raw().await);
        if seconds(&mut other).await - seconds(&mut one).await > TTL.as_secs() as i64 {
            return [behind, ahead];
        }
    }
    panic!("each proxy finds what the other one has noted");
}

/// A lock taken by script used to be taken from its holder at once.
#[tokio::test]
async fn a_proxy_whose_time_is_ahead_takes_no_lock_before_its_time_is_over() {
    if target_is_plain_redis() {
        return;
    }
    let (_clocks, masters) = masters(AHEAD);
    // Without the last master, the clock in the middle is the earliest; without the first master, it is the second.
    let networks = [2, 0].map(|left_out| Relay::in_place_of(&masters, left_out));
    let [behind, ahead] = two_that_disagree(&masters, &networks).await;
    let ttl_ms = TTL.as_millis().to_string();
    let lock = |by| ["EVAL", REDISSON_LOCK, "1", "lock", &ttl_ms, by].map(str::to_owned);
    let (mut one, mut other) = (behind.raw().await, ahead.raw().await);
    let asked = Instant::now();
    assert_eq!(one.ask(&lock("one")).await, Reply::Nil);
    loop {
        match other.ask(&lock("other")).await {
            Reply::Nil => break,
            // The first proxy does not know of another one yet.
            Reply::Int(left) => assert!(left <= TTL.as_millis() as i64, "{left}"),
            // On a busy machine, the patience may run out before the two proxies have found each other.
            Reply::Error(error) => {
                let is_not_done =
                    ["TRYAGAIN", "CLUSTERDOWN"].iter().any(|it| error.starts_with(it));
                assert!(is_not_done, "{error}");
            }
            reply => panic!("{reply:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(asked.elapsed() >= TTL, "taken away after {:?}", asked.elapsed());
    assert!(matches!(one.ask(&lock("one")).await, Reply::Int(_)));
}

#[tokio::test]
async fn a_master_whose_clock_is_far_ahead_does_not_vote() {
    if target_is_plain_redis() {
        return;
    }
    let (clocks, masters) = masters([0.0, 12.0, 90.0]);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    proxy.knows(2, "state", "barred").await;
    let mut raw = proxy.raw().await;
    let asked = set(&mut raw, "key").await;
    is_there(&mut raw, "key", asked).await;
    assert!(proxy.says_of(2, "reason").await.contains("set it"));
    clocks[2].set_ahead_by(AHEAD[2]);
    all_vote(&proxy).await;
}
