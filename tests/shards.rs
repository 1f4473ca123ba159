//! Several clusters of masters behind one address (`--shard`): each key has one of them, whatever a client sends, and
//! whatever other proxies are told.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use redlock_proxy::names::slot::{shard_of, slot};
use support::http::http;
use support::subscriber::Subscriber;
use support::{Master, Masters, Proxy, Raw, Relay, Reply, eventually, target_is_plain_redis};

const TEN_MINUTES: &str = "600000";
const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
const NOT_LOCAL: &str = "ERR Script attempted to access a non local key in a cluster node";

/// Shards `a`, `b` and so on, each with its masters.
struct Shards(Vec<Masters>);

impl Shards {
    fn start(count: usize, masters: usize) -> Shards {
        Shards((0..count).map(|_| Masters::start(masters)).collect())
    }

    /// Returns a proxy in front of all shards that can take a lock on each.
    async fn proxy(&self, flags: &[&str]) -> Proxy {
        let proxy = self.unready(flags);
        let mut client = proxy.raw().await;
        for (at, _) in self.0.iter().enumerate() {
            let (key, master) = (key_of(at, self.0.len(), "first"), &self.0[at]);
            let claim = ["SET", &key, "light", "NX", "PX", "60000"];
            eventually("every master of the shard has a claim", || {
                let (client, claim, key) = (proxy.raw(), &claim, &key);
                async move {
                    let mut client = client.await;
                    let is_granted = client.ask(claim).await == Reply::ok();
                    let has_all = is_granted && master.having(key).await == master.len();
                    client.ask(&["DEL", key]).await;
                    has_all.then_some(())
                }
            })
            .await;
            client.ask(&["DEL", &key]).await;
        }
        proxy
    }

    fn unready(&self, flags: &[&str]) -> Proxy {
        proxy_of(&self.0.iter().map(Masters::addresses).collect::<Vec<_>>(), flags)
    }
}

fn proxy_of(shards: &[Vec<String>], flags: &[&str]) -> Proxy {
    let named = |(name, masters): (char, &Vec<String>)| format!("{name}={}", masters.join(","));
    let shards: Vec<String> = ('a'..).zip(shards).map(named).collect();
    let shards = shards.iter().flat_map(|shard| ["--shard", shard]);
    let flags: Vec<&str> = shards.chain(flags.iter().copied()).collect();
    let proxy = Proxy::unready(&[], &flags);
    proxy.expect_warnings();
    proxy
}

/// Returns a key of this shard.
fn key_of(at: usize, shards: usize, prefix: &str) -> String {
    let mut keys = (0..).map(|n| format!("{prefix} {n}"));
    keys.find(|key| shard_of(slot(key.as_bytes()), shards) == at).expect("a key of every shard")
}

fn claim<'a>(key: &'a str, token: &'a str) -> [&'a str; 6] {
    ["SET", key, token, "NX", "PX", TEN_MINUTES]
}

async fn serves_both(proxy: &Proxy) {
    for key in [key_of(0, 2, "lock"), key_of(1, 2, "lock")] {
        eventually("every shard serves", || async {
            (proxy.raw().await.ask(&claim(&key, "mine")).await == Reply::ok()).then_some(())
        })
        .await;
    }
}

fn texts(reply: &Reply) -> BTreeSet<String> {
    let Reply::Array(items) = reply else { panic!("not a list: {reply:?}") };
    items.iter().map(Reply::text).collect()
}

#[tokio::test]
async fn every_key_is_on_the_masters_of_its_shard_only() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(3, 3);
    let proxy = shards.proxy(&[]).await;
    let mut client = proxy.raw().await;
    for n in 0..30 {
        let key = format!("lock {n}");
        assert_eq!(client.ask(&claim(&key, "mine")).await, Reply::ok());
        assert_eq!(client.ask(&claim(&key, "yours")).await, Reply::Nil);
        let home = shard_of(slot(key.as_bytes()), 3);
        for (at, masters) in shards.0.iter().enumerate() {
            let expected = if at == home { 2..=3 } else { 0..=0 };
            assert!(expected.contains(&masters.having(&key).await), "{key} on shard {at}");
        }
        if n % 2 == 0 {
            let release = ["EVAL", RELEASE, "1", &key, "mine"];
            assert_eq!(client.ask(&release).await, Reply::Int(1));
        }
    }
}

