//! Clients that guess passwords are slowed down, and no others.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::Duration;

use support::certificates::Authority;
use support::http::http;
use support::{Masters, Proxy, Raw, Reply, encode, target_is_plain_redis, words};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Observation time for a guesser. Without a limit, it gets thousands of guesses answered meanwhile.
const WINDOW: Duration = Duration::from_secs(2);

async fn logged_in(proxy: &Proxy) -> Raw {
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&["AUTH", "secret"]).await, Reply::ok());
    client
}

/// Returns the number of replies within `window`; all of them say that a password is wrong.
async fn refused_within(window: Duration, guesser: &mut Raw) -> usize {
    let mut count = 0;
    let _ = timeout(window, async {
        loop {
            let reply = guesser.reply().await;
            assert!(reply.is_error("WRONGPASS"), "{reply:?}");
            count += 1;
        }
    })
    .await;
    count
}

async fn denied(client: &mut Raw) -> usize {
    let info = client.ask(&["INFO", "stats"]).await.text();
    let line = info.lines().find_map(|line| line.strip_prefix("acl_access_denied_auth:"));
    line.expect("a count").parse().expect("a number")
}

#[tokio::test]
async fn hundreds_of_thousands_of_passwords_a_second_can_be_tried() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret", "--vote-timeout", "3s"]);
    let (mut guesser, mut client) = (proxy.raw().await, logged_in(&proxy).await);
    guesser.send(&encode(&["AUTH", "guess"]).repeat(1000)).await;
    // Other clients continue meanwhile.
    for number in 0..100 {
        let claim = words(&format!("SET lock-{number} mine NX PX 60000"));
        assert_eq!(client.ask(&claim).await, Reply::ok());
    }
    let tried = refused_within(WINDOW, &mut guesser).await;
    assert!((1..50).contains(&tried), "{tried} guesses over one connection");
    assert!(denied(&mut client).await < 60);
}

#[tokio::test]
async fn every_new_connection_of_a_guesser_begins_anew() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret"]);
    let guessers: Vec<_> = (0..20)
        .map(|_| {
            let address = proxy.address().to_owned();
            tokio::spawn(async move {
                loop {
                    let reply = Raw::connect(&address).await.ask(&["AUTH", "guess"]).await;
                    assert!(reply.is_error("WRONGPASS"), "{reply:?}");
                }
            })
        })
        .collect();
    tokio::time::sleep(WINDOW).await;
    // The right password is accepted from the same address, and wrong ones do not delay it for ever.
    let mut client = logged_in(&proxy).await;
    let tried = denied(&mut client).await;
    assert!((1..500).contains(&tried), "{tried} guesses over 20 connections at a time");
    for guesser in guessers {
        assert!(!guesser.is_finished(), "it got another answer");
        guesser.abort();
    }
}

#[tokio::test]
async fn replies_keep_their_order_while_a_password_waits() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags = ["--requirepass", "secret", "--vote-timeout", "3s"];
    let proxy = Proxy::start(&masters, &flags);
    for protocol in ["2", "3"] {
        let mut client = proxy.raw().await;
        let requests = [
            "PING",
            "AUTH guess",
            "AUTH guess",
            "PING",
            "HELLO 2 AUTH default guess",
            &format!("HELLO {protocol} AUTH default secret"),
            "DEL key",
            "SET key value",
            "AUTH guess",
            "GET key",
        ];
        let bytes: Vec<u8> = requests.iter().flat_map(|line| encode(&words(line))).collect();
        client.send(&bytes).await;
        let replies = client.replies(requests.len()).await;
        let refused = |at: usize, code: &str| assert!(replies[at].is_error(code), "{replies:?}");
        [1, 2, 4, 8].into_iter().for_each(|at| refused(at, "WRONGPASS"));
        [0, 3].into_iter().for_each(|at| refused(at, "NOAUTH"));
        assert_eq!(replies[5].field("role"), Some(Reply::bulk("master")), "{replies:?}");
        assert_eq!(replies[7], Reply::ok());
        assert_eq!(replies[9], Reply::bulk("value"), "it is still who it was");
    }
}

#[tokio::test]
async fn guesses_are_slow_however_the_guesser_connects() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, authority) = (Masters::start(3), Authority::new());
    let (pair, directory) = (authority.sign(&["127.0.0.1"]), tempfile::tempdir().expect("a place"));
    let path = directory.path().join("clients.sock");
    let text = |path: &std::path::Path| path.to_str().expect("a path").to_owned();
    let (cert, key, socket) = (text(&pair.cert), text(&pair.key), text(&path));
    let proxy = Proxy::start(
        &masters,
        &[
            "--requirepass",
            "secret",
            "--tls-listen",
            "127.0.0.1:0",
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--unixsocket",
            &socket,
        ],
    );
    let tls = authority.connect(&proxy.tls_address(), None).await.expect("a handshake");
    let unix = Raw::over(UnixStream::connect(&path).await.expect("a listener"));
    for (name, mut guesser) in [("TLS", tls), ("Unix", unix)] {
        guesser.send(&encode(&["HELLO", "3", "AUTH", "default", "guess"]).repeat(300)).await;
        let tried = refused_within(WINDOW / 2, &mut guesser).await;
        assert!((1..30).contains(&tried), "{tried} by {name}");
    }
}

#[tokio::test]
async fn a_transaction_tries_many_passwords_at_once() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret", "--vote-timeout", "3s"]);
    let mut client = logged_in(&proxy).await;
    assert_eq!(client.ask(&["MULTI"]).await, Reply::ok());
    for _ in 0..50 {
        let queued = client.ask(&["AUTH", "guess"]).await;
        assert_eq!(queued, Reply::Simple("QUEUED".into()));
    }
    let Reply::Array(replies) = client.ask(&["EXEC"]).await else { panic!("no array") };
    assert_eq!(replies.len(), 50);
    let looked_at = replies.iter().filter(|reply| reply.is_error("WRONGPASS")).count();
    assert_eq!((looked_at, denied(&mut client).await), (1, 1), "{replies:?}");
}

#[tokio::test]
async fn a_guesser_that_hangs_up_while_it_waits_has_tried_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret", "--admin", "127.0.0.1:0"]);
    let mut client = logged_in(&proxy).await;
    for _ in 0..5 {
        let mut guesser = proxy.raw().await;
        guesser.send(&encode(&["AUTH", "guess"]).repeat(100)).await;
        assert!(guesser.reply().await.is_error("WRONGPASS"));
    }
    // Only the asking client is still there.
    let mut left = String::new();
    for _ in 0..1000 {
        left = client.ask(&["INFO", "clients"]).await.text();
        if left.contains("connected_clients:1\r\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(left.contains("connected_clients:1\r\n"), "they are held: {left}");
    let tried = denied(&mut client).await;
    assert!((5..20).contains(&tried), "{tried}");
    let metrics = http(&proxy.admin_address(), "GET", "/metrics", "").body;
    assert!(metrics.contains(&format!("\nredlock_denied_logins_total {tried}\n")), "{metrics}");
    assert_eq!(client.ask(&["CONFIG", "RESETSTAT"]).await, Reply::ok());
    assert_eq!(denied(&mut client).await, 0);
}
