//! A proxy that must stop while it still has to take claims back from the data Redis (`--also-claim-on-data`).

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use socket2::SockRef;
use support::{Master, Masters, Proxy, Relay, Reply, encode, eventually, words};

/// Longer than any test: a proxy that exits sooner has not waited for it.
const FOR_EVER: [&str; 2] = ["--drain-timeout", "1h"];

/// Text that only the take-back of a claim contains.
const TAKE_BACK: &str = "-- Deletes the key if its last change has the name";

/// A claim, and text that only a claim contains.
const CLAIM: &str = "SET lock:a new NX PX 60000";

/// A proxy that reaches the data Redis through a relay, and another one that does not know that Redis.
struct Moving {
    proxy: Proxy,
    without_data: Proxy,
    masters: Masters,
    relay: Relay,
    data: Master,
}

fn url(relay: &Relay) -> String {
    format!("redis://{}", relay.address())
}

fn data_flags(url: &str) -> [&str; 5] {
    ["--data", url, "--lock-keys", "lock:*", "--also-claim-on-data"]
}

impl Moving {
    fn start(flags: &[&str]) -> Self {
        let (masters, data) = (Masters::start(3), Master::start());
        let relay = Relay::to(&data);
        let url = url(&relay);
        let proxy = Proxy::start(&masters, &[&data_flags(&url), flags].concat());
        let without_data = Proxy::start(&masters, &[]);
        Self { proxy, without_data, masters, relay, data }
    }

    /// The masters refuse a claim that is on the data Redis, and its take-back does not arrive.
    async fn owes(&self) {
        let mut elsewhere = self.without_data.raw().await;
        assert_eq!(elsewhere.ask(&words("SET lock:a other NX PX 60000")).await, Reply::ok());
        self.relay.swallow(TAKE_BACK);
        assert_eq!(self.proxy.raw().await.ask(&words(CLAIM)).await, Reply::Nil);
        let is_caught = || async { (self.relay.caught() > 0).then_some(()) };
        eventually("the request is on its way", is_caught).await;
        assert!(self.data.has("lock:a").await);
    }

    /// Sends the proxy SIGTERM, and waits until it reacts.
    async fn stop(&self) {
        self.proxy.send_signal("TERM");
        eventually("new connections are refused", || async {
            tokio::net::TcpStream::connect(self.proxy.address()).await.is_err().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_the_masters_refused_is_taken_back_before_the_end() {
    let it = Moving::start(&FOR_EVER);
    it.owes().await;
    it.stop().await;
    it.proxy.expect_warnings();
    it.relay.heal();
    // Over this connection it never arrives.
    it.relay.reset();
    assert_eq!(it.proxy.ended().code(), Some(0));
    assert!(!it.data.has("lock:a").await && !it.data.has("redlock-proxy:moving:lock:a").await);
    assert_eq!(it.masters.holding("lock:a", b"other").await, 3);
}

#[tokio::test]
async fn a_claim_whose_client_has_gone_is_no_longer_half_done_at_the_end() {
    let it = Moving::start(&[&FOR_EVER[..], &["--patience", "1m"]].concat());
    it.relay.hold_back_answers_to("new");
    let mut client = TcpStream::connect(it.proxy.address()).expect("connected");
    client.write_all(&encode(&words(CLAIM))).expect("sent");
    eventually("the data Redis has it", || async { it.data.has("lock:a").await.then_some(()) })
        .await;
    // The proxy would wait for a client that only closes its side.
    SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("it is reset");
    drop(client);
    eventually("the client has gone", || async {
        let info = it.proxy.raw().await.ask(&words("INFO clients")).await.text();
        info.contains("connected_clients:1\r\n").then_some(())
    })
    .await;
    it.stop().await;
    it.relay.heal();
    assert_eq!(it.proxy.ended().code(), Some(0));
    assert_eq!(it.data.has("lock:a").await, it.masters.holding("lock:a", b"new").await == 3);
}

#[tokio::test]
async fn it_ends_when_its_time_is_over_and_says_what_is_left() {
    let it = Moving::start(&["--drain-timeout", "200ms"]);
    it.owes().await;
    it.proxy.expect_warnings();
    it.stop().await;
    it.proxy.tells(&["WARN", "not all locks were taken back from the data Redis"]).await;
    let log = it.proxy.log();
    assert!(
        !log.iter()
            .any(|line| line.contains("some clients were disconnected before they finished")),
        "{log:?}"
    );
    assert_eq!(it.proxy.ended().code(), Some(0));
    assert!(it.data.has("lock:a").await);
}

#[tokio::test]
async fn it_does_not_wait_for_a_data_redis_that_is_down() {
    let mut it = Moving::start(&FOR_EVER);
    it.owes().await;
    it.proxy.expect_warnings();
    it.data.kill_9();
    it.stop().await;
    it.proxy.tells(&["WARN", "not all locks were taken back from the data Redis"]).await;
    assert_eq!(it.proxy.ended().code(), Some(0));
}

#[tokio::test]
async fn what_was_refused_is_taken_back_before_the_end_of_one_that_hands_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("handover");
    let flags = ["--handover", place.to_str().expect("a path"), FOR_EVER[0], FOR_EVER[1]];
    let it = Moving::start(&flags);
    it.owes().await;
    let url = url(&it.relay);
    let after =
        Proxy::unready(&it.masters.addresses(), &[&data_flags(&url)[..], &flags[..]].concat());
    assert_eq!(after.address(), it.proxy.address());
    it.proxy.tells(&["INFO", "handed over"]).await;
    it.proxy.expect_warnings();
    after.expect_warnings();
    it.relay.heal();
    it.relay.reset();
    assert_eq!(it.proxy.ended().code(), Some(0));
    assert!(!it.data.has("lock:a").await && !it.data.has("redlock-proxy:moving:lock:a").await);
}
