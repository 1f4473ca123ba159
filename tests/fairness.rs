//! One client floods a worker, and the others must hardly notice: turns are short, long work comes in slices, and a
//! busy proxy does not take its masters for silent.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use support::{Masters, Proxy, Raw, Reply, encode, eventually, target_is_plain_redis, words};

/// A client that repeats the same request as fast as it is answered, until this is dropped.
struct Flood {
    ends: Arc<AtomicBool>,
    socket: TcpStream,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    fn of(address: &str, request: &[u8]) -> Flood {
        let socket = TcpStream::connect(address).expect("it listens");
        let ends = Arc::new(AtomicBool::new(false));
        let (mut writer, mut reader) = (cloned(&socket), cloned(&socket));
        let (requests, over) = (request.repeat(1 + 16_384 / request.len()), Arc::clone(&ends));
        let write = move || {
            while !over.load(Ordering::Relaxed) && writer.write_all(&requests).is_ok() {}
        };
        let read = move || {
            let mut buffer = vec![0; 1 << 20];
            while reader.read(&mut buffer).is_ok_and(|read| read > 0) {}
        };
        let threads = vec![std::thread::spawn(write), std::thread::spawn(read)];
        Flood { ends, socket, threads }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.threads.drain(..).for_each(|thread| thread.join().expect("no panic"));
    }
}

fn cloned(socket: &TcpStream) -> TcpStream {
    socket.try_clone().expect("a file descriptor")
}

/// Returns the number of requests that the proxy has read.
async fn requests(client: &mut Raw) -> u64 {
    field(client, "stats", "total_commands_processed").await
}

async fn field(client: &mut Raw, section: &str, name: &str) -> u64 {
    let info = client.ask(&["INFO", section]).await.text();
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|count| count.trim().parse().ok()).expect("INFO counts it")
}

/// A worker used to answer thousands of `INFO`s before it returned to its sockets.
#[tokio::test]
async fn a_flood_of_info_keeps_the_worker_from_its_sockets() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "1"]);
    let mut bystander = proxy.raw().await;
    let _flood = Flood::of(proxy.address(), b"INFO\r\n");
    let (mut between, mut before) = (Vec::new(), requests(&mut bystander).await);
    for _ in 0..51 {
        let now = requests(&mut bystander).await;
        between.push(now - before);
        before = now;
    }
    between.sort_unstable();
    let median = between[between.len() / 2];
    assert!(median < 1000, "{median} requests of the flood between two of a bystander");
}

/// The second of two requests that come in slices waits for the first.
#[tokio::test]
async fn a_pipeline_of_long_replies_gets_stuck() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "5s"]);
    let mut client = proxy.raw().await;
    let channels = |command: &str| {
        let names = (0..1000).map(|name| format!("channel:{name}"));
        encode(&std::iter::once(command.to_owned()).chain(names).collect::<Vec<_>>())
    };
    for _ in 0..3 {
        let (subscribe, unsubscribe) = (channels("SUBSCRIBE"), channels("UNSUBSCRIBE"));
        client.send(&[subscribe, unsubscribe, b"PING\r\n".to_vec()].concat()).await;
        for (word, counts) in [("subscribe", 1..=1000), ("unsubscribe", 0..=999)] {
            let replies = client.replies(1000).await;
            let mut counted: Vec<i64> =
                replies.iter().map(|reply| confirmed(reply, word)).collect();
            counted.sort_unstable();
            assert_eq!(counted, counts.collect::<Vec<_>>());
        }
        assert_eq!(client.reply().await, Reply::Simple("PONG".into()));
    }
}

