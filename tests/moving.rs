//! The migration of an application: old instances lock on the data Redis directly, new ones through the proxy, and no
//! two of them hold one lock (`--also-claim-on-data`).

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use support::relay::Relay;
use support::{Master, Masters, Proxy, Raw, Reply, eventually, words};

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

const EXTEND: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return \
                      redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

/// Three masters, a data Redis on which old instances lock, and a proxy that knows about them.
struct Moving {
    proxy: Proxy,
    masters: Masters,
    data: Master,
}

fn flags(url: &str) -> Vec<&str> {
    vec!["--data", url, "--lock-keys", "lock:*", "--also-claim-on-data"]
}

impl Moving {
    fn start() -> Self {
        let (masters, data) = (Masters::start(3), Master::start());
        let url = format!("redis://{}", data.address());
        let proxy = Proxy::start(&masters, &flags(&url));
        Self { proxy, masters, data }
    }

    /// Returns a client of the proxy, and one of the data Redis.
    async fn new_and_old(&self) -> (Raw, Raw) {
        (self.proxy.raw().await, Raw::connect(&self.data.address()).await)
    }

    async fn is_free(&self, key: &str) {
        eventually("nothing of it is left", || async {
            let is_left = self.data.has(key).await || self.masters.having(key).await > 0;
            (!is_left).then_some(())
        })
        .await;
    }
}

/// Returns the key next to a lock.
fn beside(key: &str) -> String {
    format!("redlock-proxy:moving:{key}")
}

#[tokio::test]
async fn a_lock_of_an_old_instance_is_held_for_new_ones_and_the_other_way_round() {
    let it = Moving::start();
    let (mut new, mut old) = it.new_and_old().await;
    assert_eq!(old.ask(&words("SET lock:a old NX PX 60000")).await, Reply::ok());
    assert_eq!(new.ask(&words("SET lock:a new NX PX 60000")).await, Reply::Nil);
    assert_eq!(new.ask(&words("SETNX lock:a new")).await, Reply::Int(0));
    assert_eq!(it.masters.having("lock:a").await, 0);
    assert_eq!(old.ask(&["EVAL", RELEASE, "1", "lock:a", "old"]).await, Reply::Int(1));
    assert_eq!(new.ask(&words("SET lock:a new NX PX 60000")).await, Reply::ok());
    assert_eq!(old.ask(&words("SET lock:a old NX PX 60000")).await, Reply::Nil);
    assert_eq!(old.ask(&words("GET lock:a")).await, Reply::bulk("new"));
    assert_eq!(it.masters.having("lock:a").await, 3);
    assert_eq!(new.ask(&["EVAL", RELEASE, "1", "lock:a", "old"]).await, Reply::Int(0));
    assert_eq!(new.ask(&["EVAL", RELEASE, "1", "lock:a", "new"]).await, Reply::Int(1));
    it.is_free("lock:a").await;
    assert!(!it.data.has(&beside("lock:a")).await);
    assert_eq!(old.ask(&words("SET lock:a old NX PX 60000")).await, Reply::ok());
}

#[tokio::test]
async fn a_lock_ends_on_the_data_redis_when_it_does_on_the_masters() {
    let it = Moving::start();
    let (mut new, mut old) = it.new_and_old().await;
    let left = |reply: Reply| match reply {
        Reply::Int(left) => left,
        other => panic!("{other:?}"),
    };
    assert_eq!(new.ask(&words("SET lock:a new NX PX 60000")).await, Reply::ok());
    let ends_with_it = |at_most: i64| {
        let data = &it.data;
        async move {
            eventually("it ends with the lease", || async {
                let left = data.pttl("lock:a").await;
                (at_most - 30_000 < left && left <= at_most).then_some(())
            })
            .await;
        }
    };
    ends_with_it(60_000 + 1_000).await;
    assert_eq!(new.ask(&["EVAL", EXTEND, "1", "lock:a", "new", "120000"]).await, Reply::Int(1));
    ends_with_it(120_000 + 2_000).await;
    assert_eq!(new.ask(&["EVAL", EXTEND, "1", "lock:a", "old", "500000"]).await, Reply::Int(0));
    assert_eq!(new.ask(&words("PEXPIRE lock:a 240000")).await, Reply::Int(1));
    ends_with_it(240_000 + 4_000).await;
    assert_eq!(new.ask(&words("PERSIST lock:a")).await, Reply::Int(1));
    assert_eq!(left(old.ask(&words("PTTL lock:a")).await), -1);
    assert_eq!(new.ask(&words("EXPIRE lock:a 60 NX")).await, Reply::Int(1));
    ends_with_it(60_000 + 1_000).await;
    assert_eq!(new.ask(&words("DEL lock:a")).await, Reply::Int(1));
    it.is_free("lock:a").await;
    assert_eq!(new.ask(&words("SETNX lock:a new")).await, Reply::Int(1));
    assert_eq!(left(old.ask(&words("PTTL lock:a")).await), -1, "it never ends");
    assert_eq!(new.ask(&words("EXPIRE lock:a 0")).await, Reply::Int(1));
    it.is_free("lock:a").await;
}

