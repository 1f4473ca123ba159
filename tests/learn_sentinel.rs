//! `redlock-proxy learn` in front of a Redis that sentinels name: real sentinels, and fail-overs while it watches.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

#[path = "learn/learner.rs"]
mod learner;
mod support;

use learner::{Learner, about, run, settings};
use support::certificates::Authority;
use support::followed::{NAME, WATCHFUL, by_tls, data, follow, pair, refused_no_write};
use support::{Master, Raw, Reply, Sentinel, encode, eventually, words};

/// A Redis and its replica, their sentinel, and a learner in front of them.
struct Watched {
    learner: Learner,
    sentinel: Sentinel,
    first: Master,
    second: Master,
}

impl Watched {
    async fn start(lines: &[&str]) -> Self {
        let (sentinel, first, second) = pair(lines).await;
        let learner = Learner::start(&url(&sentinel), &[]);
        Self { learner, sentinel, first, second }
    }

    /// Returns the reply to a new client, or `None` if its connection is closed instead.
    async fn answer(&self, line: &str) -> Option<Reply> {
        let mut client = self.learner.raw().await;
        client.send_regardless(&encode(&words(line))).await;
        client.frame_or_end().await.map(|(reply, _)| reply)
    }

    /// Retries with new clients until a master is there to answer.
    async fn done(&self, line: &str) {
        eventually(line, || async {
            let reply = self.answer(line).await?;
            assert_eq!(reply, Reply::ok(), "{line}: a client gets a master or none");
            Some(())
        })
        .await;
    }
}

fn url(sentinel: &Sentinel) -> String {
    format!("sentinel://{}/{NAME}", sentinel.address())
}

#[tokio::test]
async fn clients_are_closed_at_a_failover_and_the_report_counts_both_halves() {
    let it = Watched::start(&[WATCHFUL]).await;
    let mut open = Vec::new();
    for (at, line) in ["PING", "SUBSCRIBE news", "BLPOP queue 0", "SET page old"].iter().enumerate()
    {
        let mut client = it.learner.raw().await;
        let lock = format!("SET lock:{at} me NX PX 60000");
        assert_eq!(client.ask(&words(&lock)).await, Reply::ok());
        assert!(it.first.has(&format!("lock:{at}")).await);
        open.push((client, line));
    }
    for (client, line) in &mut open[..2] {
        client.ask(&words(line)).await;
    }
    // The Redis hangs: only the learner in between can close the connections that are open there.
    it.first.stop();
    for (client, line) in &mut open[2..] {
        client.send(&encode(&words(line))).await;
    }
    it.sentinel.has_named(NAME, &it.second).await;
    for (client, line) in &mut open {
        assert_eq!(client.until_closed().await, b"", "{line}");
    }
    it.done("SET page new").await;
    for at in 4..7 {
        it.done(&format!("SET lock:{at} me NX PX 60000")).await;
        assert!(it.second.has(&format!("lock:{at}")).await);
    }
    assert_eq!(it.second.ask(&words("GET page")).await, Reply::bulk("new"));
    let Watched { learner, sentinel, first, .. } = it;
    first.cont();
    let report = learner.end("INT").report();
    let locks = about(&report, "lock:*");
    assert!(locks.contains("7 names") && locks.contains("SET NX with a TTL (7)"), "{report}");
    let data = format!("data = \"{}/0\"\nlock-keys = [\"lock:*\"]\n", url(&sentinel));
    assert_eq!(settings(&report), data, "{report}");
}

#[tokio::test]
async fn a_master_that_has_become_a_replica_gets_no_request() {
    let it = Watched::start(&[]).await;
    let mut client = it.learner.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    // Its sentinel keeps naming it for a while.
    assert_eq!(it.second.ask(&words("REPLICAOF NO ONE")).await, Reply::ok());
    follow(&it.first, &it.second).await;
    assert_eq!(client.until_closed().await, b"");
    for _ in 0..5 {
        let answer = it.answer("SET page 2").await;
        assert!(answer.is_none() || answer == Some(Reply::ok()), "by the next master: {answer:?}");
    }
    it.learner.told("clients are rejected: it is a replica");
    refused_no_write(&it.first).await;
}

