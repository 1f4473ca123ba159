//! Every setting with an effect on clients, as clients see it, and its traces on the masters.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use redis::Value;
use support::{
    Master, Masters, PATIENCE, Proxy, Raw, Reply, encode, eventually, int, scripts,
    target_is_plain_redis, text, value, words,
};

/// Three requests for a lock without a TTL, with the answers for a free key.
fn without_ttl() -> [(&'static str, Reply); 3] {
    [
        ("SET lock mine NX", Reply::ok()),
        ("SETNX lock mine", Reply::Int(1)),
        ("SET lock mine NX GET", Reply::Nil),
    ]
}

#[tokio::test]
async fn a_lock_without_ttl_is_kept_by_default() {
    for flags in [&[] as &[&str], &["--no-ttl", "keep"]] {
        let masters = Masters::start(3);
        let proxy = Proxy::start(&masters, flags);
        let mut raw = proxy.raw().await;
        for (line, expected) in without_ttl() {
            assert_eq!(raw.ask(&words(line)).await, expected, "{line}");
            assert_eq!(raw.ask(&["PTTL", "lock"]).await, Reply::Int(-1), "{line}");
            let mut persistent = 0;
            for master in masters.iter() {
                persistent += usize::from(master.pttl("lock").await == -1);
            }
            assert!(persistent >= masters.quorum(), "{line}: on {persistent} masters for ever");
            assert_eq!(raw.ask(&["DEL", "lock"]).await, Reply::Int(1));
            masters.forget("lock").await;
        }
    }
}

#[tokio::test]
async fn a_lock_without_ttl_can_be_refused() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--no-ttl", "reject"]);
    let mut raw = proxy.raw().await;
    let refused = "ERR --no-ttl reject does not allow locks without a TTL: set one with PX or EX";
    let mut accepted = Vec::new();
    for (line, _) in without_ttl() {
        let reply = raw.ask(&words(line)).await;
        if reply != Reply::Error(refused.into()) || anywhere(&masters, "lock").await {
            accepted.push(line);
            raw.ask(&["DEL", "lock"]).await;
        }
    }
    assert!(accepted.is_empty(), "accepted: {accepted:?}");
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    // A value that is not a claim may live for ever.
    assert_eq!(raw.ask(&words("SET lock value")).await, Reply::ok());
}

#[tokio::test]
async fn a_lock_without_ttl_can_be_given_a_lease() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--no-ttl", "lease=5s"]);
    let mut raw = proxy.raw().await;
    let mut endless = Vec::new();
    for (line, expected) in without_ttl() {
        assert_eq!(raw.ask(&words(line)).await, expected, "{line}");
        let Reply::Int(remaining) = raw.ask(&["PTTL", "lock"]).await else { panic!("no PTTL") };
        // It may have expired if the machine paused, but it never lasts longer.
        if remaining == -1 || remaining > 5000 {
            endless.push((line, remaining));
        }
        // A request that returns the old value makes a register, and masters keep those for a minute longer.
        let longest = if line.ends_with("GET") { 70_000 } else { 10_000 };
        for master in masters.iter() {
            let padded = master.pttl("lock").await;
            if padded == -1 || padded > longest {
                endless.push((line, padded));
            }
        }
        raw.ask(&["DEL", "lock"]).await;
        masters.forget("lock").await;
    }
    assert!(endless.is_empty(), "longer than the lease: {endless:?}");
}

async fn anywhere(masters: &Masters, key: &str) -> bool {
    for master in masters.iter() {
        if master.get(key).await.is_some() {
            return true;
        }
    }
    false
}

