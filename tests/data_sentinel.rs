//! A data Redis that sentinels name: real sentinels, a master, a replica, and fail-overs between them.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use support::certificates::Authority;
use support::followed::{NAME, WATCHFUL, by_tls, data, follow, pair, refused_no_write};
use support::users::Settings;
use support::{Master, Masters, Proxy, Raw, Reply, Sentinel, encode, eventually, run, words};

/// Three masters for locks, and two Redis for data, one a replica of the other as their sentinel wants it.
struct Followed {
    /// Dropped first, so it never misses a master.
    proxy: Proxy,
    masters: Masters,
    sentinel: Sentinel,
    /// The initial master.
    first: Master,
    /// The initial replica.
    second: Master,
}

impl Followed {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts with extra lines in the sentinel's configuration.
    async fn start_with(lines: &[&str]) -> Self {
        let (sentinel, first, second) = pair(lines).await;
        let url = format!("sentinel://{}/{NAME}", sentinel.address());
        let masters = Masters::start(3);
        let proxy = proxy(&masters, &url, &[]);
        Self { proxy, masters, sentinel, first, second }
    }

    /// Takes a lock as a new client of the proxy, whatever the data Redis does.
    async fn locks(&self, key: &str) {
        let mut client = self.proxy.raw().await;
        assert_eq!(client.ask(&["SET", key, "me", "NX", "PX", "60000"]).await, Reply::ok());
        assert_eq!(self.masters.having(key).await, 3);
    }
}

fn proxy(masters: &Masters, url: &str, flags: &[&str]) -> Proxy {
    Proxy::start(masters, &[&["--data", url, "--lock-keys", "lock:*"], flags].concat())
}

/// Waits for a line about the data Redis in `INFO redlock` that contains all of these parts.
async fn told(proxy: &Proxy, parts: &[&str]) -> String {
    eventually(&format!("INFO redlock tells {parts:?}"), || async {
        let info = proxy.raw().await.ask(&words("INFO redlock")).await.text();
        let line = info.lines().find(|line| line.starts_with("data:"))?;
        parts.iter().all(|part| line.contains(part)).then(|| line.to_owned())
    })
    .await
}

/// Returns the reply to a new client, or `None` if its connection is closed instead.
async fn answer(proxy: &Proxy, line: &str) -> Option<Reply> {
    let mut client = proxy.raw().await;
    client.send(&encode(&words(line))).await;
    client.frame_or_end().await.map(|(reply, _)| reply)
}

/// Retries until a master is there to answer.
async fn done(proxy: &Proxy, line: &str) {
    eventually(line, || async {
        let reply = answer(proxy, line).await?;
        assert_eq!(reply, Reply::ok(), "{line}: a client that needs a master gets no other one");
        Some(())
    })
    .await;
}

#[tokio::test]
async fn data_is_on_the_master_that_sentinels_name() {
    let it = Followed::start().await;
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET page hello")).await, Reply::ok());
    assert_eq!(client.ask(&words("SELECT 3")).await, Reply::ok());
    assert_eq!(client.ask(&words("SET page three")).await, Reply::ok());
    let mut modern = Raw::connect_resp3(it.proxy.address()).await;
    assert_eq!(modern.ask(&words("GET page")).await, Reply::bulk("hello"));
    assert_eq!(it.first.ask(&words("GET page")).await, Reply::bulk("hello"));
    it.locks("lock:a").await;
    told(&it.proxy, &[&format!("address={}/0,state=up,", it.first.address())]).await;
    it.proxy.tells(&["INFO", "the data Redis is up", &it.first.address()]).await;
    eventually("the sentinel has somebody to tell of a fail-over", || async {
        it.sentinel.ask(&["CLIENT", "LIST"]).await.text().contains(" sub=1 ").then_some(())
    })
    .await;
}

#[tokio::test]
async fn when_the_master_dies_data_goes_to_the_next_and_never_to_the_one_that_comes_back() {
    let mut it = Followed::start_with(&[WATCHFUL]).await;
    let mut idle = it.proxy.raw().await;
    assert_eq!(idle.ask(&words("SET page 1")).await, Reply::ok());
    it.proxy.expect_warnings();
    it.first.kill_9();
    it.locks("lock:meanwhile").await;
    done(&it.proxy, "SET page 2").await;
    assert_eq!(it.second.ask(&words("GET page")).await, Reply::bulk("2"));
    assert_eq!(idle.ask(&words("GET page")).await, Reply::bulk("2"), "it had nothing open");
    told(&it.proxy, &[&format!("address={}/0,state=up,", it.second.address())]).await;
    it.locks("lock:afterwards").await;

    // The instance considers itself a master until the sentinel has watched it for a while.
    it.first.restart_empty();
    let mut seen_as_master = false;
    for round in 0..20 {
        let key = format!("back:{round}");
        assert_eq!(answer(&it.proxy, &format!("SET {key} 1")).await, Some(Reply::ok()));
        assert_eq!(idle.ask(&["SET", &key, "2"]).await, Reply::ok());
        seen_as_master |= !follows_or_has(&it.first, &key).await;
    }
    assert!(seen_as_master, "nothing was tried: the old master was a replica at once");
    assert!(it.second.has("back:19").await);
}

