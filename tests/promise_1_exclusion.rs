//! Promise 1: two clients never hold one lock at the same time, through any proxy and whatever a minority of masters
//! does.
//!
//! Many clients fight for few keys through two proxies. Each records only the time in which it could rely on its
//! lock: from the arrival of the grant to the moment it *sent* the claim plus the TTL, or to the moment before it
//! sent the release. Both ends lie inside the promised interval, so a slow machine shortens intervals and cannot make
//! two of them overlap. An overlap is a broken promise.
#![allow(clippy::disallowed_methods, reason = "intervals are measured on the real clock")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use support::scripts::{EXTEND, RELEASE};
use support::{Master, Masters, Proxy, Relay, connection, target_is_plain_redis, value};

/// One client's certain possession of one key.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    key: usize,
    token: String,
    from: Instant,
    until: Instant,
}

const KEYS: usize = 2;
const CLIENTS_PER_PROXY: usize = 6;
const FIGHT: Duration = Duration::from_millis(2500);
/// Time that the clients fight on at most until each key was granted.
const LONGEST: Duration = Duration::from_secs(60);
/// Short enough that locks expire while others wait for them, long enough to be relied upon for a while.
const PX: [u64; 3] = [30, 80, 200];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_every_master_up() {
    let masters = Masters::start(3);
    let proxies = side_by_side(&masters.addresses());
    let held = fight(&proxies).await;
    assert_exclusive(&held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_one_of_three_masters_is_killed() {
    let mut masters = Masters::start(3);
    let proxies = side_by_side(&masters.addresses());
    let ((), held) = tokio::join!(kill(masters.minority()), fight(&proxies));
    assert_exclusive(&held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_masters_freeze_and_thaw_in_turn() {
    let masters = Masters::start(3);
    let proxies = side_by_side(&masters.addresses());
    let ((), held) = tokio::join!(freeze_in_turn(&masters), fight(&proxies));
    assert_exclusive(&held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_two_of_five_masters_are_slow() {
    let masters = Masters::start(5);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    for relay in &relays[..masters.len() - masters.quorum()] {
        relay.delay(Duration::from_millis(15), Duration::from_millis(40));
    }
    let proxies = side_by_side(&addresses);
    let held = fight(&proxies).await;
    assert_exclusive(&held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_links_are_reset_all_the_time() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxies = side_by_side(&addresses);
    let ((), held) = tokio::join!(reset_in_turn(&relays), fight(&proxies));
    assert_exclusive(&held);
}

/// The test of the test: clients of two servers that do not know each other must be caught.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_detector_catches_servers_that_do_not_agree() {
    let strangers = [Master::start(), Master::start()];
    let addresses = strangers.map(|master| (master.address(), master));
    let grants = Arc::default();
    let clients = (0..4).map(|id| client(addresses[id % 2].0.clone(), id, Arc::clone(&grants)));
    let held = all(clients.collect()).await;
    assert!(overlap(&held).is_some(), "{} intervals and no overlap", held.len());
}

fn side_by_side(addresses: &[String]) -> [Proxy; 2] {
    let proxies = [Proxy::in_front_of(addresses, &[]), Proxy::in_front_of(addresses, &[])];
    for proxy in &proxies {
        proxy.expect_warnings();
    }
    proxies
}

async fn kill(minority: &mut [Master]) {
    tokio::time::sleep(FIGHT / 4).await;
    for master in minority {
        master.kill_9();
    }
}

/// Pauses masters in turn, never more than a minority at once; each resumes with all requests that arrived meanwhile.
async fn freeze_in_turn(masters: &Masters) {
    let end = Instant::now() + FIGHT;
    if masters.quorum() == masters.len() {
        return;
    }
    for master in masters.iter().cycle() {
        master.stop();
        tokio::time::sleep(Duration::from_millis(150)).await;
        master.cont();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if Instant::now() > end {
            return;
        }
    }
}

async fn reset_in_turn(relays: &[Relay]) {
    let end = Instant::now() + FIGHT;
    for relay in relays.iter().cycle() {
        tokio::time::sleep(Duration::from_millis(70)).await;
        relay.reset();
        if Instant::now() > end {
            return;
        }
    }
}

async fn fight(proxies: &[Proxy]) -> Vec<Held> {
    let (mut clients, grants) = (Vec::new(), Arc::default());
    for proxy in proxies {
        for _ in 0..CLIENTS_PER_PROXY {
            let grants = Arc::clone(&grants);
            clients.push(client(proxy.address().to_owned(), clients.len(), grants));
        }
    }
    all(clients).await
}

async fn all(clients: Vec<impl Future<Output = Vec<Held>> + Send + 'static>) -> Vec<Held> {
    let tasks: Vec<_> = clients.into_iter().map(tokio::spawn).collect();
    let mut held = Vec::new();
    for task in tasks {
        held.extend(task.await.expect("a client that does not panic"));
    }
    held
}

/// Grants of each key.
#[derive(Default)]
struct Grants([AtomicUsize; KEYS]);

impl Grants {
    /// Whether the fight has been long enough to show anything. It takes longer on a slow machine.
    fn are_enough(&self) -> bool {
        self.0.iter().all(|grants| grants.load(Ordering::Relaxed) > 1)
    }
}

/// Claims, then lets the lock expire, releases it, or extends it first.
async fn client(address: String, id: usize, grants: Arc<Grants>) -> Vec<Held> {
    let mut connection = connection(&address).await;
    let mut random = fastrand::Rng::with_seed(id as u64);
    let mut held = Vec::new();
    let end = Instant::now() + FIGHT;
    for turn in 0.. {
        let over = Instant::now().saturating_duration_since(end);
        if over > LONGEST || !over.is_zero() && grants.are_enough() {
            break;
        }
        let key = random.usize(..KEYS);
        let token = format!("client {id} turn {turn}");
        match claim(&mut connection, key, token, PX[random.usize(..PX.len())]).await {
            Some(grant) => {
                grants.0[key].fetch_add(1, Ordering::Relaxed);
                held.push(use_up(&mut connection, grant, random.u8(..3)).await);
            }
            None => tokio::time::sleep(Duration::from_millis(random.u64(1..5))).await,
        }
    }
    held
}

async fn claim(
    connection: &mut MultiplexedConnection,
    key: usize,
    token: String,
    px: u64,
) -> Option<Held> {
    let sent = Instant::now();
    let ttl = px.to_string();
    let reply = value(connection, &["SET", &name(key), &token, "NX", "PX", &ttl]).await;
    let from = Instant::now();
    (reply == Ok(Value::Okay)).then(|| Held {
        key,
        token,
        from,
        until: sent + Duration::from_millis(px),
    })
}

async fn use_up(connection: &mut MultiplexedConnection, mut held: Held, how: u8) -> Held {
    let half = held.until.saturating_duration_since(Instant::now()) / 2;
    tokio::time::sleep(half).await;
    if how == 1 {
        extend(connection, &mut held).await;
    }
    if how == 0 {
        tokio::time::sleep_until(held.until.into()).await;
        return held;
    }
    held.until = held.until.min(Instant::now());
    let _: RedisResult<Value> = eval(connection, RELEASE, &held, &[]).await;
    held
}

async fn extend(connection: &mut MultiplexedConnection, held: &mut Held) {
    let sent = Instant::now();
    let reply = eval(connection, EXTEND, held, &["60"]).await;
    if reply == Ok(Value::Int(1)) {
        held.until = sent + Duration::from_millis(60);
        tokio::time::sleep(Duration::from_millis(20)).await;
    } else {
        // Refused or unknown: the TTL may already be the new, shorter one. A client must not rely on it any longer.
        held.until = held.until.min(sent);
    }
}

async fn eval(
    connection: &mut MultiplexedConnection,
    script: &str,
    held: &Held,
    rest: &[&str],
) -> RedisResult<Value> {
    let key = name(held.key);
    value(connection, &[&["EVAL", script, "1", &key, &held.token], rest].concat()).await
}

fn name(key: usize) -> String {
    format!("fought for {key}")
}

fn assert_exclusive(held: &[Held]) {
    for key in 0..KEYS {
        let grants = held.iter().filter(|held| held.key == key).count();
        assert!(grants > 1, "nobody fought: {grants} grants of key {key}");
    }
    assert_eq!(overlap(held), None, "two clients held one lock");
}

/// Returns the first pair of overlapping intervals with different tokens.
fn overlap(held: &[Held]) -> Option<(Held, Held)> {
    let mut sorted: Vec<&Held> = held.iter().filter(|held| held.from < held.until).collect();
    sorted.sort_by_key(|held| (held.key, held.from));
    let mut last: Option<&Held> = None;
    for held in sorted {
        if let Some(last) = last.filter(|last| last.key == held.key && held.from < last.until) {
            return Some((last.clone(), held.clone()));
        }
        last = Some(held);
    }
    None
}
