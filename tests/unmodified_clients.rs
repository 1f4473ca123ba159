//! Client libraries as they are on their registries take locks through the proxy: with every master
//! up, and with a minority killed.
//!
//! The suites for Python and Node are under `tests/clients`, and so is the script that installs
//! what they need. A missing interpreter is a failure that says what to install: a suite that is
//! skipped in silence tells nothing.

mod support;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, ExistenceCheck, Script, SetExpiry, SetOptions};
use rslock::{LockError, LockManager};
use support::client::url_connection;
use support::scripts::{EXTEND, RELEASE};
use support::{Masters, Proxy, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_py_8() {
    suite("python-8").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_py_5() {
    suite("python-5").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ioredis_and_node_redis() {
    suite("node").await;
}

#[tokio::test]
async fn redis_crate_in_both_protocol_versions() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    for round in ["all masters", "a minority killed"] {
        for url in ["redis://ADDRESS/", "redis://ADDRESS/?protocol=resp3", "redis://ADDRESS/5"] {
            let url = url.replace("ADDRESS", proxy.address());
            redis_crate_locks(url_connection(&url).await, &format!("{round} {url}")).await;
        }
        kill_minority(&mut masters);
    }
}

/// Redlock on the client's side with a single "server", the proxy: a release script, an extension
/// script, binary tokens.
#[tokio::test]
async fn rslock_over_the_proxy() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    let manager = LockManager::from_clients(vec![
        redis::Client::open(format!("redis://{}/", proxy.address())).expect("an address"),
    ]);
    for _ in 0..2 {
        rslock_locks(&manager).await;
        kill_minority(&mut masters);
    }
}

/// Runs the suite twice: on a healthy set of masters, and then without a minority of them.
async fn suite(name: &str) {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    run(name, proxy.address()).await;
    kill_minority(&mut masters);
    run(name, proxy.address()).await;
}

async fn run(name: &str, address: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/run");
    let output = tokio::process::Command::new(script)
        .arg(name)
        .env("REDLOCK_ADDRESS", address)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(SUITE_LIMIT, output).await.expect("the suite ends");
    let output = output.expect("tests/clients/run starts");
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "suite {name} failed:\n{}\n{}", said[0], said[1]);
    assert!(said[0].ends_with("all locks held\n"), "suite {name} did not finish:\n{}", said[0]);
}

/// Includes the installation of the suite's packages when there are none yet.
const SUITE_LIMIT: Duration = Duration::from_secs(300);

fn kill_minority(masters: &mut Masters) {
    for master in masters.minority() {
        master.kill_9();
    }
}

async fn redis_crate_locks(mut client: MultiplexedConnection, key: &str) {
    let claim = SetOptions::default()
        .conditional_set(ExistenceCheck::NX)
        .with_expiration(SetExpiry::PX(600_000));
    for (token, expected) in [("mine", Some("OK")), ("other", None)] {
        let reply: redis::RedisResult<Option<String>> =
            client.set_options(key, token, claim.clone()).await;
        assert_eq!(reply.as_ref().map(Option::as_deref), Ok(expected), "{key} by {token}");
    }

    let (extend, release) = (Script::new(EXTEND), Script::new(RELEASE));
    for (token, expected) in [("other", 0), ("mine", 1)] {
        let mut call = extend.prepare_invoke();
        call.key(key).arg(token).arg(700_000);
        let extended: i64 = call.invoke_async(&mut client).await.expect("an extension");
        assert_eq!(extended, expected, "extension of {key} by {token}");
    }
    let left: i64 = client.pttl(key).await.expect("PTTL");
    assert!((600_000..=700_000).contains(&left), "{key}: {left} ms left");
    for (token, expected) in [("other", 0), ("mine", 1), ("mine", 0)] {
        let mut call = release.prepare_invoke();
        call.key(key).arg(token);
        let released: i64 = call.invoke_async(&mut client).await.expect("a release");
        assert_eq!(released, expected, "release of {key} by {token}");
    }
    share_one_connection(&client, key).await;
}

/// Fifty tasks over one connection: each gets the reply to its own request.
async fn share_one_connection(client: &MultiplexedConnection, key: &str) {
    let tasks = (0..50).map(|id| {
        let (mut client, key) = (client.clone(), format!("{key} {id}"));
        tokio::spawn(async move {
            for turn in 0..10 {
                let token = format!("{id} {turn}");
                let claimed: bool = client.set_nx(&key, &token).await.expect("SETNX");
                assert!(claimed, "{key} {token}");
                let seen: String = client.get(&key).await.expect("GET");
                assert_eq!(seen, token, "{key}");
                let deleted: i64 = client.del(&key).await.expect("DEL");
                assert_eq!(deleted, 1, "{key}");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a task that does not panic");
    }
}

async fn rslock_locks(manager: &LockManager) {
    let ttl = Duration::from_secs(600);
    let lock =
        eventually("rslock takes the lock", || async { manager.lock("rslock", ttl).await.ok() })
            .await;
    let refused = manager.lock("rslock", ttl).await;
    assert!(matches!(refused, Err(LockError::Unavailable)), "{refused:?}");
    let extended = manager.extend(&lock, ttl).await.expect("an extension");
    assert!(!manager.is_freed(&extended).await.expect("an answer"), "it is held");
    manager.unlock(&extended).await;
    let freed = manager.is_freed(&extended).await;
    assert!(matches!(freed, Err(LockError::RedisKeyNotFound)), "{freed:?}");
    manager.extend(&extended, ttl).await.expect_err("nothing is left to extend");
}