/// Returns whether the instance is a replica; a master must not have the key.
async fn follows_or_has(instance: &Master, key: &str) -> bool {
    let mut direct = Raw::connect(&instance.address()).await;
    assert_eq!(direct.ask(&["MULTI"]).await, Reply::ok());
    for line in [&["ROLE"][..], &["EXISTS", key]] {
        direct.ask(line).await;
    }
    let Reply::Array(said) = direct.ask(&["EXEC"]).await else { panic!("a transaction") };
    let Reply::Array(role) = &said[0] else { panic!("a role: {said:?}") };
    let is_replica = role[0] != Reply::bulk("master");
    assert!(is_replica || said[1] == Reply::Int(0), "{key} was written to the old master");
    is_replica
}

#[tokio::test]
async fn at_a_failover_clients_with_something_open_at_the_old_master_are_closed() {
    let it = Followed::start_with(&[WATCHFUL]).await;
    let mut idle = it.proxy.raw().await;
    assert_eq!(idle.ask(&words("SET page 1")).await, Reply::ok());
    let mut open = Vec::new();
    for lines in [
        &["SUBSCRIBE news"][..],
        &["WATCH page"],
        &["MULTI", "SET page old"],
        &["BLPOP queue 0"],
        &["GET page", "SET page old"],
    ] {
        let mut client = it.proxy.raw().await;
        let (last, before) = lines.split_last().expect("a line");
        for line in before {
            client.ask(&words(line)).await;
        }
        open.push((client, *last));
    }
    for (client, line) in &mut open[..3] {
        client.ask(&words(line)).await;
    }
    let mut locker = it.proxy.raw().await;
    it.proxy.expect_warnings();
    // The instance hangs: only the proxy can close the connections that are open there.
    it.first.stop();
    for (client, line) in &mut open[3..] {
        client.send(&encode(&words(line))).await;
    }
    assert_eq!(locker.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    it.sentinel.has_named(NAME, &it.second).await;
    for (client, line) in &mut open {
        assert_eq!(client.until_closed().await, b"", "{line}");
    }
    assert_eq!(idle.ask(&words("SET page 2")).await, Reply::ok());
    assert_eq!(it.second.ask(&words("GET page")).await, Reply::bulk("2"));
    assert_eq!(locker.ask(&words("DEL lock:a")).await, Reply::Int(1), "it noticed nothing");
    it.proxy.tells(&["INFO", "sentinels name the data Redis", &it.second.address()]).await;
    it.first.cont();
}

#[tokio::test]
async fn a_master_that_sentinels_demote_gets_no_write() {
    let it = Followed::start().await;
    it.proxy.expect_warnings();
    let (mut busy, mut idle) = (it.proxy.raw().await, it.proxy.raw().await);
    assert_eq!(busy.ask(&["MULTI"]).await, Reply::ok());
    assert_eq!(busy.ask(&words("SET page busy")).await, Reply::Simple("QUEUED".into()));
    assert_eq!(idle.ask(&words("SET page 1")).await, Reply::ok());
    it.sentinel.fail_over(NAME, &it.second).await;
    it.locks("lock:a").await;
    assert_eq!(busy.until_closed().await, b"");
    told(&it.proxy, &[&format!("address={}/0,state=up,", it.second.address())]).await;
    assert_eq!(answer(&it.proxy, "SET page 2").await, Some(Reply::ok()));
    assert_eq!(idle.ask(&words("GET page")).await, Reply::bulk("2"), "it had nothing open");
    assert_eq!(it.second.ask(&words("GET page")).await, Reply::bulk("2"));
    refused_no_write(&it.first).await;
}

#[tokio::test]
async fn a_sentinel_that_missed_a_failover_is_not_believed() {
    let (mut sentinel, first, second) = pair(&[]).await;
    let mut other = Sentinel::start(NAME, &first, &[]);
    other.knows_replica(NAME, &second).await;
    let masters = Masters::start(3);
    let (one, two) = (sentinel.address(), other.address());
    let proxy = proxy(&masters, &format!("sentinel://{one},{two}/{NAME}"), &[]);
    told(&proxy, &[&first.address(), "state=up"]).await;
    proxy.expect_warnings();
    other.kill_9();
    sentinel.fail_over(NAME, &second).await;
    told(&proxy, &[&second.address(), "state=up"]).await;
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    sentinel.kill_9();
    other.restart();
    proxy.tells(&["WARN", &two, "it has not heard of the last fail-over yet"]).await;
    assert_eq!(answer(&proxy, "SET page 2").await, None);
    assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("1"));
    refused_no_write(&first).await;
}