const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

#[tokio::test]
async fn what_lists_or_counts_keys_has_those_of_all_shards() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(3, 1);
    let proxy = shards.proxy(&["--allow-flush"]).await;
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&["RANDOMKEY"]).await, Reply::Nil);
    let names: BTreeSet<String> = (0..400).map(|n| format!("lock {n}")).collect();
    for name in &names {
        assert_eq!(client.ask(&claim(name, "mine")).await, Reply::ok());
    }
    assert_eq!(client.ask(&["DBSIZE"]).await, Reply::Int(400));
    assert_eq!(texts(&client.ask(&["KEYS", "*"]).await), names);
    assert!(names.contains(&client.ask(&["RANDOMKEY"]).await.text()));

    let (mut found, mut cursor, mut pages) = (BTreeSet::new(), "0".to_owned(), 0);
    loop {
        let Reply::Array(page) = client.ask(&["SCAN", &cursor, "COUNT", "30"]).await else {
            panic!("SCAN has a cursor and keys")
        };
        cursor = page[0].text();
        found.extend(texts(&page[1]));
        pages += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, names);
    assert!(pages >= 6, "{pages} pages");

    assert_eq!(client.ask(&["FLUSHALL"]).await, Reply::ok());
    assert_eq!(client.ask(&["DBSIZE"]).await, Reply::Int(0));
}

#[tokio::test]
async fn keys_of_several_slots_are_refused_and_hash_tags_keep_them_together() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 1);
    let proxy = shards.proxy(&[]).await;
    let mut client = proxy.raw().await;
    let (a, b) = (key_of(0, 2, "key"), key_of(1, 2, "key"));
    for request in [
        &["MGET", &a, &b][..],
        &["MSET", &a, "1", &b, "2"],
        &["DEL", &a, &b],
        &["RENAME", &a, &b],
        &["SORT", &a, "STORE", &b],
        &["EVAL", "return 1", "2", &a, &b],
        &["WATCH", &a, &b],
        &["BLPOP", &a, &b, "1"],
        &["SINTERSTORE", &a, &b, &b],
        &["GEORADIUS", &a, "1", "1", "1", "m", "STORE", &b],
    ] {
        assert_eq!(client.ask(request).await, Reply::Error(CROSS_SLOT.into()), "{request:?}");
    }
    let beside = (0..).map(|n| format!("beside {n}"));
    let mut beside = beside.filter(|key| shard_of(slot(key.as_bytes()), 2) == 0);
    let beside = beside.next().expect("a key of the first shard");
    let both = client.ask(&["MGET", &a, &beside]).await;
    assert_eq!(both, Reply::Error(CROSS_SLOT.into()), "of one shard, but not of one slot");
    for tag in [&a, &b] {
        let [one, two] = ["1", "2"].map(|n| format!("{{{tag}}}{n}"));
        assert_eq!(client.ask(&["MSET", &one, "x", &two, "y"]).await, Reply::ok());
        assert_eq!(client.ask(&["RENAME", &one, &two]).await, Reply::ok());
        assert_eq!(client.ask(&["GET", &two]).await, Reply::bulk("x"));
    }
}

#[tokio::test]
async fn a_script_reaches_no_key_of_another_shard() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 3);
    let proxy = shards.proxy(&[]).await;
    let mut client = proxy.raw().await;
    let keys = [key_of(0, 2, "key"), key_of(1, 2, "key")];
    for (own, other) in [(&keys[0], &keys[1]), (&keys[1], &keys[0])] {
        assert_eq!(client.ask(&claim(other, "mine")).await, Reply::ok());
        for script in [
            "redis.call('set', KEYS[1], 'x') return redis.call('set', ARGV[1], 'x')",
            "return redis.call('del', ARGV[1])",
            "return redis.call('get', ARGV[1])",
            "return redis.pcall('exists', ARGV[1])",
        ] {
            let reply = client.ask(&["EVAL", script, "1", own, other]).await;
            assert!(reply.is_error(NOT_LOCAL), "{script}: {reply:?}");
        }
        assert_eq!(client.ask(&["EXISTS", own]).await, Reply::Int(0), "nothing of it is done");
        assert_eq!(client.ask(&["GET", other]).await, Reply::bulk("mine"));
        for command in ["keys', '*", "dbsize", "randomkey", "scan', '0"] {
            let script = format!("return redis.call('{command}')");
            let reply = client.ask(&["EVAL", &script, "1", own]).await;
            assert!(reply.text().contains("sees one shard only"), "{command}: {reply:?}");
        }
        assert_eq!(client.ask(&["DEL", other]).await, Reply::Int(1));
    }
}

