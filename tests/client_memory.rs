//! Clients that take all the memory they can get. Together they stay within `--max-memory-clients`, only the
//! greediest notice, and the process gives their memory back.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::path::Path;

use support::certificates::Authority;
use support::http::http;
use support::{Masters, Proxy, Raw, Reply, encode, eventually, target_is_plain_redis, words};

const MB: u64 = 1 << 20;

/// Returns a field of `/proc/PID/status`, in bytes.
fn status(proxy: &Proxy, field: &str) -> u64 {
    let path = format!("/proc/{}/status", proxy.id());
    let text = std::fs::read_to_string(path).expect("a running process");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kb.expect("a number of kB") << 10
}

fn resident(proxy: &Proxy) -> u64 {
    status(proxy, "VmRSS")
}

/// Returns the peak memory.
fn peak(proxy: &Proxy) -> u64 {
    status(proxy, "VmHWM")
}

/// Returns the memory at rest, once everything that serving a client needs has been used.
async fn at_rest(proxy: &Proxy) -> u64 {
    let mut client = proxy.raw().await;
    for request in ["SET warm up NX PX 60000", "GET warm", "CLIENT LIST", "INFO", "DEL warm"] {
        client.ask(&words(request)).await;
    }
    resident(proxy)
}

/// The promise is "within 20 % of before".
async fn gives_back(proxy: &Proxy, before: u64) {
    let most = before + before / 5;
    let mut last = 0;
    let given_back = async {
        loop {
            last = resident(proxy);
            if last <= most {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let done = tokio::time::timeout(support::PATIENCE, given_back).await;
    assert!(done.is_ok(), "it holds {last} bytes, and held {before}; at most {}", peak(proxy));
}

async fn field(client: &mut Raw, section: &str, name: &str) -> u64 {
    let info = client.ask(&["INFO", section]).await.text();
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {info}")).parse().expect("a number")
}

/// Waits until only the operator is still connected.
async fn is_alone(operator: &mut Raw) {
    loop {
        if field(operator, "clients", "connected_clients").await == 1 {
            return;
        }
    }
}

#[tokio::test]
async fn names_of_clients_fill_the_memory_and_the_list_of_clients() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (mut operator, name) = (proxy.raw().await, "n".repeat(900_000));
    let before = at_rest(&proxy).await;
    let mut clients = Vec::new();
    for _ in 0..500 {
        let mut client = proxy.raw().await;
        for request in [
            &["CLIENT", "SETNAME", &name][..],
            &["CLIENT", "SETINFO", "LIB-NAME", &name],
            &["CLIENT", "SETINFO", "LIB-VER", &name],
            &["HELLO", "2", "SETNAME", &name],
        ] {
            let refused = client.ask(request).await.text();
            assert!(refused.contains("cannot be longer than 1024 bytes"), "{refused}");
        }
        clients.push(client);
    }
    let longest = "n".repeat(1024);
    assert_eq!(clients[0].ask(&["CLIENT", "SETNAME", &longest]).await, Reply::ok());
    let list = operator.ask(&["CLIENT", "LIST"]).await.text();
    assert_eq!(list.lines().count(), 501);
    drop(clients);
    is_alone(&mut operator).await;
    gives_back(&proxy, before).await;
}

/// Masters disconnect the proxy's shared subscriber, since they may not buffer that much for it.
#[tokio::test]
async fn long_names_of_channels_fill_the_memory_and_cut_subscriptions() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (mut other, name) = (proxy.raw().await, "n".repeat(900_000));
    other.ask(&["SUBSCRIBE", "news"]).await;
    let before = at_rest(&proxy).await;
    let mut clients = Vec::new();
    for client in 0..100 {
        let (mut raw, name) = (proxy.raw().await, format!("{client}:{name}"));
        raw.send(&encode(&["SUBSCRIBE", "short", &name])).await;
        clients.push(raw);
    }
    for client in &mut clients {
        let refused = client.reply().await.text();
        assert!(refused.contains("cannot be longer than 1024 bytes"), "{refused}");
        let nobody = vec![Reply::bulk("short"), Reply::Int(0)];
        assert_eq!(client.ask(&["PUBSUB", "NUMSUB", "short"]).await, Reply::Array(nobody));
    }
    assert_eq!(clients[0].ask(&["PUBLISH", "news", "heard"]).await, Reply::Int(1));
    let message = ["message", "news", "heard"].map(Reply::bulk);
    assert_eq!(other.reply().await, Reply::Array(message.to_vec()));
    drop(clients);
    gives_back(&proxy, before).await;
}

/// A client that reads nothing gets no confirmations, but the names count all the same.
#[tokio::test]
async fn names_that_wait_for_confirmation_fill_the_memory() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-memory-clients", "32mb"]);
    proxy.expect_warnings();
    let (mut operator, mut clients) = (proxy.raw().await, Vec::new());
    let before = at_rest(&proxy).await;
    for number in 0..10 {
        let names = (0..30_000).map(|name| format!("{number}:{name}"));
        let words: Vec<String> = std::iter::once("SUBSCRIBE".to_owned()).chain(names).collect();
        let mut deaf = proxy.raw().await;
        deaf.send_regardless(&encode(&words)).await;
        clients.push(deaf);
        // One after the other: requests that the proxy reads in one turn are all in memory before anybody has to go.
        eventually("only two may stay", || async {
            let mut client = proxy.raw().await;
            (field(&mut client, "stats", "evicted_clients").await + 1 >= number).then_some(())
        })
        .await;
    }
    assert!(field(&mut operator, "memory", "mem_clients_normal").await <= 32 * MB);
    assert!(peak(&proxy) < before + 96 * MB, "{} at most", peak(&proxy));
    drop(clients);
    is_alone(&mut operator).await;
    gives_back(&proxy, before).await;
}

