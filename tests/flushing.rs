//! `FLUSHDB` and `FLUSHALL` have one place in the order of all operations, whichever masters are away meanwhile.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

#[path = "simulation/history.rs"]
#[allow(dead_code, unreachable_pub, reason = "the simulation uses all of it")]
mod history;
#[path = "simulation/resp.rs"]
#[allow(dead_code, unreachable_pub, reason = "the simulation uses all of it")]
mod resp;
mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use history::{Call, Operation};
use redlock_proxy::catalogue::reserved;
use redlock_proxy::operation::register::ask;
use support::linearizable::Doubt;
use support::{
    Masters, Proxy, Raw, Relay, Reply, eventually, linearizable, target_is_plain_redis, words,
};
use tokio::time::Instant;

const FLAGS: [&str; 3] = ["--allow-flush", "--vote-timeout", "100ms"];

/// Beginning of the counter in the words of a flush once it is chosen: 16 digits, until the year 2286.
const COUNTER: &str = "$16\r\n1";

async fn ask(client: &mut Raw, line: &str) -> Reply {
    client.ask(&words(line)).await
}

/// Returns the first answer that does not ask for a retry.
async fn answer(client: &mut Raw, line: &str) -> Reply {
    for _ in 0..100 {
        let reply = ask(client, line).await;
        if !matches!(reply, Reply::Error(_)) {
            return reply;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{line} is never answered");
}

/// Waits until all masters hold exactly these keys, apart from the proxies' own.
async fn all_hold(masters: &Masters, expected: &[&str]) {
    eventually("all masters hold the same", || async {
        for master in masters.iter() {
            let Reply::Array(keys) = master.ask(&["KEYS", "*"]).await else { return None };
            let names =
                keys.iter().map(Reply::text).filter(|name| !name.starts_with("redlock-proxy:"));
            let mut names: Vec<String> = names.collect();
            names.sort();
            if names != expected {
                return None;
            }
        }
        let mut tails = Vec::new();
        for master in masters.iter() {
            let mark = master.ask(&["GET", "redlock-proxy:mark"]).await.text();
            tails.push(mark.rsplit(' ').next().unwrap_or_default().to_owned());
        }
        tails.iter().all(|tail| *tail == tails[0] && tail != "0").then_some(())
    })
    .await;
}

/// Sets the keys that exist before the flush.
async fn fill(client: &mut Raw) {
    for line in ["SET text before", "RPUSH list a b", "INCR count", "SET lock before NX PX 600000"]
    {
        assert!(!matches!(ask(client, line).await, Reply::Error(_)), "{line}");
    }
}

#[tokio::test]
async fn nothing_rises_again_on_a_master_that_was_away() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    // Requests to a stopped master wait there, and are executed once it continues.
    let (relay, proxy) = Relay::between(&masters, 2, &FLAGS);
    let mut client = proxy.raw().await;
    // No client comes back to this database, and it has no stamps. Where stamps differ, masters are asked, and told
    // of the flush.
    assert_eq!(ask(&mut client, "SELECT 5").await, Reply::ok());
    assert_eq!(ask(&mut client, "SET lock before NX PX 600000").await, Reply::ok());
    assert_eq!(ask(&mut client, "SELECT 0").await, Reply::ok());
    fill(&mut client).await;
    for master in masters.iter() {
        eventually("the keys arrive", || async { master.has("lock").await.then_some(()) }).await;
    }
    eventually("the other lock arrives", || async {
        (masters[2].key_count_in(5).await > 0).then_some(())
    })
    .await;
    relay.cut();
    proxy.knows(2, "state", "down").await;
    assert_eq!(answer(&mut client, "FLUSHALL").await, Reply::ok());
    assert_eq!(answer(&mut client, "INCR count").await, Reply::Int(1));
    relay.heal();
    proxy.knows(2, "state", "voter").await;
    masters[0].stop();
    // The master that missed the flush is needed now.
    assert_eq!(answer(&mut client, "INCR count").await, Reply::Int(2));
    for (line, expected) in [
        ("GET text", Reply::Nil),
        ("LLEN list", Reply::Int(0)),
        ("EXISTS text list lock", Reply::Int(0)),
        ("GET lock", Reply::Nil),
        ("SET lock after NX PX 600000", Reply::ok()),
        ("RPUSH list c", Reply::Int(1)),
    ] {
        assert_eq!(answer(&mut client, line).await, expected, "{line}");
    }
    masters[0].cont();
    all_hold(&masters, &["count", "list", "lock"]).await;
    eventually("the other database is empty", || async {
        (masters[2].key_count_in(5).await == 0).then_some(())
    })
    .await;
    assert_eq!(answer(&mut client, "INCR count").await, Reply::Int(3));
    assert_eq!(answer(&mut client, "GET lock").await.text(), "after");
}

/// The proxy dies when one master has executed its flush. Another proxy sees none of the flush, or all of it.
#[tokio::test]
async fn a_flush_whose_proxy_dies_in_the_middle_happens_everywhere() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays = [Relay::to(&masters[1]), Relay::to(&masters[2])];
    let mut addresses = masters.addresses();
    for (at, relay) in relays.iter().enumerate() {
        addresses[at + 1] = relay.address();
    }
    let other = Proxy::start(&masters, &FLAGS);
    let proxy = Proxy::in_front_of(&addresses, &FLAGS);
    [&proxy, &other].into_iter().for_each(Proxy::expect_warnings);
    let mut client = proxy.raw().await;
    fill(&mut client).await;
    relays.iter().for_each(|relay| relay.swallow(COUNTER));
    client.send(&support::encode(&["FLUSHDB"])).await;
    eventually("one has done it", || async { (!masters[0].has("text").await).then_some(()) }).await;
    proxy.kill_9();
    let mut client = other.raw().await;
    let mut was_gone = false;
    let limit = Instant::now() + Duration::from_secs(10);
    while !was_gone {
        match answer(&mut client, "GET text").await {
            Reply::Nil => was_gone = true,
            // The flush has not happened yet.
            text => assert_eq!(text.text(), "before"),
        }
        assert!(Instant::now() < limit, "the flush stays with one master");
    }
    all_hold(&masters, &[]).await;
    for away in 0..3 {
        masters[away].stop();
        for line in ["GET text", "GET lock", "LPOP list"] {
            assert_eq!(answer(&mut client, line).await, Reply::Nil, "{line} without {away}");
        }
        masters[away].cont();
    }
    assert_eq!(answer(&mut client, "INCR count").await, Reply::Int(1));
}