/// Requests for `lock` with a TTL, and the command that Redis would name when refusing it.
fn requests_with_ttl(seconds: u64) -> Vec<(Vec<String>, &'static str)> {
    let ms = seconds * 1000;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let end = unix.expect("a clock after 1970").as_secs() + seconds;
    let line = |line: String| words(&line);
    let script = |text: &str| {
        ["EVAL", text, "1", "lock", "mine", &ms.to_string()].map(str::to_owned).to_vec()
    };
    vec![
        (line(format!("SET lock mine PX {ms}")), "set"),
        (line(format!("SET lock mine EX {seconds}")), "set"),
        (line(format!("SET lock mine EXAT {end}")), "set"),
        (line(format!("SET lock mine NX PX {ms}")), "set"),
        (line(format!("SET lock mine NX GET PX {ms}")), "set"),
        (line(format!("SET lock mine XX EX {seconds}")), "set"),
        (line(format!("SETEX lock {seconds} mine")), "setex"),
        (line(format!("PSETEX lock {ms} mine")), "psetex"),
        (line(format!("EXPIRE lock {seconds}")), "expire"),
        (line(format!("PEXPIRE lock {ms}")), "pexpire"),
        (line(format!("EXPIREAT lock {end}")), "expireat"),
        (line(format!("PEXPIREAT lock {end}000")), "pexpireat"),
        (line(format!("GETEX lock EX {seconds}")), "getex"),
        (line(format!("GETEX lock PXAT {end}000")), "getex"),
        (script(scripts::EXTEND), ""),
        (script(scripts::TAKE), ""),
        (script(scripts::TAKE_OR_EXTEND), ""),
        (script(scripts::EXTEND_OR_TAKE), ""),
    ]
}

#[tokio::test]
async fn a_ttl_beyond_the_longest_is_refused_and_changes_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-ttl", "60s"]);
    let mut raw = proxy.raw().await;
    for held in [false, true] {
        if held {
            assert_eq!(raw.ask(&words("SET lock mine PX 30000")).await, Reply::ok());
        }
        for (request, command) in requests_with_ttl(3600) {
            let reply = raw.ask(&request).await;
            let reason = "longer than --max-ttl 1m";
            let expected = format!("ERR invalid expire time in '{command}' command: {reason}");
            let named = command.is_empty() || reply == Reply::Error(expected);
            let refused = reply.is_error("ERR invalid expire time in '");
            assert!(refused && named && reply.text().ends_with(reason), "{request:?}: {reply:?}");
            assert_eq!(anywhere(&masters, "lock").await, held, "after {request:?}");
        }
    }
    let Reply::Int(remaining) = raw.ask(&["PTTL", "lock"]).await else { panic!("no PTTL") };
    assert!(remaining <= 30_000, "it was extended: {remaining}");
}

/// In a script and after `MULTI`, a request is refused with the same text.
#[tokio::test]
async fn a_ttl_beyond_the_longest_is_refused_in_programs_too() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-ttl", "60s"]);
    let mut raw = proxy.raw().await;
    let mut requests = requests_with_ttl(3600);
    requests.retain(|(_, command)| !command.is_empty());
    for (request, command) in requests {
        let reason = "longer than --max-ttl 1m";
        let refused = format!("ERR invalid expire time in '{command}' command: {reason}");
        raw.ask(&["MULTI"]).await;
        assert_eq!(raw.ask(&request).await, Reply::Simple("QUEUED".into()));
        let replies = Reply::Array(vec![Reply::Error(refused.clone())]);
        assert_eq!(raw.ask(&["EXEC"]).await, replies, "{request:?}");
        for (call, expected) in [("call", format!("{refused} script: ")), ("pcall", refused)] {
            let script = format!("return redis.{call}(unpack(ARGV))");
            let mut words = ["EVAL", &script, "0"].map(str::to_owned).to_vec();
            words.extend(request.iter().cloned());
            let reply = raw.ask(&words).await;
            assert!(reply.is_error(&expected), "{words:?}: {reply:?}");
        }
        assert!(!anywhere(&masters, "lock").await, "after {request:?}");
    }
    let script = "return redis.call('set', KEYS[1], 'mine', 'px', ARGV[1])";
    assert!(raw.ask(&["EVAL", script, "1", "lock", "60001"]).await.is_error("ERR invalid expire"));
    assert_eq!(raw.ask(&["EVAL", script, "1", "lock", "60000"]).await, Reply::ok());
}