#[tokio::test]
async fn a_new_master_with_the_mark_of_a_lock_master_gets_no_client() {
    let it = Watched::start(&[]).await;
    it.done("SET page 1").await;
    eventually("the replica has it, too", || async { it.second.has("page").await.then_some(()) })
        .await;
    it.second.ask(&words("CONFIG SET replica-read-only no")).await;
    assert_eq!(it.second.ask(&words("SET redlock-proxy:mark 1")).await, Reply::ok());
    it.sentinel.fail_over(NAME, &it.second).await;
    it.learner.told("clients are rejected: it has the mark of a master");
    assert_eq!(it.answer("SET page 2").await, None);
    assert_eq!(it.second.ask(&words("GET page")).await, Reply::bulk("1"));
}

#[tokio::test]
async fn without_sentinels_what_is_open_goes_on_and_nothing_new_begins() {
    let mut it = Watched::start(&[]).await;
    let mut client = it.learner.raw().await;
    assert_eq!(client.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    it.sentinel.kill_9();
    it.learner.told("clients are rejected: no sentinel knows the address of shop-1");
    assert_eq!(it.answer("SET page 2").await, None);
    assert_eq!(client.ask(&words("GET lock:a")).await, Reply::bulk("me"));
    it.sentinel.restart();
    it.done("SET page 3").await;
    let report = it.learner.end("TERM").report();
    assert!(about(&report, "lock:a").contains("GET (1)"), "{report}");
}

#[tokio::test]
async fn logins_and_the_database_are_those_of_the_url() {
    let first = data();
    first.ask(&words("CONFIG SET requirepass secret")).await;
    let lines = [&format!("sentinel auth-pass {NAME} secret"), "requirepass sesame"];
    let sentinel = Sentinel::start(NAME, &first, &lines);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "sesame\n").expect("written");
    let flags = ["--data-sentinel-password-file", file.path().to_str().expect("a path")];
    let with_login = format!("sentinel://:secret@{}/{NAME}/4", sentinel.address());
    let learner = Learner::start(&with_login, &flags);
    assert_eq!(learner.raw().await.ask(&words("SET page 1")).await, Reply::ok());
    let mut direct = Raw::connect(&first.address()).await;
    assert_eq!(direct.ask(&words("AUTH secret")).await, Reply::ok());
    assert_eq!(direct.ask(&words("SELECT 4")).await, Reply::ok());
    assert_eq!(direct.ask(&words("EXISTS page")).await, Reply::Int(1));
    let without = Learner::start(&url(&sentinel), &flags);
    let mut client = without.raw().await;
    assert!(client.ask(&["PING"]).await.is_error("NOAUTH"), "clients log in for themselves");
    assert_eq!(client.ask(&words("AUTH secret")).await, Reply::ok());
    assert_eq!(client.ask(&words("GET page")).await, Reply::Nil);
}

#[tokio::test]
async fn sentinels_and_their_master_are_reached_by_tls() {
    let authority = Authority::new();
    let (_sentinel, data, url) = by_tls(&authority);
    let ca = authority.path();
    let trust = ["--master-tls-ca-cert-file", ca.to_str().expect("a path")];
    let learner = Learner::start(&url, &trust);
    assert_eq!(learner.raw().await.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    assert!(data.has("lock:a").await);
    let report = learner.end("INT").report();
    assert!(settings(&report).contains(&format!("data = \"{url}/0\"")), "{report}");
}

#[tokio::test]
async fn what_it_cannot_do_it_says_in_one_sentence() {
    let first = data();
    let sentinel = Sentinel::start(NAME, &first, &[]);
    let unknown = format!("sentinel://{}/other", sentinel.address());
    let sentence = |data: &str| {
        let output = run(&["--data", data, "--listen", "127.0.0.1:0"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(69), "{said}");
        said.trim_end().lines().last().expect("a sentence").to_owned()
    };
    let nobody = sentence(&format!("sentinel://127.0.0.1:1/{NAME}"));
    assert!(nobody.contains("no sentinel knows the address of shop-1 (127.0.0.1:1: "), "{nobody}");
    let unknown = sentence(&unknown);
    assert!(unknown.contains("it knows no master of that name: correct --data"), "{unknown}");
    first.ask(&words("SET redlock-proxy:mark x")).await;
    let master = sentence(&url(&sentinel));
    assert!(master.contains("it has the mark of a master"), "{master}");
}
