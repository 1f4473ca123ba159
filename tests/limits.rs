//! Limits on clients, as an operator sees them: only the client that exceeds a limit notices, and it is counted.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::process::Command;
use std::time::Duration;

use support::http::http;
use support::{Masters, Proxy, Raw, Reply, encode, eventually, target_is_plain_redis, words};
use tokio::net::TcpStream;

/// Returns one value of `/metrics`.
fn metric(proxy: &Proxy, sample: &str) -> u64 {
    let text = http(&proxy.admin_address(), "GET", "/metrics", "").body;
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {sample} in {text}"))
}

/// Requests in flight when reading stops are still answered, so a client that never reads may accumulate a lot of
/// output.
#[tokio::test]
async fn a_client_that_does_not_read_its_messages_is_disconnected_and_counted() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags = ["--max-output-bytes", "64kb", "--admin", "127.0.0.1:0"];
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let (mut deaf, mut client) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(deaf.ask(&["CLIENT", "SETNAME", "deaf"]).await, Reply::ok());
    deaf.ask(&["SUBSCRIBE", "news"]).await;
    let message = "x".repeat(256 << 10);
    eventually("the proxy gives it up", || {
        let (address, message) = (proxy.address().to_owned(), message.clone());
        async move {
            let mut client = Raw::connect(&address).await;
            client.ask(&["PUBLISH", "news", &message]).await;
            let list = client.ask(&["CLIENT", "LIST"]).await.text();
            (!list.contains("name=deaf")).then_some(())
        }
    })
    .await;
    eventually("the log tells of it", || {
        let tells = |line: &String| line.contains("does not read its replies");
        std::future::ready(proxy.log().iter().any(tells).then_some(()))
    })
    .await;
    assert_eq!(client.ask(&["PING"]).await, Reply::Simple("PONG".into()), "nobody else is");
    let counted = "redlock_disconnected_clients_total{reason=\"output\"}";
    assert_eq!(metric(&proxy, counted), 1);
}

/// Sets the number of files that a process may have open.
fn limit_files(process: u32, files: usize) {
    let limit = Command::new("prlimit")
        .args(["--pid", &process.to_string(), &format!("--nofile={files}:")])
        .output()
        .expect("prlimit of util-linux");
    assert!(limit.status.success(), "{limit:?}");
}