#[tokio::test]
async fn a_transaction_is_of_one_slot_with_what_it_watches() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 1);
    let proxy = shards.proxy(&["--allow-flush"]).await;
    let (mut client, mut other) = (proxy.raw().await, proxy.raw().await);
    let (a, b) = (key_of(0, 2, "key"), key_of(1, 2, "key"));
    for key in [&a, &b] {
        client.ask(&["WATCH", key]).await;
        client.ask(&["MULTI"]).await;
        client.ask(&["SET", key, "1"]).await;
        client.ask(&["PING"]).await;
        let done = Reply::Array(vec![Reply::ok(), Reply::Simple("PONG".into())]);
        assert_eq!(client.ask(&["EXEC"]).await, done);

        client.ask(&["WATCH", key]).await;
        other.ask(&["SET", key, "2"]).await;
        client.ask(&["MULTI"]).await;
        client.ask(&["PING"]).await;
        assert_eq!(client.ask(&["EXEC"]).await, Reply::Nil, "a watched key has changed");
    }
    client.ask(&["WATCH", &a]).await;
    client.ask(&["MULTI"]).await;
    assert_eq!(client.ask(&["GET", &b]).await, Reply::Error(CROSS_SLOT.into()));
    assert!(client.ask(&["EXEC"]).await.is_error("EXECABORT"));
    for request in [&["KEYS", "*"][..], &["DBSIZE"], &["SCAN", "0"], &["FLUSHALL"]] {
        client.ask(&["MULTI"]).await;
        assert!(client.ask(request).await.text().contains("sees one shard only"), "{request:?}");
        assert!(client.ask(&["EXEC"]).await.is_error("EXECABORT"));
    }
    assert_eq!(client.ask(&["GET", &b]).await, Reply::bulk("2"), "the client is free again");
}

#[tokio::test]
async fn subscribers_hear_what_scripts_of_any_shard_publish() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 3);
    let proxy = shards.proxy(&[]).await;
    let mut listener = Subscriber::new(proxy.address(), "2", &["SUBSCRIBE", "news"]).await;
    let mut client = proxy.raw().await;
    for at in 0..2 {
        let key = key_of(at, 2, "key");
        let script = "redis.call('set', KEYS[1], 'x') redis.call('publish', 'news', ARGV[1])";
        client.ask(&["EVAL", script, "1", &key, &key]).await;
        assert_eq!(listener.text().await, key);
    }
    client.ask(&["PUBLISH", "news", "the end"]).await;
    assert_eq!(listener.text().await, "the end");
}

#[tokio::test]
async fn one_library_of_functions_serves_the_keys_of_all_shards() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 3);
    let proxy = shards.proxy(&[]).await;
    let mut client = proxy.raw().await;
    let load = |body: &str| {
        format!("#!lua name=lib\nredis.register_function('f', function(keys) {body} end)")
    };
    let broken = client.ask(&["FUNCTION", "LOAD", &load("return x y")]).await;
    assert!(broken.is_error("ERR"), "{broken:?}");
    let text = load("return redis.call('incr', keys[1])");
    assert_eq!(client.ask(&["FUNCTION", "LOAD", &text]).await, Reply::bulk("lib"));
    for at in 0..2 {
        let key = key_of(at, 2, "key");
        assert_eq!(client.ask(&["FCALL", "f", "1", &key]).await, Reply::Int(1));
        assert_eq!(client.ask(&["GET", &key]).await, Reply::bulk("1"));
    }
    assert_eq!(client.ask(&["FUNCTION", "DELETE", "lib"]).await, Reply::ok());
    for at in 0..2 {
        let reply = client.ask(&["FCALL", "f", "1", &key_of(at, 2, "key")]).await;
        assert!(reply.is_error("ERR Function not found"), "{reply:?}");
    }
}