/// A flush reaches one master long after its client was answered. A lock claimed since then would lose its quorum if
/// the flush deleted it there.
#[tokio::test]
async fn a_flush_that_comes_late_lets_nobody_take_a_lock_twice() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relay = Relay::to(&masters[2]);
    let mut addresses = masters.addresses();
    addresses[2] = relay.address();
    let other = Proxy::start(&masters, &FLAGS);
    let proxy = Proxy::in_front_of(&addresses, &FLAGS);
    [&proxy, &other].into_iter().for_each(Proxy::expect_warnings);
    let (mut flusher, mut client) = (proxy.raw().await, other.raw().await);
    fill(&mut client).await;
    relay.hold_back(COUNTER);
    assert_eq!(ask(&mut flusher, "FLUSHALL").await, Reply::ok());
    masters[0].stop();
    assert_eq!(answer(&mut client, "SET fresh mine NX PX 600000").await, Reply::ok());
    masters[0].cont();
    relay.heal();
    for away in 0..3 {
        masters[away].stop();
        // A bare majority may have the lock, and one of these masters may be away.
        let reply = ask(&mut client, "SET fresh theirs NX PX 600000").await;
        assert_ne!(reply, Reply::ok(), "without {away}");
        masters[away].cont();
    }
    assert_eq!(answer(&mut client, "GET fresh").await.text(), "mine");
}

#[tokio::test]
async fn a_flush_keeps_what_the_proxies_keep() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &FLAGS);
    let mut client = proxy.raw().await;
    let before = masters[1].ask(&["GET", reserved::ROSTER]).await;
    for line in ["FLUSHALL", "FLUSHDB", "FLUSHALL SYNC", "FLUSHDB ASYNC"] {
        fill(&mut client).await;
        assert_eq!(ask(&mut client, line).await, Reply::ok(), "{line}");
        all_hold(&masters, &[]).await;
        assert_eq!(masters[1].ask(&["GET", reserved::ROSTER]).await, before, "{line}");
        assert!(masters[1].has(reserved::CLOCKS).await, "{line}");
    }
}

/// The first deletion or release through another proxy used to be answered `CLUSTERDOWN`, because nobody could tell
/// whether it had been done before the flush.
#[tokio::test]
async fn what_is_deleted_through_another_proxy_after_a_flush_is_answered() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxies = [0, 1].map(|_| Proxy::start(&masters, &FLAGS));
    let (mut one, mut other) = (proxies[0].raw().await, proxies[1].raw().await);
    let release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    for held in [Reply::Int(0), Reply::Int(1)] {
        for delete in
            [&["DEL", "lock"][..], &["UNLINK", "lock"], &["EVAL", release, "1", "lock", "mine"]]
        {
            assert_eq!(ask(&mut other, "SET lock mine NX PX 60000").await, Reply::ok());
            assert_eq!(ask(&mut one, "FLUSHDB").await, Reply::ok());
            if held == Reply::Int(1) {
                assert_eq!(ask(&mut one, "SET lock mine NX PX 60000").await, Reply::ok());
            }
            assert_eq!(other.ask(delete).await, held, "{delete:?}");
            assert_eq!(ask(&mut one, "GET lock").await, Reply::Nil);
        }
    }
}