/// Without the pauses the proxy would call the system, and write to the log, as fast as it can.
#[tokio::test]
async fn without_file_descriptors_it_waits_for_some_and_goes_on() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    let process = proxy.raw().await.process_id().await;
    let before = metric(&proxy, "redlock_accept_errors_total");
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).expect("its files").count();
    limit_files(process, open);

    // The system accepts these connections, the proxy cannot.
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(TcpStream::connect(proxy.address()).await.expect("the system takes it"));
    }
    eventually("it says so", || async {
        proxy.log().iter().any(|line| line.contains("cannot accept a client")).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let said = proxy.log().iter().filter(|line| line.contains("cannot accept")).count();
    assert!(said < 20, "{said} lines in 300 ms");
    assert_eq!(client.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());

    limit_files(process, open + 100);
    for stream in waiting {
        let reply = Raw::over(stream).ask(&["PING"]).await;
        assert_eq!(reply, Reply::Simple("PONG".into()), "who waited gets in");
    }
    assert!(metric(&proxy, "redlock_accept_errors_total") > before);
}

/// `/proc/net/tcp` shows which timer a connection has: 02 is keepalive.
#[tokio::test]
async fn tcp_asks_whether_silent_clients_are_still_there() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    for (flag, timer) in [("300s", "02"), ("0", "00")] {
        let proxy = Proxy::start(&masters, &["--tcp-keepalive", flag]);
        let client = TcpStream::connect(proxy.address()).await.expect("it listens");
        let (ours, theirs) = (
            client.peer_addr().expect("connected").port(),
            client.local_addr().expect("connected").port(),
        );
        let mut client = Raw::over(client);
        client.ask(&["PING"]).await;
        eventually("the timer of the proxy's end", || async {
            let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
            let ends = (format!(":{ours:04X}"), format!(":{theirs:04X}"));
            let line = table.lines().find(|line| {
                let fields: Vec<_> = line.split_whitespace().collect();
                fields[1].ends_with(&ends.0) && fields[2].ends_with(&ends.1)
            });
            // While a reply is on its way, the timer is another one.
            let fields: Vec<_> = line?.split_whitespace().collect();
            (fields[5].split(':').next() == Some(timer)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn clients_that_are_disconnected_are_counted_by_reason() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags = ["--timeout", "200ms", "--admin", "127.0.0.1:0"];
    let proxy = Proxy::start(&masters, &flags);
    let (mut victim, mut killer) = (proxy.raw().await, proxy.raw().await);
    let Reply::Int(id) = victim.ask(&["CLIENT", "ID"]).await else { panic!("a number") };
    killer.send(&encode(&["CLIENT", "KILL", "ID", &id.to_string()])).await;
    assert_eq!(killer.reply().await, Reply::Int(1));
    assert_eq!(victim.until_closed().await, b"");
    assert_eq!(killer.until_closed().await, b"", "it was silent");
    for reason in ["killed", "timeout"] {
        let sample = format!("redlock_disconnected_clients_total{{reason=\"{reason}\"}}");
        assert!(metric(&proxy, &sample) >= 1, "{reason}");
    }
}

/// `CLIENT LIST`, by itself and by type, and `CLIENT KILL` process some clients at a time.
#[tokio::test]
async fn lists_of_all_clients_hold_everybody_up() {
    const TRIES: usize = 10;
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "1"]);
    let mut crowd = Vec::new();
    for _ in 0..3000 {
        crowd.push(TcpStream::connect(proxy.address()).await.expect("it listens"));
    }
    let (mut operator, mut bystander) = (proxy.raw().await, proxy.raw().await);
    // Enough that many turns pass before the last one is answered, even on a fast machine.
    for (request, times) in [
        ("CLIENT LIST", 4),
        ("CLIENT LIST TYPE normal", 4),
        ("CLIENT KILL USER default TYPE pubsub", 500),
    ] {
        let mut overtaken = 0;
        for _ in 0..TRIES {
            operator.send(&encode(&words(request)).repeat(times)).await;
            bystander.send(&encode(&["PING"])).await;
            let mut answered = 0;
            loop {
                tokio::select! {
                    biased;
                    _ = operator.frame(), if answered < times => answered += 1,
                    pong = bystander.reply() => {
                        assert_eq!(pong, Reply::Simple("PONG".into()));
                        break;
                    }
                }
            }
            overtaken += usize::from(answered < times);
            for _ in answered..times {
                operator.frame().await;
            }
        }
        assert!(overtaken > TRIES / 2, "{request} came first in {} of {TRIES}", TRIES - overtaken);
    }
}

/// As Redis does, which looks up one after the other.
#[tokio::test]
async fn clients_are_listed_by_number_in_the_order_asked_for() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (mut one, mut other) = (proxy.raw().await, proxy.raw().await);
    let Reply::Int(first) = one.ask(&["CLIENT", "ID"]).await else { panic!("a number") };
    let Reply::Int(second) = other.ask(&["CLIENT", "ID"]).await else { panic!("a number") };
    let ids = [second, first, i64::MAX, -1, second].map(|id| id.to_string());
    let request = [&["CLIENT", "LIST", "ID"][..], &ids.each_ref().map(String::as_str)].concat();
    let list = one.ask(&request).await.text();
    let listed: Vec<&str> = list.lines().filter_map(|line| line.split([' ', '=']).nth(1)).collect();
    assert_eq!(listed, [&*ids[0], &*ids[1], &*ids[4]]);
    one.send(&encode(&["MULTI"])).await;
    one.send(&encode(&["CLIENT", "LIST", "ID", &ids[0]])).await;
    one.send(&encode(&["EXEC"])).await;
    let replies = one.replies(3).await;
    let Reply::Array(executed) = &replies[2] else { panic!("{replies:?}") };
    assert_eq!(executed[0].clone().text().lines().count(), 1);
}

#[tokio::test]
async fn a_client_that_kills_itself_is_told_so_first() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let stream = TcpStream::connect(proxy.address()).await.expect("it listens");
    let address = stream.local_addr().expect("connected").to_string();
    let (mut client, mut bystander) = (Raw::over(stream), proxy.raw().await);
    assert_eq!(client.ask(&["CLIENT", "KILL", "ADDR", &address]).await, Reply::Int(0), "SKIPME");
    let kill = ["CLIENT", "KILL", "ADDR", &address, "SKIPME", "no"];
    assert_eq!(client.ask(&kill).await, Reply::Int(1));
    assert_eq!(client.until_closed().await, b"");
    assert_eq!(bystander.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    let nobody = bystander.ask(&["CLIENT", "KILL", &address]).await;
    assert!(nobody.is_error("ERR No such client"), "{nobody:?}");
}

/// Subscriptions are shared, on masters with a limited output buffer for a subscriber.
#[tokio::test]
async fn names_of_channels_have_a_limit() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (longest, too_long) = ("n".repeat(1024), "n".repeat(1025));
    let refusal = "ERR names of channels and patterns cannot be longer than 1024 bytes";
    let publish = |command: &str| format!("return redis.call('{command}', ARGV[1], 'x')");
    let (plain, shard) = (publish("PUBLISH"), publish("SPUBLISH"));
    let requests = |name| {
        [
            vec!["PUBLISH", name, "x"],
            vec!["SPUBLISH", name, "x"],
            vec!["EVAL", &plain, "0", name],
            vec!["EVAL", &shard, "0", name],
            vec!["SUBSCRIBE", name],
            vec!["PSUBSCRIBE", name],
            vec!["SSUBSCRIBE", name],
        ]
    };
    let mut client = Raw::connect_resp3(proxy.address()).await;
    for request in requests(&too_long) {
        let refused = client.ask(&request).await;
        assert!(refused.is_error(refusal), "{}: {refused:?}", request[0]);
        client.ask(&["MULTI"]).await;
        let queued = client.ask(&request).await;
        let executed = client.ask(&["EXEC"]).await;
        let is_refused = match &executed {
            Reply::Array(replies) => replies[0].is_error(refusal),
            _ => queued.is_error(refusal) && executed.is_error("EXECABORT"),
        };
        assert!(is_refused, "{}: {queued:?}, {executed:?}", request[0]);
    }
    for request in requests(&longest) {
        let reply = client.ask(&request).await;
        assert!(!reply.is_error(""), "{}: {reply:?}", request[0]);
    }
}