#[tokio::test]
async fn a_lock_that_has_gone_from_the_data_redis_is_not_the_clients_any_more() {
    let it = Moving::start();
    let (mut new, mut old) = it.new_and_old().await;
    assert_eq!(new.ask(&words("SET lock:a new NX PX 60000")).await, Reply::ok());
    assert_eq!(old.ask(&words("DEL lock:a")).await, Reply::Int(1));
    assert_eq!(old.ask(&words("SET lock:a old NX PX 60000")).await, Reply::ok());
    assert_eq!(new.ask(&["EVAL", EXTEND, "1", "lock:a", "new", "60000"]).await, Reply::Int(0));
    assert_eq!(new.ask(&["EVAL", RELEASE, "1", "lock:a", "new"]).await, Reply::Int(1));
    assert_eq!(it.data.get("lock:a").await.as_deref(), Some(&b"old"[..]));
}

#[tokio::test]
async fn what_the_masters_refuse_is_taken_back_from_the_data_redis() {
    let it = Moving::start();
    let mut new = it.proxy.raw().await;
    let without_data = Proxy::start(&it.masters, &[]);
    let mut elsewhere = without_data.raw().await;
    assert_eq!(elsewhere.ask(&words("SET lock:a another NX PX 60000")).await, Reply::ok());
    assert_eq!(new.ask(&words("SET lock:a new NX PX 60000")).await, Reply::Nil);
    eventually("it is taken back", || async {
        let is_left = it.data.has("lock:a").await || it.data.has(&beside("lock:a")).await;
        (!is_left).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_the_data_redis_answers_too_late_is_taken_back() {
    let (masters, data) = (Masters::start(3), Master::start());
    let relay = Relay::to(&data);
    let url = format!("redis://{}", relay.address());
    let proxy = Proxy::start(&masters, &[&flags(&url)[..], &["--patience", "300ms"]].concat());
    let mut new = proxy.raw().await;
    assert_eq!(new.ask(&words("SET lock:b new NX PX 60000")).await, Reply::ok());
    relay.withhold_answers();
    let late = new.ask(&words("SET lock:a new NX PX 60000")).await;
    assert!(late.is_error("CLUSTERDOWN the data Redis, which holds the locks"), "{late:?}");
    assert_eq!(masters.having("lock:a").await, 0, "the masters are not asked");
    relay.heal();
    let is_free = || async { (!data.has("lock:a").await).then_some(()) };
    eventually("it is taken back", is_free).await;
    let again = || async {
        let mut client = proxy.raw().await;
        (client.ask(&words("SET lock:a new NX PX 60000")).await == Reply::ok()).then_some(())
    };
    eventually("it can be taken again", again).await;
}

#[tokio::test]
async fn a_claim_whose_connection_is_lost_is_taken_back_over_the_next() {
    let (masters, data) = (Masters::start(3), Master::start());
    let relay = Relay::to(&data);
    let url = format!("redis://{}", relay.address());
    let proxy = Proxy::start(&masters, &flags(&url));
    let mut new = proxy.raw().await;
    assert_eq!(new.ask(&words("SET lock:b new NX PX 60000")).await, Reply::ok());
    relay.withhold_answers();
    proxy.expect_warnings();
    let claim = tokio::spawn(async move { new.ask(&words("SET lock:a new NX PX 60000")).await });
    let is_there = || async { data.has("lock:a").await.then_some(()) };
    eventually("the data Redis has it", is_there).await;
    relay.cut_off().await;
    relay.heal();
    let lost = claim.await.expect("a reply");
    assert!(lost.is_error("CLUSTERDOWN the data Redis"), "{lost:?}");
    let is_free = || async { (!data.has("lock:a").await).then_some(()) };
    eventually("it is taken back", is_free).await;
}

#[tokio::test]
async fn without_the_data_redis_nobody_gets_a_lock() {
    let mut it = Moving::start();
    it.proxy.expect_warnings();
    let mut new = it.proxy.raw().await;
    assert_eq!(new.ask(&words("SET lock:a new NX PX 60000")).await, Reply::ok());
    it.data.kill_9();
    let refused = new.ask(&words("SET lock:b new NX PX 60000")).await;
    assert!(refused.is_error("CLUSTERDOWN the data Redis"), "{refused:?}");
    assert_eq!(it.masters.having("lock:b").await, 0);
    assert_eq!(
        new.ask(&words("GET lock:a")).await,
        Reply::bulk("new"),
        "reading needs the masters only"
    );
    it.data.restart_empty();
    let taken = || async {
        let mut client = it.proxy.raw().await;
        (client.ask(&words("SET lock:b new NX PX 60000")).await == Reply::ok()).then_some(())
    };
    eventually("it can be taken again", taken).await;
    let lost = new.ask(&["EVAL", EXTEND, "1", "lock:a", "new", "60000"]).await;
    assert_eq!(lost, Reply::Int(0), "an old instance may have it by now");
}

#[tokio::test]
async fn what_cannot_be_done_in_both_places_is_refused() {
    let it = Moving::start();
    let mut new = it.proxy.raw().await;
    for line in [
        "SET lock:a 1",
        "SET lock:a 1 XX PX 1000",
        "GETSET lock:a 1",
        "INCR lock:a",
        "HSET lock:a f 1",
        "DEL lock:a lock:b",
        "PEXPIRE lock:a 1000 GT",
        "BLPOP lock:a 1",
        "EVAL return(redis.call('incr',KEYS[1])) 1 lock:a",
    ] {
        let refused = new.ask(&words(line)).await;
        assert!(
            refused.is_error("ERR with --also-claim-on-data locks take"),
            "{line}: {refused:?}"
        );
    }
    assert_eq!(new.ask(&["MULTI"]).await, Reply::ok());
    assert_eq!(new.ask(&words("SET lock:a 1")).await, Reply::Simple("QUEUED".into()));
    assert!(new.ask(&["EXEC"]).await.is_error("ERR with --also-claim-on-data"));
    assert_eq!(new.ask(&words("EXISTS lock:a")).await, Reply::Int(0));
    assert_eq!(new.ask(&words("SET page 1")).await, Reply::ok(), "data is data");
    assert!(!it.data.has("lock:a").await);
}

#[tokio::test]
async fn a_user_that_lacks_a_right_is_told_which_and_the_documented_ones_suffice() {
    let (masters, data) = (Masters::start(3), Master::start());
    let user = "ACL SETUSER app on >pw ~lock:* ~redlock-proxy:*";
    data.ask(&words(&format!("{user} +eval +select"))).await;
    let url = format!("redis://app:pw@{}", data.address());
    let proxy = Proxy::unready(&masters.addresses(), &flags(&url));
    proxy.expect_warnings();
    let says = "CLUSTERDOWN the data Redis, which holds the locks of old instances, says: NOPERM";
    eventually("the client is told what the data Redis says", || async {
        let reply = proxy.raw().await.ask(&words("SET lock:a new NX PX 60000")).await;
        reply.is_error(says).then_some(())
    })
    .await;
    proxy.tells(&["WARN", "the data Redis rejects this proxy's requests for locks: NOPERM"]).await;
    data.ask(&words(&format!("{user} {}", documented_rights()))).await;
    eventually("it can be taken", || async {
        let reply = proxy.raw().await.ask(&words("SET lock:a new NX PX 60000")).await;
        (reply == Reply::ok()).then_some(())
    })
    .await;
    let mut new = proxy.raw().await;
    assert_eq!(new.ask(&["EVAL", EXTEND, "1", "lock:a", "new", "90000"]).await, Reply::Int(1));
    for line in ["PEXPIRE lock:a 50000", "PERSIST lock:a", "EXPIRE lock:a 60 NX", "SETNX lock:b 1"]
    {
        assert_eq!(new.ask(&words(line)).await, Reply::Int(1), "{line}");
    }
    assert_eq!(new.ask(&["EVAL", RELEASE, "1", "lock:a", "new"]).await, Reply::Int(1));
    assert_eq!(new.ask(&words("DEL lock:b")).await, Reply::Int(1));
    let held = masters[0].ask(&words("SET lock:c other NX PX 60000")).await;
    assert_eq!(held, Reply::ok());
    assert_eq!(masters[1].ask(&words("SET lock:c other NX PX 60000")).await, Reply::ok());
    assert_eq!(new.ask(&words("SET lock:c new NX PX 60000")).await, Reply::Nil);
    eventually("all is taken back", || async {
        let keys = data.ask(&["DBSIZE"]).await;
        (keys == Reply::Int(0)).then_some(())
    })
    .await;
}

/// Returns the rights in `docs/migrating.md`, as an ACL rule.
fn documented_rights() -> String {
    let page = include_str!("../docs/migrating.md");
    let rights = page.split_once("the user in `--data` needs there").expect("the rights").1;
    let rights = rights.split_once("the names of the locks").expect("their end").0;
    let commands = rights.split('`').skip(1).step_by(2).map(|name| format!("+{name}"));
    commands.collect::<Vec<_>>().join(" ")
}

/// A holder finds no other client inside, whichever way the others have taken the lock.
#[derive(Default)]
struct Inside {
    is_taken: AtomicBool,
    times: AtomicUsize,
}

impl Inside {
    async fn enter(&self) {
        assert!(!self.is_taken.swap(true, Ordering::SeqCst), "two hold the lock");
        tokio::task::yield_now().await;
        self.is_taken.store(false, Ordering::SeqCst);
        self.times.fetch_add(1, Ordering::SeqCst);
    }
}

async fn locks_again_and_again(
    address: String,
    token: &'static str,
    inside: Arc<Inside>,
    enough: usize,
) -> usize {
    let mut client = Raw::connect(&address).await;
    let mut times = 0;
    while inside.times.load(Ordering::SeqCst) < enough {
        if client.ask(&["SET", "lock:a", token, "NX", "PX", "60000"]).await != Reply::ok() {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3))).await;
            continue;
        }
        inside.enter().await;
        times += 1;
        assert_eq!(client.ask(&["EVAL", RELEASE, "1", "lock:a", token]).await, Reply::Int(1));
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_and_new_instances_never_hold_one_lock_together() {
    let it = Moving::start();
    let url = format!("redis://{}", it.data.address());
    let second = Proxy::start(&it.masters, &flags(&url));
    for tokens in [["1"; 4], ["old-a", "old-b", "new-a", "new-b"]] {
        let inside = Arc::<Inside>::default();
        let data = it.data.address();
        let ways = [&data, &data, it.proxy.address(), second.address()];
        let run = |(address, token): (&str, _)| {
            tokio::spawn(locks_again_and_again(address.to_owned(), token, Arc::clone(&inside), 400))
        };
        let clients: Vec<_> = ways.into_iter().map(AsRef::as_ref).zip(tokens).map(run).collect();
        let mut times = Vec::new();
        for client in clients {
            times.push(client.await.expect("no two hold the lock"));
        }
        assert!(times.iter().all(|times| *times > 0), "each has had it: {times:?}");
    }
    it.is_free("lock:a").await;
}

#[test]
fn it_needs_a_data_redis_and_names_of_locks() {
    let check = |flags: &[&str]| {
        let output = support::run(&[&["--test-config", "--master", "a:1"], flags].concat());
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, why) = check(&["--also-claim-on-data"]);
    assert!(
        code != Some(0) && why.contains("also-claim-on-data has no effect without data"),
        "{why}"
    );
    let (code, why) = check(&["--data", "b:2", "--also-claim-on-data"]);
    assert!(code != Some(0) && why.contains("also-claim-on-data needs lock-keys"), "{why}");
    let (code, why) = check(&["--data", "b:2", "--also-claim-on-data=perhaps"]);
    assert!(code != Some(0) && why.contains("also-claim-on-data must be true or false"), "{why}");
}