#[tokio::test]
async fn a_client_waits_for_an_element_on_any_shard() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 3);
    let proxy = shards.proxy(&["--workers", "2"]).await;
    for at in 0..2 {
        let (mut waiter, mut client) = (proxy.raw().await, proxy.raw().await);
        let key = key_of(at, 2, "queue");
        waiter.send(&support::raw::encode(&["BLPOP", &key, "0"])).await;
        assert_eq!(client.ask(&["RPUSH", &key, "job"]).await, Reply::Int(1));
        assert_eq!(waiter.reply().await, Reply::Array(vec![Reply::bulk(&key), Reply::bulk("job")]));
    }
}

#[tokio::test]
async fn a_shard_without_a_quorum_stops_its_own_keys_only() {
    if target_is_plain_redis() {
        return;
    }
    let mut shards = Shards::start(2, 3);
    let proxy = shards.proxy(&["--patience", "300ms", "--admin", "127.0.0.1:0"]).await;
    let (a, b) = (key_of(0, 2, "lock"), key_of(1, 2, "lock"));
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&claim(&b, "mine")).await, Reply::ok());
    for master in shards.0[1].minority().len()..3 {
        shards.0[1][master].kill_9();
    }
    eventually("the proxy knows", || {
        let address = proxy.admin_address();
        async move {
            let ready = http(&address, "GET", "/ready", "");
            let is_partly = ready.body.contains("shard a: 3 of 3 masters vote\nshard b: 1 of 3");
            assert_eq!(ready.status, 200, "{}", ready.body);
            is_partly.then_some(())
        }
    })
    .await;
    let refused = client.ask(&claim(&b, "yours")).await;
    assert!(refused.is_error("CLUSTERDOWN 1 of 3 masters of shard b can vote"), "{refused:?}");
    assert_eq!(client.ask(&claim(&a, "mine")).await, Reply::ok());
    assert!(client.ask(&["DBSIZE"]).await.is_error("CLUSTERDOWN"), "some keys are not known");

    // Another proxy must see a quorum of every shard once: which clusters belong together is written on the masters.
    let late = shards.unready(&["--patience", "300ms"]);
    late.tells(&["a proxy that starts must see all shards once, and shard b is missing"]).await;
    let mut second = late.raw().await;
    assert!(!matches!(second.ask(&claim("other", "mine")).await, Reply::Simple(_)));
}

#[tokio::test]
async fn masters_of_a_cluster_are_no_shard_and_the_other_way_round() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 1);
    drop(shards.proxy(&[]).await);
    let single = Proxy::unready(&shards.0[0].addresses(), &[]);
    single.expect_warnings();
    single.tells(&["these masters are shard a of a, b"]).await;
    let mut client = single.raw().await;
    assert!(!matches!(client.ask(&claim("lock", "mine")).await, Reply::Simple(_)));

    let swapped = proxy_of(&[shards.0[1].addresses(), shards.0[0].addresses()], &[]);
    swapped.tells(&["the masters of shard", "are shard", "of a, b"]).await;
    let fewer = proxy_of(&[shards.0[0].addresses()], &[]);
    fewer.tells(&["the masters of shard a are shard a of a, b, but the settings have a"]).await;

    let masters = Masters::start(3);
    drop(Proxy::start(&masters, &[]));
    let late = proxy_of(&[masters.addresses(), shards.0[1].addresses()], &[]);
    late.tells(&["the masters of shard a already serve all keys"]).await;
    // Those that have the right shards are not disturbed.
    shards.proxy(&[]).await;
}