/// A proxy has flushed one master only. The others must execute the flush before any proxy reports it.
#[tokio::test]
async fn a_flush_that_one_master_has_done_is_done_by_all() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &FLAGS);
    let mut client = proxy.raw().await;
    for round in 0..10 {
        fill(&mut client).await;
        let counter = now_us();
        let mut direct = Raw::connect(&masters[round % 3].address()).await;
        direct.send(&ask::flush(counter, "SYNC", Some(0)).eval()).await;
        assert_eq!(direct.reply().await, Reply::Int(counter as i64));
        let mut was_there = true;
        for _ in 0..20 {
            let is_there = answer(&mut client, "GET text").await != Reply::Nil;
            assert!(was_there || !is_there, "it has risen again");
            was_there = is_there;
        }
        all_hold(&masters, &[]).await;
    }
}

/// Returns the microseconds since the epoch.
fn now_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a time").as_micros() as u64
}

/// All calls so far, for one counter and one queue.
type Calls = Rc<RefCell<[Vec<Call>; 2]>>;

fn told(reply: Reply) -> Option<resp::Reply> {
    Some(match reply {
        Reply::Int(number) => resp::Reply::Int(number),
        Reply::Bulk(bytes) => resp::Reply::Bulk(bytes),
        Reply::Nil => resp::Reply::Nil,
        Reply::Error(_) => return None,
        _ => resp::Reply::ok(),
    })
}

/// Counts, appends and pops, and flushes now and then.
async fn work(address: String, name: usize, until: Instant, calls: Calls, mut rng: fastrand::Rng) {
    let mut client = Raw::connect(&address).await;
    let mut number = 0;
    while Instant::now() < until {
        number += 1;
        let element = format!("{name}-{number}");
        let (object, operation, line) = match rng.u8(0..40) {
            0 => (None, Operation::Flush, "FLUSHDB".to_owned()),
            1 => (None, Operation::Flush, "FLUSHALL ASYNC".to_owned()),
            2..20 => (Some(0), Operation::Increment, "INCR counted".to_owned()),
            20..30 => (
                Some(1),
                Operation::Append(element.clone().into_bytes()),
                format!("RPUSH queued {element}"),
            ),
            _ => (Some(1), Operation::Pop, "LPOP queued".to_owned()),
        };
        let asked = Instant::now();
        let reply = told(ask(&mut client, &line).await);
        let answer = reply.map(|reply| (Instant::now(), reply));
        let call = Call { operation, asked, answer };
        let mut calls = calls.borrow_mut();
        match object {
            Some(object) => calls[object].push(call),
            None => calls.iter_mut().for_each(|calls| calls.push(call.clone())),
        }
    }
}

/// Checks whether one Redis could have given the answers of two proxies. The result is unknown if nearly all outcomes
/// were unknown at once, since the possible orders are then practically endless.
async fn one_order(seed: u64) -> Result<(), Doubt> {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &FLAGS), Proxy::start(&masters, &FLAGS)];
    proxies.iter().for_each(Proxy::expect_warnings);
    let mut rng = fastrand::Rng::with_seed(seed);
    let calls = Calls::default();
    let until = Instant::now() + Duration::from_secs(4);
    let clients = (0..6).map(|name| {
        let address = proxies[name % 2].address().to_owned();
        work(address, name, until, Rc::clone(&calls), rng.fork())
    });
    let clients = futures_util::future::join_all(clients.collect::<Vec<_>>());
    let mut rng = rng.fork();
    let faults = async {
        while Instant::now() < until {
            let at = rng.usize(0..3);
            masters[at].stop();
            tokio::time::sleep(Duration::from_millis(rng.u64(20..400))).await;
            masters[at].cont();
            tokio::time::sleep(Duration::from_millis(rng.u64(1..200))).await;
        }
    };
    tokio::join!(clients, faults);
    let counts = calls.borrow().each_ref().map(Vec::len);
    println!("{counts:?} calls");
    for calls in calls.borrow().iter() {
        let answered = calls.iter().filter(|call| call.answer.is_some());
        let flushes = answered.clone().filter(|call| call.operation == Operation::Flush).count();
        assert!(answered.count() > 50 && flushes > 2, "hardly anything has happened: {counts:?}");
        linearizable::check(calls, MOST_ORDERS)?;
    }
    eventually("all masters hold the same", || async {
        let mut dumps = Vec::new();
        for master in masters.iter() {
            let counted = master.ask(&["GET", "counted"]).await;
            dumps.push((counted, master.ask(&["LRANGE", "queued", "0", "-1"]).await));
        }
        dumps.iter().all(|dump| *dump == dumps[0]).then_some(())
    })
    .await;
    Ok(())
}

/// Maximum orders to examine, in about twenty seconds. Most histories need a tenth of that.
const MOST_ORDERS: usize = 200_000;

#[tokio::test]
async fn writes_and_flushes_of_two_proxies_have_one_order() {
    if target_is_plain_redis() {
        return;
    }
    let first: u64 = support::setting("FLUSH_SEED").unwrap_or(7);
    for seed in first..first + 8 {
        match one_order(seed).await {
            Err(Doubt::TooManyOrders(tried)) => println!("seed {seed}: not known after {tried}"),
            judged => return assert_eq!(judged, Ok(()), "seed {seed}"),
        }
    }
    panic!("no history could be judged");
}