#[tokio::test]
async fn a_ttl_up_to_the_longest_is_accepted() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-ttl", "60s"]);
    let mut raw = proxy.raw().await;
    for seconds in [59, 60] {
        for (request, _) in requests_with_ttl(seconds) {
            let reply = raw.ask(&request).await;
            assert!(!matches!(reply, Reply::Error(_)), "{request:?}: {reply:?}");
        }
    }
    // A key without a TTL does not exceed the limit.
    assert_eq!(raw.ask(&words("SET lock mine")).await, Reply::ok());
}

/// php-lock asks for a thousand years when it means for ever.
#[tokio::test]
async fn a_thousand_years_are_accepted_unless_limited() {
    const THOUSAND_YEARS_MS: i64 = 31_557_600_000_000;
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    let years = THOUSAND_YEARS_MS.to_string();
    let claim = ["SET", "lock", "mine", "NX", "PX", &years];
    assert_eq!(text(&mut client, &claim).await.as_deref(), Some("OK"));
    let remaining = int(&mut client, &["PTTL", "lock"]).await;
    let least = THOUSAND_YEARS_MS - 1000 * 60 * 60;
    assert!((least..=THOUSAND_YEARS_MS).contains(&remaining), "{remaining}");
    for master in masters.iter() {
        master.holds("lock", "mine").await;
        assert!(master.pttl("lock").await >= least);
    }
}

/// The settings make the pad larger than any delay of the test.
#[tokio::test]
async fn masters_keep_a_key_longer_than_clients_are_told() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "10s", "--drift", "0.5"]);
    let mut raw = proxy.raw().await;
    for (request, _) in requests_with_ttl(120) {
        let reply = raw.ask(&request).await;
        assert!(!matches!(reply, Reply::Error(_)), "{request:?}: {reply:?}");
        if matches!(raw.ask(&["EXISTS", "lock"]).await, Reply::Int(0)) {
            panic!("no key after {request:?}");
        }
        let Reply::Int(told) = raw.ask(&["PTTL", "lock"]).await else { panic!("no PTTL") };
        assert!((60_000..=120_000).contains(&told), "{request:?}: {told}");
        let mut longer = 0;
        for master in masters.iter() {
            longer += usize::from(master.pttl("lock").await > 120_000);
        }
        assert!(longer >= masters.quorum(), "{request:?}: padded on {longer} masters");
    }
}

#[tokio::test]
async fn a_password_is_asked_for_and_forgotten_by_reset() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret"]);
    let mut raw = proxy.raw().await;
    let no_auth = Reply::Error("NOAUTH Authentication required.".into());
    let claim = words("SET lock mine NX PX 60000");
    assert_eq!(raw.ask(&claim).await, no_auth);
    assert!(raw.ask(&["AUTH", "wrong"]).await.is_error("WRONGPASS "));
    assert!(raw.ask(&["AUTH", "nobody", "secret"]).await.is_error("WRONGPASS "));
    assert!(raw.ask(&["HELLO", "3"]).await.is_error("NOAUTH HELLO "));
    assert!(raw.ask(&words("HELLO 3 AUTH default wrong")).await.is_error("WRONGPASS "));
    assert_eq!(raw.ask(&claim).await, no_auth);
    if !target_is_plain_redis() {
        assert!(!anywhere(&masters, "lock").await, "a stranger's claim arrived");
    }
    assert_eq!(raw.ask(&["AUTH", "secret"]).await, Reply::ok());
    assert_eq!(raw.ask(&claim).await, Reply::ok());
    // A wrong password does not undo an earlier login.
    assert!(raw.ask(&["AUTH", "wrong"]).await.is_error("WRONGPASS "));
    assert_eq!(raw.ask(&["GET", "lock"]).await, Reply::bulk("mine"));
    assert_eq!(raw.ask(&["RESET"]).await, Reply::Simple("RESET".into()));
    assert_eq!(raw.ask(&["GET", "lock"]).await, no_auth);
    let hello = raw.ask(&words("HELLO 3 AUTH default secret")).await;
    assert_eq!(hello.field("proto"), Some(Reply::Int(3)));
    assert_eq!(raw.ask(&["GET", "lock"]).await, Reply::bulk("mine"));
}