/// Two proxies are started at the same time, with shards that are not the same. One of them is paused somewhere in its
/// founding.
#[tokio::test]
async fn proxies_with_other_shards_grant_no_key_twice() {
    if target_is_plain_redis() {
        return;
    }
    let mut served = 0;
    for round in 0..8 {
        let masters: Vec<Master> = (0..3).map(|_| Master::start()).collect();
        let [m1, m2, m3] = [0, 1, 2].map(|at| vec![masters[at].address()]);
        let other = match round % 2 {
            0 => [m2.clone(), m1.clone()],
            _ => [m1.clone(), m3],
        };
        let first = proxy_of(&[m1, m2], &["--patience", "200ms"]);
        let pause = Duration::from_millis([0, 20, 40, 60][round / 2]);
        tokio::time::sleep(pause).await;
        first.stop();
        let second = proxy_of(&other, &["--patience", "200ms"]);
        tokio::time::sleep(Duration::from_millis(500)).await;
        first.cont();
        served += granted_by(&first, &second).await;
    }
    assert!(served > 0, "in some rounds one of them is first everywhere");
}

/// The list of the first proxy's clusters reaches one master of three, which goes away. The second proxy's list is then
/// taken by the others.
#[tokio::test]
async fn a_list_on_a_minority_of_masters_lets_nobody_serve() {
    if target_is_plain_redis() {
        return;
    }
    let (a, b, c) = (Masters::start(3), Masters::start(1), Masters::start(1));
    let relays = [Relay::to(&a[1]), Relay::to(&a[2])];
    relays.iter().for_each(|relay| relay.swallow("\"clusters\":[\""));
    let partly = [a[0].address(), relays[0].address(), relays[1].address()];
    let first = proxy_of(&[partly.to_vec(), b.addresses()], &["--patience", "200ms"]);
    eventually("the list is swallowed", || async {
        relays.iter().all(|relay| relay.caught() > 0).then_some(())
    })
    .await;
    relays.iter().for_each(Relay::black_hole);
    // The first master has the list, and the proxy sees no other.
    let mut one = first.raw().await;
    let limit = Instant::now() + Duration::from_secs(10);
    while Instant::now() < limit {
        assert_ne!(ask(&mut one, &key_of(1, 2, "early")).await, Reply::ok());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    a[0].stop();
    let second = proxy_of(&[a.addresses(), c.addresses()], &["--patience", "200ms"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    a[0].cont();
    relays.iter().for_each(Relay::heal);
    granted_by(&first, &second).await;
}

/// While a proxy is paused, all masters of a shard forget everything, and another proxy founds a cluster on them that
/// serves together with others.
#[tokio::test]
async fn a_paused_proxy_does_not_go_on_with_a_cluster_that_was_founded_anew() {
    if target_is_plain_redis() {
        return;
    }
    for was_single in [false, true] {
        let flags = ["--restart-wait", "1s"];
        let (mut shards, c) = (Shards::start(2, 3), Masters::start(3));
        let old = match was_single {
            true => Proxy::start(&shards.0[0], &flags),
            false => shards.proxy(&flags).await,
        };
        let keys = [key_of(0, 2, "lock"), key_of(1, 2, "lock")];
        let a = &mut shards.0[0];
        old.expect_warnings();
        old.stop();
        for at in 0..3 {
            a[at].kill_9();
            a[at].restart_empty();
        }
        let new = proxy_of(&[a.addresses(), c.addresses()], &flags);
        eventually("the new proxy serves", || async {
            (new.raw().await.ask(&claim(&keys[1], "new")).await == Reply::ok()).then_some(())
        })
        .await;
        old.cont();
        assert_eq!(old.ended().code(), Some(69), "it no longer knows where its keys are");
        assert_eq!(new.raw().await.ask(&claim(&keys[0], "new")).await, Reply::ok());
    }
}

/// The name of a master of one shard comes to mean a master of the other.
#[tokio::test]
async fn a_master_of_another_shard_is_sent_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let (a, b) = (Masters::start(3), Masters::start(3));
    let relay = Relay::to(&b[2]);
    let second = vec![b[0].address(), b[1].address(), relay.address()];
    let proxy = proxy_of(&[a.addresses(), second], &[]);
    let mut client = proxy.raw().await;
    let key = key_of(1, 2, "before");
    eventually("the proxy serves", || async {
        (proxy.raw().await.ask(&claim(&key, "mine")).await == Reply::ok()).then_some(())
    })
    .await;
    relay.lead_to(&a[0].address());
    relay.reset();
    eventually("the proxy knows", || async {
        let info = proxy.raw().await.ask(&["INFO", "redlock"]).await.text();
        info.lines()
            .any(|line| line.starts_with("b_master2:") && line.contains("link=up"))
            .then_some(())
    })
    .await;
    for n in 0..20 {
        let key = key_of(1, 2, &format!("after {n}"));
        assert_eq!(client.ask(&claim(&key, "mine")).await, Reply::ok());
        assert_eq!(client.ask(&["INCR", &format!("{{{key}}}")]).await, Reply::Int(1));
        assert!(!a[0].has(&key).await && !a[0].has(&format!("{{{key}}}")).await);
    }
}

#[tokio::test]
async fn sort_looks_up_no_keys_of_other_shards() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 1);
    let proxy = shards.proxy(&[]).await;
    let mut client = proxy.raw().await;
    client.ask(&["RPUSH", "list", "2", "1"]).await;
    let sorted = Reply::Array(vec![Reply::bulk("1"), Reply::bulk("2")]);
    assert_eq!(client.ask(&["SORT", "list"]).await, sorted);
    assert_eq!(client.ask(&["SORT", "list", "LIMIT", "0", "9", "ASC"]).await, sorted);
    let unsorted = client.ask(&["SORT", "list", "BY", "nosort"]).await;
    assert_eq!(unsorted, Reply::Array(vec![Reply::bulk("2"), Reply::bulk("1")]));
    for (words, option) in [
        (&["BY", "weight_*"][..], "BY"),
        (&["GET", "data_*"], "GET"),
        (&["LIMIT", "0", "9", "GET", "#"], "GET"),
        (&["STORE", "{list}2", "BY", "weight_*"], "BY"),
    ] {
        let denied = Reply::Error(format!("ERR {option} option of SORT denied in cluster mode."));
        let request = [&["SORT", "list"][..], words].concat();
        assert_eq!(client.ask(&request).await, denied, "{words:?}");
        client.ask(&["MULTI"]).await;
        client.ask(&request).await;
        assert_eq!(client.ask(&["EXEC"]).await, Reply::Array(vec![denied]), "{words:?}");
    }
}