/// Each list is made once its client has read those before it.
#[tokio::test]
async fn lists_of_clients_in_a_transaction_fill_the_memory() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-output-bytes", "1gb", "--vote-timeout", "5s"]);
    let (mut operator, name) = (proxy.raw().await, "n".repeat(1024));
    let mut clients = Vec::new();
    for _ in 0..200 {
        let mut client = proxy.raw().await;
        assert_eq!(client.ask(&["CLIENT", "SETNAME", &name]).await, Reply::ok());
        clients.push(client);
    }
    let before = at_rest(&proxy).await;
    let mut greedy = proxy.raw().await;
    let lists = encode(&["CLIENT", "LIST"]).repeat(1000);
    greedy.send(&[encode(&["MULTI"]), lists, encode(&["EXEC"])].concat()).await;
    greedy.replies(1 + 1000).await;
    eventually("the transaction has run", || async {
        let mut client = proxy.raw().await;
        let info = client.ask(&["INFO", "commandstats"]).await.text();
        info.contains("cmdstat_exec:").then_some(())
    })
    .await;
    assert!(peak(&proxy) < before + 64 * MB, "{} at most, and {before} before", peak(&proxy));
    greedy.skip(200 * MB as usize).await;
    assert!(peak(&proxy) < before + 64 * MB, "{} at most, and {before} before", peak(&proxy));
    drop((clients, greedy));
    is_alone(&mut operator).await;
}

/// Each of them alone is within the limit for a transaction.
#[tokio::test]
async fn transactions_that_nobody_runs_fill_the_memory() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags = ["--max-memory-clients", "64mb", "--admin", "127.0.0.1:0"];
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let mut operator = proxy.raw().await;
    let before = at_rest(&proxy).await;
    let value = "v".repeat(900_000);
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = proxy.raw().await;
        client.send_regardless(&encode(&["MULTI"])).await;
        for _ in 0..5 {
            client.send_regardless(&encode(&["SET", "k", &value])).await;
        }
        clients.push(client);
    }
    eventually("some were disconnected", || async {
        let mut client = proxy.raw().await;
        (field(&mut client, "stats", "evicted_clients").await > 50).then_some(())
    })
    .await;
    let held = field(&mut operator, "memory", "mem_clients_normal").await;
    assert!(held <= 64 * MB, "{held}");
    assert!(peak(&proxy) < before + 128 * MB, "{} at most", peak(&proxy));
    let metrics = http(&proxy.admin_address(), "GET", "/metrics", "").body;
    assert!(metrics.contains("redlock_disconnected_clients_total{reason=\"memory\"}"));
    assert!(metrics.contains("redlock_max_clients_memory_bytes 67108864"), "{metrics}");
    let said = proxy.log().iter().filter(|line| line.contains("max-memory-clients)")).count();
    assert!((1..20).contains(&said), "{said} lines");
    drop(clients);
    is_alone(&mut operator).await;
    gives_back(&proxy, before).await;
}

/// Unfinished requests: the clients that have sent least may stay.
#[tokio::test]
async fn the_greediest_client_goes_first() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-memory-clients", "4mb", "--workers", "2"]);
    proxy.expect_warnings();
    let mut operator = proxy.raw().await;
    let mut clients = Vec::new();
    for (name, kb) in [("small", 100), ("greedy", 900), ("middle", 500)] {
        let mut client = proxy.raw().await;
        assert_eq!(client.ask(&["CLIENT", "SETNAME", name]).await, Reply::ok());
        client.send(&begun(kb << 10)).await;
        clients.push(client);
    }
    let takes = |list: &str, name: &str| {
        let line = list.lines().find(|line| line.contains(&format!(" name={name} ")))?;
        line.split(" tot-mem=").nth(1)?.split(' ').next()?.parse::<u64>().ok()
    };
    let expected = [("small", 100 << 10), ("greedy", 900 << 10), ("middle", 500 << 10)];
    eventually("all of it has come", || {
        let address = proxy.address().to_owned();
        async move {
            let list = Raw::connect(&address).await.ask(&["CLIENT", "LIST"]).await.text();
            expected.iter().all(|(name, bytes)| takes(&list, name) >= Some(*bytes)).then_some(())
        }
    })
    .await;
    assert_eq!(operator.ask(&words("CONFIG SET maxmemory-clients 1mb")).await, Reply::ok());
    assert_eq!(clients[1].until_closed().await, b"");
    let list = operator.ask(&["CLIENT", "LIST"]).await.text();
    assert!(takes(&list, "small").is_some() && takes(&list, "middle").is_some(), "{list}");
    assert_eq!(field(&mut operator, "stats", "evicted_clients").await, 1);
}