#[tokio::test]
async fn a_stranger_may_send_ten_arguments_and_a_friend_more() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret"]);
    let ten = words("DEL a b c d e f g h i");
    let eleven = words("DEL a b c d e f g h i j");
    let mut raw = proxy.raw().await;
    assert!(raw.ask(&ten).await.is_error("NOAUTH "));
    raw.send_regardless(&encode(&eleven)).await;
    let end = String::from_utf8_lossy(&raw.until_closed().await).into_owned();
    assert_eq!(end, "-ERR Protocol error: unauthenticated multibulk length\r\n");

    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&["AUTH", "secret"]).await, Reply::ok());
    assert_eq!(raw.ask(&eleven).await, Reply::Int(0));
}

#[tokio::test]
async fn one_who_leaves_makes_room_for_one() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-clients", "3"]);
    let mut first = admitted(&proxy).await;
    let (_second, mut third) = (admitted(&proxy).await, admitted(&proxy).await);
    let refused = proxy.raw().await.until_closed().await;
    assert_eq!(refused, b"-ERR max number of clients reached\r\n");
    assert!(info(&mut third, "clients").await.contains("connected_clients:3\r\n"));
    assert_eq!(first.ask(&["QUIT"]).await, Reply::ok());
    assert_eq!(first.until_closed().await, b"");
    let _fourth = admitted(&proxy).await;
    let refused = proxy.raw().await.until_closed().await;
    assert_eq!(refused, b"-ERR max number of clients reached\r\n");
}

/// Connects as soon as there is room.
async fn admitted(proxy: &Proxy) -> Raw {
    eventually("room for one more client", || async {
        let mut raw = proxy.raw().await;
        raw.send_regardless(&encode(&["PING"])).await;
        let (reply, _) = raw.frame_or_end().await?;
        (reply == Reply::Simple("PONG".into())).then_some(raw)
    })
    .await
}

async fn info(raw: &mut Raw, section: &str) -> String {
    raw.ask(&["INFO", section]).await.text()
}

/// The limit applies to the whole request, so many small arguments are no way around it.
#[tokio::test]
async fn a_request_is_limited_as_a_whole() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-request-bytes", "2kb"]);
    let mut neighbour = proxy.raw().await;
    let command = |length: usize| encode(&["SET", "lock", &"x".repeat(length)]);
    let headers = command(1000).len() - 1000;
    for (length, fits) in [(2048 - headers, true), (2049 - headers, false)] {
        let mut raw = proxy.raw().await;
        raw.send_regardless(&command(length)).await;
        let (reply, _) = raw.frame_or_end().await.expect("a reply");
        let refused = "ERR Protocol error: request larger than max-request-bytes";
        let expected = if fits { Reply::ok() } else { Reply::Error(refused.into()) };
        assert_eq!(reply, expected, "{length}");
        let mut many = vec!["DEL".to_owned()];
        many.extend((0..100).map(|index| format!("a key with the number {index}")));
        let mut raw = proxy.raw().await;
        raw.send_regardless(&encode(&many)).await;
        let (reply, _) = raw.frame_or_end().await.expect("a reply");
        assert_eq!(reply, Reply::Error(refused.into()));
        assert_eq!(raw.until_closed().await, b"");
    }
    assert_eq!(
        neighbour.ask(&["STRLEN", "lock"]).await,
        Reply::Int(i64::try_from(2048 - headers).expect("small"))
    );
}

/// Returns one client of each worker.
async fn one_client_of_each_worker(proxy: &Proxy) -> (Raw, Raw) {
    let mut one = proxy.raw().await;
    let here = worker_of(&mut one).await;
    let other = eventually("the system gives a client to the other worker", || async {
        let mut other = proxy.raw().await;
        (worker_of(&mut other).await != here).then_some(other)
    })
    .await;
    (one, other)
}

async fn worker_of(raw: &mut Raw) -> String {
    let info = raw.ask(&["INFO", "redlock"]).await.text();
    info.lines().find(|line| line.starts_with("worker:")).expect("a worker").to_owned()
}

#[tokio::test]
async fn a_script_loaded_by_one_worker_is_known_to_the_other() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "2"]);
    let (mut one, mut other) = one_client_of_each_worker(&proxy).await;
    let sha = one.ask(&["SCRIPT", "LOAD", "return 1"]).await.text();
    let known = other.ask(&["SCRIPT", "EXISTS", &sha]).await;
    assert_eq!(known, Reply::Array(vec![Reply::Int(1)]));
}