/// A new process with a mistake in its list of shards could serve nothing.
#[tokio::test]
async fn an_upgrade_to_wrong_shards_leaves_the_old_process_serving() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 1);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("handover").display().to_string();
    let old = shards.proxy(&["--handover", &path]).await;
    let mut client = old.raw().await;
    let swapped = [shards.0[1].addresses(), shards.0[0].addresses()];
    let flags = [format!("--shard=a={}", swapped[0][0]), format!("--shard=b={}", swapped[1][0])];
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"));
    let listen = ["--listen", old.address(), "--handover", &path];
    let output = command.args(&flags).args(listen).output().expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("this process could not serve, so the one at"), "{told}");
    assert_eq!(output.status.code(), Some(69), "{told}");
    assert_eq!(client.ask(&claim("lock", "mine")).await, Reply::ok());
}

/// Claims keys at both proxies until both have had time to serve, and returns how many keys were granted. No key may be
/// granted by both.
async fn granted_by(first: &Proxy, second: &Proxy) -> usize {
    let (mut one, mut two) = (first.raw().await, second.raw().await);
    let mut granted = [BTreeSet::new(), BTreeSet::new()];
    let limit = Instant::now() + Duration::from_secs(3);
    while Instant::now() < limit {
        for n in 0..20 {
            let key = format!("lock {n}");
            for (client, granted) in [&mut one, &mut two].into_iter().zip(&mut granted) {
                if ask(client, &key).await == Reply::ok() {
                    granted.insert(key.clone());
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let twice: Vec<_> = granted[0].intersection(&granted[1]).collect();
    assert!(twice.is_empty(), "granted by both: {twice:?}");
    granted[0].len() + granted[1].len()
}

async fn ask(client: &mut Raw, key: &str) -> Reply {
    client.ask(&claim(key, "mine")).await
}

#[tokio::test]
async fn proxies_with_the_same_shards_share_their_locks() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 3);
    let (one, two) = (shards.unready(&[]), shards.proxy(&["--workers", "2"]).await);
    let mut clients = [one.raw().await, two.raw().await];
    eventually("the first proxy serves too", || async {
        (one.raw().await.ask(&["DBSIZE"]).await == Reply::Int(0)).then_some(())
    })
    .await;
    for n in 0..20 {
        let (key, first) = (format!("lock {n}"), n % 2);
        assert_eq!(clients[first].ask(&claim(&key, "mine")).await, Reply::ok());
        assert_eq!(clients[1 - first].ask(&claim(&key, "yours")).await, Reply::Nil);
        let release = ["EVAL", RELEASE, "1", &key, "mine"];
        assert_eq!(clients[1 - first].ask(&release).await, Reply::Int(1));
    }
}

#[tokio::test]
async fn operators_see_each_shard() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 3);
    let proxy = shards.proxy(&["--admin", "127.0.0.1:0"]).await;
    let address = proxy.admin_address();
    let page = |path: &str| http(&address, "GET", path, "").body;
    assert_eq!(page("/ready"), "shard a: 3 of 3 masters vote\nshard b: 3 of 3 masters vote\n");
    let metrics = page("/metrics");
    let info = proxy.raw().await.ask(&["INFO", "redlock"]).await.text();
    let status: serde_json::Value = serde_json::from_str(&page("/status.json")).expect("JSON");
    for (name, masters) in ["a", "b"].iter().zip(&shards.0) {
        assert!(metrics.contains(&format!("redlock_voters{{shard=\"{name}\"}} 3")), "{metrics}");
        assert!(info.contains(&format!("\n{name}_voters:3\r\n")), "{info}");
        let address = masters[0].address();
        assert!(info.contains(&format!("\n{name}_master0:address={address},")), "{info}");
        assert!(metrics.contains(&format!("redlock_master_up{{master=\"{address}\"}} 1")));
        let all = status["masters"].as_array().expect("a list");
        assert!(all.iter().any(|it| it["shard"] == **name && it["address"] == *address));
    }
}

