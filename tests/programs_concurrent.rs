//! Many clients, through one proxy or two, that run scripts and transactions on the same keys.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use support::scripts::{REDISSON_LOCK, REDISSON_UNLOCK};
use support::{Masters, Proxy, Raw, Reply, connection, value};

const CLIENTS: usize = 8;
const LOCKINGS: usize = 15;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_proxy_gives_a_lock_to_one_client_at_a_time() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    fight(&[&proxy]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_proxies_give_a_lock_to_one_client_at_a_time() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    fight(&[&proxies[0], &proxies[1]]).await;
}

/// Every client gets the lock as often as it wants. While it has the lock, no other client does: the lease is longer
/// than the test, so only a broken lock lets a second client in.
async fn fight(proxies: &[&Proxy]) {
    let holders = Arc::new(AtomicUsize::new(0));
    let mut clients = tokio::task::JoinSet::new();
    for id in 0..CLIENTS {
        let address = proxies[id % proxies.len()].address().to_owned();
        clients.spawn(client(address, id, Arc::clone(&holders)));
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client that ends well");
    }
}

async fn client(address: String, id: usize, holders: Arc<AtomicUsize>) {
    let mut connection = connection(&address).await;
    let name = format!("client {id}");
    for turn in 0..LOCKINGS {
        take(&mut connection, &name).await;
        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "{name} is not alone");
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3))).await;
        assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1, "{name} was not alone");
        release(&mut connection, &name, turn).await;
    }
}

/// Nil means granted; a number is the time that another client has it; after an error the client retries.
async fn take(connection: &mut MultiplexedConnection, name: &str) {
    let request = ["EVAL", REDISSON_LOCK, "1", "lock", "600000", name];
    loop {
        match value(connection, &request).await {
            Ok(Value::Nil) => return,
            Ok(Value::Int(left)) => assert!(left > 0, "{name} is told that {left} ms are left"),
            other => assert_undecided(&other),
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
    }
}

/// 1 means released. After an error of unknown outcome, another client may have the lock already.
async fn release(connection: &mut MultiplexedConnection, name: &str, turn: usize) {
    let latch = format!("latch of {name} {turn}");
    let keys = ["EVAL", REDISSON_UNLOCK, "3", "lock", "channel", &latch];
    let request = [&keys[..], &["0", "600000", name, "publish", "60000"]].concat();
    let mut open = false;
    loop {
        match value(connection, &request).await {
            Ok(Value::Int(1)) => return,
            Ok(Value::Nil) if open => return,
            other => assert_undecided(&other),
        }
        open = true;
    }
}

fn assert_undecided(reply: &RedisResult<Value>) {
    let code = reply.as_ref().err().and_then(|error| error.code());
    assert!(matches!(code, Some("TRYAGAIN" | "CLUSTERDOWN" | "UNKNOWN")), "{reply:?}");
}

/// Every number from 1 to the last is given out once, by whichever command a client counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_lose_no_increment() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for way in COUNTING {
        let numbers = count(proxy.address(), way).await;
        let expected: Vec<i64> = (1..=i64::try_from(CLIENTS * COUNTS).expect("few")).collect();
        assert_eq!(numbers, expected, "{way:?}");
        let mut raw = proxy.raw().await;
        assert_eq!(raw.ask(&["DEL", "count"]).await, Reply::Int(1));
    }
}

const COUNTS: usize = 40;
const COUNTING: [&[&str]; 5] = [
    &["EVAL", "return redis.call('incr', KEYS[1])", "1", "count"],
    &[
        "EVAL",
        "local n = tonumber(redis.call('get', KEYS[1]) or 0) + 1 redis.call('set', KEYS[1], n) return n",
        "1",
        "count",
    ],
    &["HINCRBY", "count", "field", "1"],
    &["INCR", "count"],
    &["RPUSH", "count", "element"],
];

/// Returns all clients' answers, sorted.
async fn count(address: &str, way: &'static [&'static str]) -> Vec<i64> {
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let mut raw = Raw::connect(address).await;
        clients.spawn(async move {
            let mut numbers = Vec::new();
            while numbers.len() < COUNTS {
                match raw.ask(way).await {
                    Reply::Int(number) => numbers.push(number),
                    other => panic!("{way:?} was answered {other:?}"),
                }
            }
            numbers
        });
    }
    let mut numbers = clients.join_all().await.concat();
    numbers.sort_unstable();
    numbers
}

/// Of two transactions that watch what they change, one always succeeds, and no increment is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watched_counters_lose_no_increment() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(count_by_watching(proxy.raw().await));
    }
    clients.join_all().await;
    let count = proxy.raw().await.ask(&["GET", "count"]).await;
    assert_eq!(count, Reply::bulk(&(CLIENTS * WATCHED_COUNTS).to_string()));
}

const WATCHED_COUNTS: usize = 10;

async fn count_by_watching(mut raw: Raw) {
    let mut counted = 0;
    while counted < WATCHED_COUNTS {
        assert_eq!(raw.ask(&["WATCH", "count"]).await, Reply::ok());
        let next = match raw.ask(&["GET", "count"]).await {
            Reply::Nil => 1,
            held => held.text().parse::<usize>().expect("a number") + 1,
        };
        assert_eq!(raw.ask(&["MULTI"]).await, Reply::ok());
        raw.ask(&["SET", "count", &next.to_string()]).await;
        match raw.ask(&["EXEC"]).await {
            Reply::Nil => {}
            Reply::Array(replies) => {
                assert_eq!(replies, [Reply::ok()]);
                counted += 1;
            }
            other => panic!("EXEC was answered {other:?}"),
        }
    }
}