#[tokio::test]
async fn a_master_that_hangs_from_the_start_is_told_of_and_can_be_replaced() {
    let (sentinel, first, second) = pair(&[]).await;
    let masters = Masters::start(3);
    first.stop();
    let proxy = proxy(&masters, &format!("sentinel://{}/{NAME}", sentinel.address()), &[]);
    proxy.expect_warnings();
    let mut waiting = proxy.raw().await;
    waiting.send(&encode(&words("SET page 1"))).await;
    told(&proxy, &[&format!("address={}/0,state=down,", first.address())]).await;
    sentinel.fail_over(NAME, &second).await;
    if let Some((reply, _)) = waiting.frame_or_end().await {
        assert_eq!(reply, Reply::ok(), "by the second one");
        assert_eq!(second.ask(&words("GET page")).await, Reply::bulk("1"));
    }
    told(&proxy, &[&format!("address={}/0,state=up,", second.address())]).await;
    done(&proxy, "SET page 2").await;
    assert_eq!(second.ask(&words("GET page")).await, Reply::bulk("2"));
}

#[tokio::test]
async fn a_sentinel_that_is_down_is_passed_over() {
    let (mut sentinel, first, second) = pair(&[]).await;
    let other = Sentinel::start(NAME, &first, &[]);
    other.knows_replica(NAME, &second).await;
    let masters = Masters::start(3);
    let (one, two) = (sentinel.address(), other.address());
    let proxy = proxy(&masters, &format!("sentinel://127.0.0.1:1,{one},{two}/{NAME}"), &[]);
    done(&proxy, "SET page 1").await;
    assert!(first.has("page").await);
    proxy.expect_warnings();
    sentinel.kill_9();
    other.fail_over(NAME, &second).await;
    told(&proxy, &[&second.address(), "state=up"]).await;
    done(&proxy, "SET page 2").await;
    assert_eq!(second.ask(&words("GET page")).await, Reply::bulk("2"));
}

#[tokio::test]
async fn without_sentinels_what_is_open_goes_on_and_nothing_new_begins() {
    let mut it = Followed::start().await;
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    told(&it.proxy, &["state=up"]).await;
    it.proxy.expect_warnings();
    it.sentinel.kill_9();
    let line =
        told(&it.proxy, &["state=down", "reason=no sentinel knows the address of shop-1"]).await;
    assert!(line.contains(&it.sentinel.address()), "{line}");
    it.proxy.tells(&["WARN", "locks still work: no sentinel knows the address of shop-1"]).await;
    assert_eq!(answer(&it.proxy, "SET page 2").await, None);
    assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("1"));
    it.locks("lock:a").await;
    it.sentinel.restart();
    told(&it.proxy, &["state=up"]).await;
    assert_eq!(answer(&it.proxy, "SET page 3").await, Some(Reply::ok()));
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_told_in_one_sentence() {
    let first = data();
    let sentinel = Sentinel::start(NAME, &first, &[]);
    let masters = Masters::start(3);
    let proxy = proxy(&masters, &format!("sentinel://{}/other", sentinel.address()), &[]);
    proxy.expect_warnings();
    proxy
        .tells(&[
            "WARN",
            "no sentinel knows the address of other",
            "it knows no master of that name",
        ])
        .await;
    assert_eq!(answer(&proxy, "SET page 1").await, None);
    assert!(!first.has("page").await);
    let line = told(&proxy, &["address=unknown,state=down"]).await;
    assert!(line.contains("it knows no master of that name"), "{line}");
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
}

#[tokio::test]
async fn a_master_that_has_become_a_replica_gets_no_request() {
    let it = Followed::start().await;
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    assert_eq!(client.ask(&["MULTI"]).await, Reply::ok());
    assert_eq!(client.ask(&words("SET page 2")).await, Reply::Simple("QUEUED".into()));
    told(&it.proxy, &["state=up"]).await;
    it.proxy.expect_warnings();
    // Its sentinel keeps naming it for a while.
    assert_eq!(it.second.ask(&words("REPLICAOF NO ONE")).await, Reply::ok());
    follow(&it.first, &it.second).await;
    assert_eq!(client.until_closed().await, b"");
    for _ in 0..5 {
        let answer = answer(&it.proxy, "SET page 3").await;
        assert!(answer.is_none() || answer == Some(Reply::ok()), "by the next master: {answer:?}");
    }
    it.proxy.tells(&["WARN", "it is a replica, and its sentinels must name a master"]).await;
    refused_no_write(&it.first).await;
    it.locks("lock:a").await;
}