/// Returns a request that lacks its last byte.
fn begun(bytes: usize) -> Vec<u8> {
    let mut request = encode(&["SET", "k", &"v".repeat(bytes)]);
    request.pop();
    request
}

#[tokio::test]
async fn who_says_no_evict_stays() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-memory-clients", "1mb"]);
    proxy.expect_warnings();
    let (mut spared, mut other) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(spared.ask(&words("CLIENT NO-EVICT ON")).await, Reply::ok());
    spared.send(&encode(&["MULTI"])).await;
    let (value, queued) = ("v".repeat(600 << 10), Reply::Simple("QUEUED".into()));
    assert_eq!(spared.reply().await, Reply::ok());
    for _ in 0..2 {
        assert_eq!(spared.ask(&["SET", "k", &value]).await, queued);
    }
    assert_eq!(other.until_closed().await, b"", "as in Redis, what is spared counts");
    assert_eq!(spared.ask(&["DISCARD"]).await, Reply::ok());
    let mut greedy = proxy.raw().await;
    greedy.send_regardless(&encode(&["MULTI"])).await;
    for _ in 0..3 {
        greedy.send_regardless(&encode(&["SET", "k", &value])).await;
    }
    greedy.until_closed().await;
    assert_eq!(spared.ask(&["PING"]).await, Reply::Simple("PONG".into()));
}

/// Clients never finish these handshakes, which take 32 kB each meanwhile.
#[tokio::test]
async fn half_handshakes_fill_the_memory() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, authority) = (Masters::start(3), Authority::new());
    let pair = authority.sign(&["127.0.0.1"]);
    let path = |path: &Path| path.to_str().expect("a path").to_owned();
    let (cert, key) = (path(&pair.cert), path(&pair.key));
    let tls = ["--tls-listen", "127.0.0.1:0", "--tls-cert-file", &cert, "--tls-key-file", &key];
    let proxy = Proxy::start(&masters, &tls);
    let mut operator = proxy.raw().await;
    authority.connect(&proxy.tls_address(), None).await.expect("a handshake");
    let before = at_rest(&proxy).await;
    // The head of a record and of a ClientHello of 16 kB, with half of its body.
    let mut hello = vec![22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb];
    hello.resize(8 << 10, 0);
    let mut clients = Vec::new();
    for _ in 0..2000 {
        let mut client = Raw::connect(&proxy.tls_address()).await;
        client.send_regardless(&hello).await;
        clients.push(client);
    }
    eventually("no more than may try at a time", || async {
        let mut client = proxy.raw().await;
        let connected = field(&mut client, "clients", "connected_clients").await;
        (connected <= 1024 + 2).then_some(())
    })
    .await;
    for client in &mut clients[..10] {
        client.until_closed().await;
    }
    let mut late = authority.connect(&proxy.tls_address(), None).await.expect("a handshake");
    assert_eq!(late.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    drop((clients, late));
    is_alone(&mut operator).await;
    assert!(peak(&proxy) < before + 48 * MB, "{} at most", peak(&proxy));
    gives_back(&proxy, before).await;
}

/// Three masters have the same string, and a list of strings, of 100 MB.
#[tokio::test]
async fn a_reply_of_100_mb_stays_in_memory() {
    const FILL: &str = "\
        redis.call('set', 'string', string.rep('s', 100 * 1024 * 1024)) \
        local element = string.rep('e', 1024 * 1024) \
        for _ = 1, 100 do redis.call('rpush', 'list', element) end";
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    for master in masters.iter() {
        assert_eq!(master.ask(&["EVAL", FILL, "0"]).await, Reply::Nil);
    }
    let limits = ["--max-output-bytes", "128mb", "--max-memory-clients", "512mb"];
    let proxy = Proxy::start(&masters, &[&["--vote-timeout", "10s"], &limits[..]].concat());
    let mut operator = proxy.raw().await;
    let before = at_rest(&proxy).await;
    for request in ["GET string", "LRANGE list 0 -1"] {
        let mut client = proxy.raw().await;
        client.send(&encode(&words(request))).await;
        let received = client.skip(100 * MB as usize).await;
        assert_eq!(
            received[0],
            if request.starts_with("GET") { b'$' } else { b'*' },
            "{received:?}"
        );
        assert_eq!(field(&mut operator, "stats", "evicted_clients").await, 0);
        drop(client);
        is_alone(&mut operator).await;
        gives_back(&proxy, before).await;
    }
    // One answer per master, and the reply.
    assert!(peak(&proxy) < before + 450 * MB, "{} at most", peak(&proxy));
}