#[tokio::test]
async fn clients_of_two_workers_see_and_kill_each_other() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "2"]);
    let (mut one, mut other) = one_client_of_each_worker(&proxy).await;
    let ids = [one.ask(&["CLIENT", "ID"]).await, other.ask(&["CLIENT", "ID"]).await];
    let ids = ids.map(|id| if let Reply::Int(id) = id { id } else { panic!("no id: {id:?}") });
    assert_ne!(ids[0], ids[1]);
    for raw in [&mut one, &mut other] {
        let list = raw.ask(&["CLIENT", "LIST"]).await.text();
        for id in ids {
            assert!(list.lines().any(|line| line.starts_with(&format!("id={id} "))), "{list}");
        }
    }
    let killed = one.ask(&["CLIENT", "KILL", "ID", &ids[1].to_string()]).await;
    assert_eq!(killed, Reply::Int(1));
    assert_eq!(other.until_closed().await, b"");
    let limit = Instant::now() + PATIENCE;
    while one.ask(&["CLIENT", "LIST"]).await.text().contains(&format!("id={} ", ids[1])) {
        assert!(Instant::now() < limit, "the killed client is still listed");
    }
}

/// Claims of two workers meet only on the masters, as those of two proxies do.
#[tokio::test]
async fn one_of_many_clients_of_two_workers_wins() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "2", "--split-vote-retries", "100"]);
    let (one, other) = one_client_of_each_worker(&proxy).await;
    let mut clients = vec![one, other];
    for _ in 0..38 {
        clients.push(proxy.raw().await);
    }
    for turn in 0..20 {
        let key = format!("lock {turn}");
        for (index, raw) in clients.iter_mut().enumerate() {
            let token = index.to_string();
            raw.send(&encode(&["SET", &key, &token, "NX", "PX", "60000"])).await;
        }
        let mut winners = Vec::new();
        for (index, raw) in clients.iter_mut().enumerate() {
            match raw.reply().await {
                Reply::Nil => {}
                reply if reply == Reply::ok() => winners.push(index),
                other => panic!("client {index} was told {other:?}"),
            }
        }
        let [winner] = winners[..] else { panic!("{key} was granted to {winners:?}") };
        let holder = Reply::bulk(&winner.to_string());
        for raw in &mut clients {
            assert_eq!(raw.ask(&["GET", &key]).await, holder, "{key}");
        }
    }
}

#[tokio::test]
async fn flushing_is_refused_unless_allowed() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    for line in ["FLUSHALL", "FLUSHDB", "flushall async", "FLUSHDB SYNC"] {
        let name = words(line)[0].to_lowercase();
        let expected = format!(
            "ERR '{name}' would remove every lock from its holder: start the proxy with --allow-flush to allow it"
        );
        assert_eq!(raw.ask(&words(line)).await, Reply::Error(expected), "{line}");
    }
    assert!(masters.holding("lock", b"mine").await >= masters.quorum());
}

#[tokio::test]
async fn flushing_reaches_all_masters() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--allow-flush"]);
    let mut raw = proxy.raw().await;
    for (line, left_in_1) in [("FLUSHDB", true), ("FLUSHALL", false), ("FLUSHALL ASYNC", false)] {
        for (db, key) in [("1", "there"), ("0", "here")] {
            assert_eq!(raw.ask(&["SELECT", db]).await, Reply::ok());
            assert_eq!(raw.ask(&["SET", key, "mine"]).await, Reply::ok());
        }
        for master in masters.iter() {
            eventually("the keys arrive", || async {
                (master.key_count_in(0).await == 1 && master.key_count_in(1).await == 1)
                    .then_some(())
            })
            .await;
        }
        assert_eq!(raw.ask(&words(line)).await, Reply::ok(), "{line}");
        for master in masters.iter() {
            assert_eq!(master.key_count_in(0).await, 0, "{line}");
            assert_eq!(master.key_count_in(1).await, i64::from(left_in_1), "{line}");
        }
    }
}