#[tokio::test]
async fn a_new_master_with_the_mark_of_a_lock_master_is_refused_too() {
    let it = Followed::start().await;
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    eventually("the replica has it, too", || async { it.second.has("page").await.then_some(()) })
        .await;
    it.second.ask(&words("CONFIG SET replica-read-only no")).await;
    assert_eq!(it.second.ask(&words("SET redlock-proxy:mark 1")).await, Reply::ok());
    it.proxy.expect_warnings();
    it.sentinel.fail_over(NAME, &it.second).await;
    it.proxy.tells(&["WARN", "it has the mark of a master", &it.second.address()]).await;
    assert_eq!(answer(&it.proxy, "SET page 2").await, None);
    assert_eq!(it.second.ask(&words("GET page")).await, Reply::bulk("1"));
    it.locks("lock:a").await;
}

#[tokio::test]
async fn sentinels_have_a_password_of_their_own() {
    let first = data();
    let sentinel = Sentinel::start(NAME, &first, &["requirepass sesame"]);
    let masters = Masters::start(3);
    let url = format!("sentinel://{}/{NAME}", sentinel.address());
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("password");
    let flags = ["--data-sentinel-password-file", path.to_str().expect("a path")];
    std::fs::write(&path, "sesame\n").expect("written");
    let knowing = proxy(&masters, &url, &flags);
    done(&knowing, "SET page 1").await;
    assert!(first.has("page").await);
    for (password, flags) in [("", &[][..]), ("wrong\n", &flags[..])] {
        std::fs::write(&path, password).expect("written");
        let ignorant = proxy(&masters, &url, flags);
        ignorant.expect_warnings();
        ignorant.tells(&["WARN", "its password differs", "--data-sentinel-password-file"]).await;
        assert_eq!(answer(&ignorant, "SET page 2").await, None);
    }
}

#[tokio::test]
async fn a_limited_user_is_himself_at_the_named_master() {
    let first = data();
    let sentinel = Sentinel::start(NAME, &first, &[]);
    first.ask(&words("ACL SETUSER app on >pw ~app:* +set +exists")).await;
    let masters = Masters::start(3);
    let url = format!("sentinel://{}/{NAME}", sentinel.address());
    let settings = Settings::with(&["app on >pw ~app:* &* +@all -@admin -@dangerous"], "");
    let proxy = proxy(&masters, &url, &settings.flags());
    let mut app = proxy.raw().await;
    assert_eq!(app.ask(&words("AUTH app pw")).await, Reply::ok());
    assert_eq!(app.ask(&words("SET app:page 1")).await, Reply::ok(), "it may not send ROLE there");
    assert!(app.ask(&words("GET app:page")).await.is_error("NOPERM"));
    assert!(first.has("app:page").await);
}

#[tokio::test]
async fn sentinels_and_their_master_are_reached_by_tls() {
    let authority = Authority::new();
    let (_sentinel, data, url) = by_tls(&authority);
    let ca = authority.path();
    let masters = Masters::start(3);
    let trust = ["--master-tls-ca-cert-file", ca.to_str().expect("a path")];
    let proxy = proxy(&masters, &url, &trust);
    done(&proxy, "SET page 1").await;
    assert!(data.has("page").await);
}

#[test]
fn what_is_wrong_with_the_settings_is_told_in_one_sentence() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "sesame\n").expect("written");
    let password = ["--data-sentinel-password-file", file.path().to_str().expect("a path")];
    for (flags, sentence) in [
        (
            vec!["--data", "sentinel:///shop"],
            "data names no sentinel: write sentinel://host:port,host:port/NAME",
        ),
        (
            vec!["--data", "sentinel://h:1"],
            "data does not say which master its sentinels are to name",
        ),
        (
            vec!["--data", "sentinel://h:1/a b"],
            "data has a name that no sentinel knows: names of masters have",
        ),
        ([&["--data", "h:1"], &password[..]].concat(), "has no effect unless data lists sentinels"),
        (password.to_vec(), "data-sentinel-password-file has no effect without data"),
    ] {
        let output = run(&flags);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(sentence) && !output.status.success(), "{flags:?}: {said}");
    }
}