#[tokio::test]
async fn settle_and_check_know_the_shard_of_a_key() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 3);
    let proxy = shards.proxy(&[]).await;
    let mut client = proxy.raw().await;
    let flags: Vec<String> = ('a'..)
        .zip(&shards.0)
        .map(|(name, masters)| format!("--shard={name}={}", masters.addresses().join(",")))
        .collect();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"));
        let output = command.args(&flags).args(words).output().expect("the binary starts");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    for at in 0..2 {
        let key = key_of(at, 2, "lock");
        assert_eq!(client.ask(&claim(&key, "mine")).await, Reply::ok());
        let text = run(&["settle", &key]);
        assert!(text.contains("mine") && text.contains(&shards.0[at].addresses()[0]), "{text}");
    }
    let text = run(&["check"]);
    assert!(text.starts_with("shard a\n") && text.contains("\nshard b\n"), "{text}");
    assert!(!text.contains("could not serve"), "{text}");
}

/// All masters of a shard forget everything while a proxy serves them, and another one starts before it has seen the
/// other shard, which knows better.
#[tokio::test]
async fn a_proxy_that_starts_leaves_a_shard_that_has_forgotten_to_those_that_serve() {
    if target_is_plain_redis() {
        return;
    }
    let flags = ["--restart-wait", "2s", "--patience", "200ms"];
    let mut shards = Shards::start(2, 3);
    let serving = shards.proxy(&flags).await;
    let (a, b) = (key_of(0, 2, "lock"), key_of(1, 2, "lock"));
    let mut client = serving.raw().await;
    assert_eq!(client.ask(&claim(&a, "mine")).await, Reply::ok());
    let relays: Vec<Relay> = (0..3).map(|at| Relay::to(&shards.0[0][at])).collect();
    relays.iter().for_each(Relay::black_hole);
    for at in 0..3 {
        shards.0[1][at].kill_9();
        shards.0[1][at].restart_empty();
    }
    let through_relays = relays.iter().map(Relay::address).collect();
    let late = proxy_of(&[through_relays, shards.0[1].addresses()], &flags);
    late.tells(&["a proxy that starts must see all shards once, and shard a is missing"]).await;
    relays.iter().for_each(Relay::heal);
    let mut other = late.raw().await;
    eventually("the shard is back for both proxies", || async {
        (late.raw().await.ask(&claim(&b, "theirs")).await == Reply::ok()).then_some(())
    })
    .await;
    assert_eq!(client.ask(&claim(&b, "mine")).await, Reply::Nil);
    assert_eq!(other.ask(&claim(&a, "theirs")).await, Reply::Nil, "it was held all the time");
}

