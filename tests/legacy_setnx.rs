//! The locks of Redis's old SETNX page, which are still in use: `SETNX` with `EXPIRE`, and `SETNX` of a timestamp
//! with the `GETSET` takeover of a lock whose timestamp has passed.

mod support;

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use support::{Masters, Proxy, Reply, encode, int, text};
use tokio::sync::Barrier;

#[tokio::test]
async fn setnx_takes_a_free_key_and_only_that() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    assert_eq!(int(&mut client, &["SETNX", "lock", "mine"]).await, 1);
    assert_eq!(int(&mut client, &["SETNX", "lock", "other"]).await, 0);
    assert_eq!(text(&mut client, &["GET", "lock"]).await.as_deref(), Some("mine"));
    assert_eq!(int(&mut client, &["TTL", "lock"]).await, -1, "it lasts until it is deleted");
    assert_eq!(int(&mut client, &["DEL", "lock"]).await, 1);
    assert_eq!(int(&mut client, &["DEL", "lock"]).await, 0);
    assert_eq!(int(&mut client, &["SETNX", "lock", "other"]).await, 1);
}

#[tokio::test]
async fn setnx_then_expire() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    assert_eq!(int(&mut client, &["SETNX", "lock", "mine"]).await, 1);
    assert_eq!(int(&mut client, &["EXPIRE", "lock", "600"]).await, 1);
    let left = int(&mut client, &["TTL", "lock"]).await;
    assert!((500..=600).contains(&left), "{left} s left");
    for master in masters.iter() {
        master.holds("lock", "mine").await;
        assert!(master.pttl("lock").await > 500_000);
    }
    assert_eq!(int(&mut client, &["SETNX", "lock", "other"]).await, 0);
    assert_eq!(int(&mut client, &["PEXPIRE", "lock", "1"]).await, 1);
    support::eventually("the lock runs out", || {
        let mut client = client.clone();
        async move { (int(&mut client, &["SETNX", "lock", "other"]).await == 1).then_some(()) }
    })
    .await;
}

#[tokio::test]
async fn setnx_in_a_pipeline() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let mut pipeline = Vec::new();
    for words in [
        &["SETNX", "lock", "1"] as &[&str],
        &["SETNX", "lock", "2"],
        &["EXPIRE", "lock", "600"],
        &["GET", "lock"],
        &["DEL", "lock"],
        &["SETNX", "lock", "3"],
        &["GETSET", "lock", "4"],
        &["DEL", "lock"],
        &["GET", "lock"],
    ] {
        pipeline.extend(encode(words));
    }
    raw.send(&pipeline).await;
    let expected = [
        Reply::Int(1),
        Reply::Int(0),
        Reply::Int(1),
        Reply::bulk("1"),
        Reply::Int(1),
        Reply::Int(1),
        Reply::bulk("3"),
        Reply::Int(1),
        Reply::Nil,
    ];
    assert_eq!(raw.replies(expected.len()).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_setnx_at_once_one_wins() {
    let masters = Masters::start(3);
    let proxies = [0, 1].map(|_| Proxy::start(&masters, &PATIENT));
    for (turn, used) in [&proxies[..1], &proxies[..]].into_iter().cycle().take(20).enumerate() {
        let winners = at_once(used, format!("lock {turn}"), setnx).await;
        // Between two proxies a vote may split so that no client wins, but two clients never win.
        let least = usize::from(used.len() == 1);
        assert!((least..=1).contains(&winners), "turn {turn}: {winners} winners");
    }
}

/// The heart of the timestamp lock: all clients see the same expired timestamp and send `GETSET`. Only the client
/// that gets the expired timestamp back has the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_see_an_expired_timestamp_one_takes_over() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[])];
    takeovers(&proxies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_two_proxies_too_one_takes_over() {
    let masters = Masters::start(3);
    let proxies = [0, 1].map(|_| Proxy::start(&masters, &PATIENT));
    takeovers(&proxies).await;
}

/// Exactly one later `GETSET` sees each `GETSET`: the old values form a chain without forks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_getsets_see_each_other_in_some_order() {
    let masters = Masters::start(3);
    let proxies = [0, 1].map(|_| Proxy::start(&masters, &PATIENT));
    let mut writers = Vec::new();
    for id in 0..4 {
        let mut client = proxies[id % 2].connection().await;
        writers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            for turn in 0..10 {
                let value = format!("writer {id} turn {turn}");
                seen.push(getset_patiently(&mut client, "chain", &value).await);
            }
            seen
        }));
    }
    let mut seen = Vec::new();
    for writer in writers {
        seen.extend(writer.await.expect("a writer that does not panic"));
    }
    seen.push(text(&mut proxies[0].connection().await, &["GET", "chain"]).await);
    let count = seen.len();
    assert_eq!(count, 41);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count, "one value was given to two writers, or was never seen");
}