async fn set_password(master: &Master, password: &str) {
    change_password(&mut master.connection().await, password).await;
}

/// Waits until this many masters may vote.
async fn voters(raw: &mut Raw, count: usize) -> String {
    let limit = Instant::now() + PATIENCE;
    loop {
        let info = info(raw, "redlock").await;
        if info.contains(&format!("\r\nvoters:{count}\r\n")) {
            return info;
        }
        assert!(Instant::now() < limit, "never {count} voters: {info}");
    }
}

#[tokio::test]
async fn masters_may_ask_for_passwords() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    set_password(&masters[1], "one of them").await;
    set_password(&masters[2], "p/w").await;
    let with_password = format!("redis://:one%20of%20them@{}", masters[1].address());
    let with_user = format!("redis://default:p%2Fw@{}", masters[2].address());
    let flags = ["--master", &with_password, "--master", &with_user];
    let proxy = Proxy::in_front_of(&masters.addresses()[..1], &flags);
    let mut raw = proxy.raw().await;
    voters(&mut raw, 3).await;
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    for url in [with_password, with_user] {
        let mut direct = support::client::url_connection(&url).await;
        eventually("the claim arrives", || {
            let mut direct = direct.clone();
            async move { held(&mut direct, "lock").await }
        })
        .await;
        assert_eq!(held(&mut direct, "lock").await.as_deref(), Some("mine"));
    }
    assert!(!proxy.log().iter().any(|line| line.contains("one of them") || line.contains("p/w")));
}

#[tokio::test]
async fn a_master_that_refuses_the_password_is_told_once() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    // All masters must be present once.
    drop(Proxy::start(&masters, &[]));
    let mut observer = masters[2].connection().await;
    set_password(&masters[2], "right").await;
    let wrong = format!("redis://:hunter2@{}", masters[2].address());
    let proxy = Proxy::in_front_of(&masters.addresses()[..2], &["--master", &wrong]);
    proxy.expect_warnings();
    let mut raw = proxy.raw().await;
    let info = voters(&mut raw, 2).await;
    let down = info.lines().find(|line| line.contains(",state=down,")).expect("a master is down");
    assert!(down.contains(&masters[2].address()) && down.contains("reason=WRONGPASS"), "{down}");
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    assert_eq!(raw.ask(&words("DEL lock")).await, Reply::Int(1));

    let attempts = connections_received(&mut observer).await + 3;
    eventually("it is tried again and again", || {
        let mut observer = observer.clone();
        async move { (connections_received(&mut observer).await > attempts).then_some(()) }
    })
    .await;
    let warnings = proxy.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("the master is down: "), "{warnings:?}");
    assert!(warnings[0].contains(&masters[2].address()), "{warnings:?}");
    assert!(warnings[0].contains("WRONGPASS"), "{warnings:?}");
    assert!(!warnings[0].contains("hunter2"), "{warnings:?}");

    change_password(&mut observer, "hunter2").await;
    voters(&mut raw, 3).await;
}

async fn connections_received(observer: &mut redis::aio::MultiplexedConnection) -> u64 {
    let info = text(observer, &["INFO", "stats"]).await.expect("INFO stats");
    let count = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    count.expect("a count of connections").parse().expect("a number")
}

async fn change_password(observer: &mut redis::aio::MultiplexedConnection, password: &str) {
    let set = value(observer, &["CONFIG", "SET", "requirepass", password]).await;
    assert_eq!(set, Ok(Value::Okay));
}

#[tokio::test]
async fn clients_are_told_the_version_that_was_set() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--redis-version", "8.4.0"]);
    let mut raw = proxy.raw().await;
    for hello in [words("HELLO"), words("HELLO 3")] {
        assert_eq!(raw.ask(&hello).await.field("version"), Some(Reply::bulk("8.4.0")));
    }
    let server = info(&mut raw, "server").await;
    assert!(server.lines().any(|line| line == "redis_version:8.4.0"), "{server}");
}