/// A worker used to end 60,000 subscriptions in one go, and did nothing else meanwhile.
#[tokio::test]
async fn a_reset_of_many_subscriptions_holds_everybody_up() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "1", "--vote-timeout", "5s"]);
    let (mut client, mut bystander) = (proxy.raw().await, proxy.raw().await);
    let names = (0..60_000).map(|name| format!("n{name}"));
    let words = std::iter::once("SUBSCRIBE".to_owned()).chain(names).collect::<Vec<_>>();
    client.send(&encode(&words)).await;
    client.replies(60_000).await;
    client.send(b"RESET\r\n").await;
    let mut pings = 0;
    while field(&mut bystander, "clients", "pubsub_clients").await > 0 {
        pings += 1;
    }
    assert!(pings > 5, "a bystander was answered {pings} times meanwhile");
    assert_eq!(client.reply().await, Reply::Simple("RESET".into()));
    assert_eq!(client.ask(&["SUBSCRIBE", "n1"]).await, confirmation("n1", 1));
    assert_eq!(bystander.ask(&["PUBLISH", "n2", "x"]).await, Reply::Int(0));
    let counts = bystander.ask(&["INFO", "commandstats"]).await.text();
    assert!(counts.contains("cmdstat_reset:calls=1,"), "{counts}");
}

fn confirmation(name: &str, count: i64) -> Reply {
    Reply::Array(vec![Reply::bulk("subscribe"), Reply::bulk(name), Reply::Int(count)])
}

/// Returns the number in a confirmation.
fn confirmed(reply: &Reply, word: &str) -> i64 {
    match reply {
        Reply::Array(items) => match items.as_slice() {
            [Reply::Bulk(first), Reply::Bulk(_), Reply::Int(count)] => {
                assert_eq!(first, word.as_bytes());
                *count
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The vote timeout is long, for machines that are busy themselves: the failures took seconds, or broke links.
#[tokio::test]
async fn claims_fail_beside_a_flood() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "1", "--vote-timeout", "1s"]);
    let mut bystander = proxy.raw().await;
    let named = |count: usize, command: &str| {
        let names = (0..count).map(|name| format!("n{name}"));
        encode(&std::iter::once(command.to_owned()).chain(names).collect::<Vec<_>>())
    };
    let executed = |command: &str, last: &str| {
        let once = |line: &str| encode(&words(line));
        [once("MULTI"), once(command).repeat(10_000), once(last), once("EXEC")].concat()
    };
    let numsub = |count: usize| {
        let names = (0..count).map(|name| format!("n{name}"));
        let words = ["PUBSUB", "NUMSUB"].map(str::to_owned).into_iter().chain(names);
        encode(&words.collect::<Vec<_>>())
    };
    let floods = [
        b"INFO\r\n".to_vec(),
        executed("INFO", "PING"),
        executed("CLIENT LIST", "PING"),
        executed("INFO", "CLIENT SETNAME last"),
        b"COMMAND DOCS\r\n".to_vec(),
        b"ACL LIST\r\n".to_vec(),
        b"CLIENT LIST\r\n".to_vec(),
        b"PING\r\n".to_vec(),
        named(20_000, "SUBSCRIBE"),
        named(20_000, "PSUBSCRIBE"),
        named(20_000, "EXISTS"),
        numsub(70_000),
    ];
    for (at, flood) in floods.iter().enumerate() {
        let flooded = Flood::of(proxy.address(), flood);
        for claim in 0..20 {
            let key = format!("lock:{at}:{claim}");
            let reply = bystander.ask(&["SET", &key, "token", "NX", "PX", "60000"]).await;
            let head = String::from_utf8_lossy(&flood[..flood.len().min(30)]).into_owned();
            assert_eq!(reply, Reply::ok(), "beside {head:?}");
        }
        drop(flooded);
    }
    for master in 0..3 {
        assert_eq!(proxy.says_of(master, "link").await, "up");
    }
    let is_silent = |line: &String| line.contains("it has stopped answering");
    assert_eq!(proxy.log().into_iter().find(is_silent), None);
}

/// Returns how often a command has been executed, according to `INFO commandstats`.
async fn calls(client: &mut Raw, command: &str) -> u64 {
    let info = client.ask(&["INFO", "commandstats"]).await.text();
    let head = format!("cmdstat_{command}:calls=");
    let line = info.lines().find_map(|line| line.strip_prefix(&head)?.split(',').next());
    line.map_or(0, |count| count.parse().expect("a number"))
}

/// All replies used to be produced before any other client got one, even if nobody read them.
#[tokio::test]
async fn exec_answers_thousands_of_infos_in_one_go() {
    const INFOS: usize = 10_000;
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "1", "--vote-timeout", "5s"]);
    let mut bystander = proxy.raw().await;
    let mut client = proxy.raw().await;
    client.send(&[encode(&["MULTI"]), encode(&["INFO"]).repeat(INFOS)].concat()).await;
    client.replies(1 + INFOS).await;
    client.send(&encode(&["EXEC"])).await;
    eventually("the transaction has run", || async {
        let mut client = proxy.raw().await;
        (calls(&mut client, "exec").await > 0).then_some(())
    })
    .await;
    let done = calls(&mut bystander, "info").await;
    assert!(done < INFOS as u64, "{done} replies for somebody who reads none");
    let Reply::Array(replies) = client.reply().await else { panic!("replies") };
    assert_eq!(replies.len(), INFOS);
    assert!(replies.iter().all(|reply| reply.text().contains("redis_version:")));
}