/// Its masters remember, but were restarted before the roster had the list of all shards.
#[tokio::test]
async fn a_shard_whose_masters_were_restarted_before_the_other_was_founded_serves() {
    if target_is_plain_redis() {
        return;
    }
    let mut a = Masters::start_with(3, &["--appendonly", "yes", "--appendfsync", "always"]);
    let b = Masters::start(1);
    let relay = Relay::to(&b[0]);
    relay.swallow("\"name\":\"b\"");
    let flags = ["--restart-wait", "1s", "--patience", "200ms"];
    let first = proxy_of(&[a.addresses(), vec![relay.address()]], &flags);
    first.tells(&["and shard b is missing"]).await;
    first.kill_9();
    for at in 0..3 {
        assert!(a[at].has("redlock-proxy:roster").await, "shard a is founded");
        a[at].kill_9();
        a[at].restart_empty();
    }
    let second = proxy_of(&[a.addresses(), b.addresses()], &flags);
    serves_both(&second).await;
}

#[tokio::test]
async fn a_wrong_list_of_shards_leaves_no_trace_on_masters_that_are_new() {
    if target_is_plain_redis() {
        return;
    }
    let shards = Shards::start(2, 3);
    let twice: Vec<String> =
        shards.0[0].addresses().iter().map(|it| it.replace("127.0.0.1", "localhost")).collect();
    let wrong = proxy_of(&[shards.0[0].addresses(), twice], &[]);
    wrong.tells(&["of shard", "is the same instance as", "name each master once"]).await;
    drop(wrong);
    let serving = shards.proxy(&[]).await;
    let (lists, fresh) = (|at: usize| shards.0[at].addresses(), Masters::start(3));
    let more = proxy_of(&[lists(0), lists(1), fresh.addresses()], &[]);
    more.tells(&["are shard a of a, b, but the settings have a, b, c"]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    for at in 0..3 {
        assert_eq!(fresh[at].ask(&["DBSIZE"]).await, Reply::Int(0));
    }
    let key = key_of(0, 2, "lock");
    assert_eq!(serving.raw().await.ask(&claim(&key, "mine")).await, Reply::ok());
}

/// Foundings with another list were cut short, on the masters of both shards.
#[tokio::test]
async fn what_was_never_founded_on_two_shards_keeps_neither_from_being_founded() {
    if target_is_plain_redis() {
        return;
    }
    let on_disk = &["--appendonly", "yes", "--appendfsync", "always"];
    let mut shards = [Masters::start_with(1, on_disk), Masters::start_with(1, on_disk)];
    let (relays, c) = ([0, 1].map(|at| Relay::to(&shards[at][0])), Masters::start(1));
    relays.iter().for_each(|relay| relay.swallow("\"stage\":\"Founded\""));
    let [a, b] = [0, 1].map(|at| vec![relays[at].address()]);
    let flags = ["--restart-wait", "1s", "--patience", "200ms"];
    let wrong = proxy_of(&[a, b, c.addresses()], &flags);
    eventually("both foundings are cut short", || async {
        relays.iter().all(|relay| relay.caught() > 0).then_some(())
    })
    .await;
    wrong.kill_9();
    for masters in &mut shards {
        assert!(masters[0].has("redlock-proxy:roster").await);
        masters[0].kill_9();
        masters[0].restart_empty();
    }
    let right = proxy_of(&[0, 1].map(|at| shards[at].addresses()), &flags);
    serves_both(&right).await;
}