/// One vote cast twice could grant a lock that a minority holds: such a list is not served.
#[tokio::test]
async fn one_instance_under_two_names_has_one_vote() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(2);
    let again = format!("localhost:{}", masters[0].port);
    let proxy = Proxy::unready(&[masters.addresses(), vec![again.clone()]].concat(), &[]);
    proxy.expect_warnings();
    let mut raw = proxy.raw().await;
    let why = format!("{again} is the same instance as {}", masters[0].address());
    eventually("clients and the log are told that two names are one instance", || async {
        let error = proxy.raw().await.ask(&words("SET lock mine NX PX 60000")).await;
        assert!(error.is_error("CLUSTERDOWN "), "{error:?}");
        error.text().contains(&why).then_some(())
    })
    .await;
    assert!(proxy.log().iter().any(|line| line.contains(" WARN ") && line.contains(&why)));
    assert!(raw.ask(&words("GET lock")).await.is_error("CLUSTERDOWN "));
}

#[tokio::test]
async fn databases_are_apart_on_the_masters_too() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (mut in_0, mut in_1) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(in_1.ask(&["SELECT", "1"]).await, Reply::ok());
    for (raw, token) in [(&mut in_0, "zero"), (&mut in_1, "one")] {
        let claim = ["SET", "lock", token, "NX", "PX", "60000"];
        assert_eq!(raw.ask(&claim).await, Reply::ok(), "{token}");
        assert_eq!(raw.ask(&claim).await, Reply::Nil, "{token}");
    }
    for master in masters.iter() {
        holds_in(master, 0, "lock", Some("zero")).await;
        holds_in(master, 1, "lock", Some("one")).await;
    }
    let release = ["EVAL", scripts::RELEASE, "1", "lock", "one"];
    assert_eq!(in_0.ask(&release).await, Reply::Int(0));
    assert_eq!(in_1.ask(&release).await, Reply::Int(1));
    for master in masters.iter() {
        holds_in(master, 1, "lock", None).await;
        holds_in(master, 0, "lock", Some("zero")).await;
    }
}

/// Returns the value that a master holds under a key, without its tag.
async fn held(master: &mut redis::aio::MultiplexedConnection, key: &str) -> Option<String> {
    let value: Option<Vec<u8>> =
        redis::cmd("GET").arg(key).query_async(master).await.expect("GET on a master");
    value.map(|value| String::from_utf8(support::state::token(&value).to_vec()).expect("text"))
}

async fn holds_in(master: &Master, db: u32, key: &str, expected: Option<&str>) {
    let url = format!("redis://{}/{db}", master.address());
    let connection = support::client::url_connection(&url).await;
    eventually(&format!("{key} in database {db} is {expected:?}"), || {
        let mut connection = connection.clone();
        async move { (held(&mut connection, key).await.as_deref() == expected).then_some(()) }
    })
    .await;
}

#[tokio::test]
async fn a_pipeline_may_switch_databases() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let mut pipeline = Vec::new();
    let mut expected = Vec::new();
    for round in 0..50 {
        for db in [3, 0, 15, 3] {
            pipeline.extend(encode(&["SELECT", &db.to_string()]));
            pipeline.extend(encode(&["SET", "lock", &format!("{db} in {round}")]));
            pipeline.extend(encode(&["GET", "lock"]));
            expected.extend([Reply::ok(), Reply::ok(), Reply::bulk(&format!("{db} in {round}"))]);
        }
    }
    raw.send(&pipeline).await;
    assert_eq!(raw.replies(expected.len()).await, expected);
    for master in masters.iter() {
        for db in [0, 3, 15] {
            holds_in(master, db, "lock", Some(&format!("{db} in 49"))).await;
        }
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_changes_nothing() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&["SELECT", "15"]).await, Reply::ok());
    let out_of_range = "ERR DB index is out of range";
    let no_integer = "ERR value is not an integer or out of range";
    for (index, error) in [
        ("16", out_of_range),
        ("-1", out_of_range),
        ("2147483647", out_of_range),
        ("one", no_integer),
        ("", no_integer),
        ("99999999999999999999", no_integer),
    ] {
        assert_eq!(raw.ask(&["SELECT", index]).await, Reply::Error(error.into()), "{index}");
    }
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    for master in masters.iter() {
        holds_in(master, 15, "lock", Some("mine")).await;
    }
}