/// A reply that is sent late must not show later changes.
#[tokio::test]
async fn replies_of_a_transaction_tell_of_what_comes_after_them() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "5s"]);
    for version in ["2", "3"] {
        let mut client = proxy.raw().await;
        client.ask(&["HELLO", version]).await;
        let lines = [
            "MULTI",
            "CLIENT LIST",
            "CONFIG GET slowlog-max-len",
            "CLIENT SETNAME renamed",
            "CONFIG SET slowlog-max-len 7",
            "SET key value PX 60000",
            "CLIENT LIST",
            "CONFIG GET slowlog-max-len",
            "CLIENT LIST TYPE nothing",
            "GET key",
            "ACL WHOAMI",
            "EXEC",
            "CONFIG SET slowlog-max-len 128",
            "CLIENT SETNAME again",
            "MULTI",
            "CONFIG GET slowlog-max-len",
            "CLIENT INFO",
            "EXEC",
            "CONFIG SET slowlog-max-len 9",
            "CLIENT SETNAME never",
            "CONFIG SET slowlog-max-len 128",
        ];
        let requests: Vec<_> = lines.iter().flat_map(|line| encode(&words(line))).collect();
        client.send(&requests).await;
        assert_eq!(client.reply().await, Reply::ok());
        client.replies(10).await;
        let Reply::Array(replies) = client.reply().await else { panic!("replies") };
        let said: Vec<String> = replies.iter().map(said).collect();
        assert!(said[0].contains(" name= ") && !said[0].contains("renamed"), "{}", said[0]);
        assert_eq!(said[1], "slowlog-max-len 128");
        assert_eq!(said[2..5], ["OK", "OK", "OK"]);
        assert!(said[5].contains(" name=renamed "), "{}", said[5]);
        assert_eq!(said[6], "slowlog-max-len 7");
        assert!(said[7].contains("Unknown client type"), "{}", said[7]);
        assert_eq!(said[8..], ["value", "default"]);
        client.replies(5).await;
        let Reply::Array(replies) = client.reply().await else { panic!("replies") };
        assert_eq!(self::said(&replies[0]), "slowlog-max-len 128");
        assert!(self::said(&replies[1]).contains(" name=again "), "{replies:?}");
        assert_eq!(client.replies(3).await, vec![Reply::ok(); 3]);
    }
}

/// Returns all texts in a reply.
fn said(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => items.iter().map(said).collect::<Vec<_>>().join(" "),
        Reply::Map(pairs) => {
            let pair = |(field, value): &(Reply, Reply)| format!("{} {}", said(field), said(value));
            pairs.iter().map(pair).collect::<Vec<_>>().join(" ")
        }
        other => other.text(),
    }
}