/// Long enough that writers which interfere with each other on a slow machine learn the outcome eventually.
const PATIENT: [&str; 2] = ["--patience", "60s"];

/// While a lock changes hands it has an old value or a new one, never none: "none" would mean to a client that it was
/// released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_changes_hands_is_never_seen_absent() {
    let masters = Masters::start(3);
    let proxies = [0, 1].map(|_| Proxy::start(&masters, &PATIENT));
    let mut reader = proxies[0].connection().await;
    assert_eq!(int(&mut reader, &["SETNX", "lock", "first"]).await, 1);
    let mut writers = Vec::new();
    for id in 0..4 {
        let mut client = proxies[id % 2].connection().await;
        writers.push(tokio::spawn(async move {
            for turn in 0..60 {
                getset_patiently(&mut client, "lock", &format!("writer {id} turn {turn}")).await;
            }
        }));
    }
    while writers.iter().any(|writer| !writer.is_finished()) {
        get_patiently(&mut reader, "lock").await;
        assert_ne!(
            support::value(&mut reader, &["EXISTS", "lock"]).await,
            Ok(redis::Value::Int(0))
        );
    }
    for writer in writers {
        writer.await.expect("a writer that does not panic");
    }
}

async fn takeovers(proxies: &[Proxy]) {
    let mut client = proxies[0].connection().await;
    for turn in 0..15 {
        let key = format!("lock {turn}");
        assert_eq!(int(&mut client, &["SETNX", &key, "1000"]).await, 1);
        let winners = at_once(proxies, key, take_over).await;
        assert_eq!(winners, 1, "turn {turn}");
    }
}

/// Runs one attempt by eight clients at the same moment, and returns the number of winners.
async fn at_once<F, Fut>(proxies: &[Proxy], key: String, attempt: F) -> usize
where
    F: Fn(MultiplexedConnection, String, usize) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = bool> + Send,
{
    let start = Arc::new(Barrier::new(8));
    let mut clients = Vec::new();
    for id in 0..8 {
        let client = proxies[id % proxies.len()].connection().await;
        let (start, key) = (Arc::clone(&start), key.clone());
        clients.push(tokio::spawn(async move {
            start.wait().await;
            attempt(client, key, id).await
        }));
    }
    let mut winners = 0;
    for client in clients {
        winners += usize::from(client.await.expect("a client that does not panic"));
    }
    winners
}

async fn setnx(mut client: MultiplexedConnection, key: String, id: usize) -> bool {
    int(&mut client, &["SETNX", &key, &id.to_string()]).await == 1
}

/// The steps of the old page, starting when SETNX was refused.
async fn take_over(mut client: MultiplexedConnection, key: String, id: usize) -> bool {
    let now = 2000 + id as u64;
    assert_eq!(int(&mut client, &["SETNX", &key, &now.to_string()]).await, 0);
    if get_patiently(&mut client, &key).await != "1000" {
        return false;
    }
    getset_patiently(&mut client, &key, &now.to_string()).await.as_deref() == Some("1000")
}

/// Reads a lock that nobody deletes. A proxy may ask for a retry while its value changes.
async fn get_patiently(client: &mut MultiplexedConnection, key: &str) -> String {
    support::eventually("GET comes through", || {
        let mut client = client.clone();
        async move {
            match support::value(&mut client, &["GET", key]).await {
                Ok(redis::Value::BulkString(seen)) => Some(String::from_utf8_lossy(&seen).into()),
                Ok(other) => panic!("nobody deletes {key}, but GET answered {other:?}"),
                Err(error) if error.code() == Some("TRYAGAIN") => None,
                Err(error) => panic!("GET failed: {error}"),
            }
        }
    })
    .await
}

/// A proxy may ask for a retry when writers interfere again and again; it has then changed nothing.
async fn getset_patiently(
    client: &mut MultiplexedConnection,
    key: &str,
    new: &str,
) -> Option<String> {
    support::eventually("GETSET comes through", || {
        let mut client = client.clone();
        async move {
            match support::value(&mut client, &["GETSET", key, new]).await {
                Ok(redis::Value::Nil) => Some(None),
                Ok(redis::Value::BulkString(old)) => {
                    Some(Some(String::from_utf8_lossy(&old).into()))
                }
                Ok(other) => panic!("GETSET answered {other:?}"),
                Err(error) if error.code() == Some("TRYAGAIN") => None,
                Err(error) => panic!("GETSET failed: {error}"),
            }
        }
    })
    .await
}
