//! One address for locks and everything else: requests that are not about locks go to the data Redis, unchanged.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use support::users::Settings;
use support::{Master, Masters, OneAddress, Proxy, Raw, Reply, encode, eventually, words};

/// Returns the peak memory.
fn peak_kib(proxy: &Proxy) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", proxy.id()));
    let text = text.expect("a running process");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number of kB")
}

fn int(number: i64) -> Reply {
    Reply::Int(number)
}

#[tokio::test]
async fn a_key_is_where_its_name_belongs() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    assert_eq!(client.ask(&words("SET page hello")).await, Reply::ok());
    assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("hello"));
    assert_eq!(client.ask(&words("GET lock:a")).await, Reply::bulk("me"));
    assert!(!it.data.has("lock:a").await && it.data.has("page").await);
    assert_eq!((it.masters.having("lock:a").await, it.masters.having("page").await), (3, 0));
}

#[tokio::test]
async fn a_request_or_transaction_with_keys_of_both_kinds_is_refused() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    for line in ["DEL lock:a page", "RENAME page lock:a", "EVAL x 2 lock:a page"] {
        let Reply::Error(why) = client.ask(&words(line)).await else { panic!("{line}") };
        assert!(why.starts_with("CROSSSLOT 'lock:a' is a lock and 'page' is not"), "{why}");
    }
    for lines in [["SET lock:a 1", "SET page 1"], ["SET page 1", "SET lock:a 1"]] {
        assert_eq!(client.ask(&["MULTI"]).await, Reply::ok());
        assert_eq!(client.ask(&words(lines[0])).await, Reply::Simple("QUEUED".into()));
        assert!(client.ask(&words(lines[1])).await.is_error("CROSSSLOT"));
        assert!(client.ask(&["EXEC"]).await.is_error("EXECABORT"));
    }
    assert_eq!(client.ask(&words("EXISTS page")).await, int(0));
    assert_eq!(client.ask(&words("EXISTS lock:a")).await, int(0));
    assert_eq!(client.ask(&words("SET page 2")).await, Reply::ok(), "no transaction is left");
}

#[tokio::test]
async fn a_transaction_runs_where_its_first_key_is() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    for (key, on_data) in [("page", true), ("lock:a", false)] {
        assert_eq!(client.ask(&["MULTI"]).await, Reply::ok());
        assert_eq!(client.ask(&["PING"]).await, Reply::Simple("QUEUED".into()));
        assert_eq!(client.ask(&["SET", key, "1"]).await, Reply::Simple("QUEUED".into()));
        assert_eq!(client.ask(&["GET", key]).await, Reply::Simple("QUEUED".into()));
        let done = [Reply::Simple("PONG".into()), Reply::ok(), Reply::bulk("1")];
        assert_eq!(client.ask(&["EXEC"]).await, Reply::Array(done.into()));
        assert_eq!(it.data.has(key).await, on_data);
    }
}

#[tokio::test]
async fn a_watched_key_of_data_is_watched() {
    let it = OneAddress::start();
    let (mut client, mut other) = (it.proxy.raw().await, it.proxy.raw().await);
    for (is_disturbed, expected) in [(true, Reply::Nil), (false, Reply::Array(vec![Reply::ok()]))] {
        assert_eq!(client.ask(&words("WATCH page")).await, Reply::ok());
        assert!(client.ask(&words("WATCH lock:a")).await.is_error("CROSSSLOT"));
        if is_disturbed {
            assert_eq!(other.ask(&words("SET page theirs")).await, Reply::ok());
        }
        assert_eq!(client.ask(&["MULTI"]).await, Reply::ok());
        assert_eq!(client.ask(&words("SET page mine")).await, Reply::Simple("QUEUED".into()));
        assert_eq!(client.ask(&["EXEC"]).await, expected);
    }
}

#[tokio::test]
async fn replies_keep_their_order_whoever_makes_them() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    let mut requests = Vec::new();
    for round in 0..50 {
        let number = round.to_string();
        for line in ["SET lock:a me NX PX 60000", "INCR page", "PING", "GET lock:a", "DEL lock:a"] {
            requests.extend(encode(&words(line)));
        }
        requests.extend(encode(&["ECHO", &number]));
    }
    client.send(&requests).await;
    for round in 0..50 {
        let pong = Reply::Simple("PONG".into());
        let expected = [
            Reply::ok(),
            int(round + 1),
            pong,
            Reply::bulk("me"),
            int(1),
            Reply::bulk(&round.to_string()),
        ];
        assert_eq!(client.replies(6).await, expected, "round {round}");
    }
}

#[tokio::test]
async fn what_belongs_to_a_connection_is_brought_along() {
    let it = OneAddress::start();
    let mut client = Raw::connect_resp3(it.proxy.address()).await;
    assert_eq!(client.ask(&words("CLIENT SETNAME shop")).await, Reply::ok());
    assert_eq!(client.ask(&words("SELECT 3")).await, Reply::ok());
    assert_eq!(client.ask(&words("HSET h f v")).await, int(1));
    let Reply::Map(_) = client.ask(&words("HGETALL h")).await else { panic!("RESP3 has maps") };
    let clients = it.data.ask(&words("CLIENT LIST")).await.text();
    assert!(
        clients.lines().any(|line| line.contains(" name=shop ") && line.contains(" db=3 ")),
        "{clients}"
    );
    assert_eq!(client.ask(&words("SELECT 0")).await, Reply::ok());
    assert_eq!(client.ask(&words("EXISTS h")).await, int(0));
    assert_eq!(client.ask(&["RESET"]).await, Reply::Simple("RESET".into()));
    assert_eq!(client.ask(&words("EXISTS h")).await, int(0));
}

#[tokio::test]
async fn a_client_that_waits_at_the_data_redis_is_answered_and_forgotten_when_it_leaves() {
    let it = OneAddress::start();
    let (mut waits, mut leaves, mut pushes) =
        (it.proxy.raw().await, it.proxy.raw().await, it.proxy.raw().await);
    waits.send(&encode(&words("BLPOP jobs 0"))).await;
    leaves.send(&encode(&words("BLPOP left 0"))).await;
    let blocked = async |count: &str| {
        let expected = format!("blocked_clients:{count}");
        eventually("clients are blocked", || async {
            let info = it.data.ask(&words("INFO clients")).await.text();
            info.lines().any(|line| line == expected).then_some(())
        })
        .await;
    };
    blocked("2").await;
    drop(leaves);
    blocked("1").await;
    assert_eq!(pushes.ask(&words("RPUSH jobs one")).await, int(1));
    let expected = [Reply::bulk("jobs"), Reply::bulk("one")];
    assert_eq!(waits.reply().await, Reply::Array(expected.into()));
}

#[tokio::test]
async fn locks_go_on_without_the_data_redis() {
    let mut it = OneAddress::start();
    let (mut locker, mut both) = (it.proxy.raw().await, it.proxy.raw().await);
    assert_eq!(both.ask(&words("SET page 1")).await, Reply::ok());
    it.proxy.expect_warnings();
    it.data.kill_9();
    assert_eq!(locker.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    assert_eq!(both.ask(&words("GET lock:a")).await, Reply::bulk("me"), "it needs no data here");
    both.send(&encode(&words("GET page"))).await;
    assert!(both.until_closed().await.is_empty(), "as a Redis that is not there");
    assert_eq!(locker.ask(&words("DEL lock:a")).await, int(1));
    it.data.restart_empty();
    let mut again = it.proxy.raw().await;
    assert_eq!(again.ask(&words("EXISTS page")).await, int(0));
}

#[tokio::test]
async fn a_data_redis_that_was_restarted_is_used_again_by_clients_that_had_begun_nothing() {
    let mut it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    it.proxy.expect_warnings();
    it.data.kill_9();
    it.data.restart_empty();
    assert_eq!(client.ask(&words("EXISTS page")).await, int(0));
}

#[tokio::test]
async fn whoever_had_begun_something_notices_that_the_data_redis_has_gone() {
    let mut it = OneAddress::start();
    let mut clients = Vec::new();
    for lines in [&["WATCH page"][..], &["MULTI", "SET page 1"]] {
        let mut client = it.proxy.raw().await;
        for line in lines {
            client.ask(&words(line)).await;
        }
        clients.push(client);
    }
    it.proxy.expect_warnings();
    it.data.kill_9();
    for mut client in clients {
        assert!(client.until_closed().await.is_empty());
    }
}

#[tokio::test]
async fn unknown_commands_and_modules_are_the_data_redis_own_affair() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    let (ours, theirs) =
        (client.ask(&words("NONSENSE a b")).await, it.data.ask(&words("NONSENSE a b")).await);
    assert_eq!(ours, theirs);
    assert_eq!(client.ask(&words("SADD s a b c")).await, int(3));
    let Reply::Array(popped) = client.ask(&words("SPOP s 3")).await else {
        panic!("it is Redis's")
    };
    assert_eq!(popped.len(), 3);
    assert_eq!(client.ask(&words("DBSIZE")).await, int(0));
    assert!(
        client.ask(&words("HEXPIRE lock:a 1 FIELDS 1 f")).await.is_error("ERR unknown command")
    );
}

fn push(words: &[&str], count: i64) -> Reply {
    let mut items: Vec<_> = words.iter().map(|word| Reply::bulk(word)).collect();
    items.push(int(count));
    Reply::Array(items)
}

fn message(words: &[&str]) -> Reply {
    Reply::Array(words.iter().map(|word| Reply::bulk(word)).collect())
}

#[tokio::test]
async fn one_client_hears_channels_of_locks_and_of_data() {
    let it = OneAddress::start();
    let (mut client, mut other) = (it.proxy.raw().await, it.proxy.raw().await);
    client.send(&encode(&words("SUBSCRIBE news free:a sport gone:{lock:b}"))).await;
    for (count, channel) in (1..).zip(["news", "free:a", "sport", "gone:{lock:b}"]) {
        assert_eq!(client.reply().await, push(&["subscribe", channel], count));
    }
    client.send(&encode(&words("PSUBSCRIBE n*"))).await;
    assert_eq!(client.reply().await, push(&["psubscribe", "n*"], 5));
    for (channel, on_data) in [("free:a", 0), ("gone:{lock:b}", 0), ("news", 1)] {
        let heard = it.data.ask(&["PUBSUB", "NUMSUB", channel]).await;
        assert_eq!(heard, Reply::Array(vec![Reply::bulk(channel), int(on_data)]));
    }
    for (channel, receivers) in [("free:a", 1), ("news", 2), ("gone:{lock:b}", 1), ("sport", 1)] {
        assert_eq!(other.ask(&["PUBLISH", channel, "hello"]).await, int(receivers));
        assert_eq!(client.reply().await, message(&["message", channel, "hello"]));
        if channel == "news" {
            assert_eq!(client.reply().await, message(&["pmessage", "n*", "news", "hello"]));
        }
    }
    assert!(client.ask(&words("GET page")).await.is_error("ERR Can't execute 'get'"));
    client.send(&encode(&words("UNSUBSCRIBE"))).await;
    let mut left = Vec::new();
    for count in [4, 3, 2, 1] {
        let Reply::Array(items) = client.reply().await else { panic!("a confirmation") };
        assert_eq!((&items[0], &items[2]), (&Reply::bulk("unsubscribe"), &int(count)));
        left.push(items[1].text());
    }
    left.sort();
    assert_eq!(left, ["free:a", "gone:{lock:b}", "news", "sport"]);
    client.send(&encode(&words("PUNSUBSCRIBE n*"))).await;
    assert_eq!(client.reply().await, push(&["punsubscribe", "n*"], 0));
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok(), "it may send anything again");
    assert_eq!(other.ask(&words("PUBLISH news again")).await, int(0));
}

#[tokio::test]
async fn a_subscriber_in_resp3_goes_on_with_everything() {
    let it = OneAddress::start();
    let (mut client, mut other) = (it.proxy.raw().await, it.proxy.raw().await);
    client.ask(&words("HELLO 3")).await;
    client.send(&encode(&words("SUBSCRIBE news"))).await;
    assert_eq!(client.reply().await, push(&["subscribe", "news"], 1));
    for round in 0..20 {
        let text = round.to_string();
        client.send(&encode(&["SET", "page", &text])).await;
        assert_eq!(client.reply().await, Reply::ok());
        assert_eq!(other.ask(&["PUBLISH", "news", &text]).await, int(1));
        assert_eq!(client.reply().await, message(&["message", "news", &text]));
        assert_eq!(client.ask(&["GET", "page"]).await, Reply::bulk(&text));
        assert_eq!(client.ask(&words("SET lock:a me PX 60000")).await, Reply::ok());
    }
}

#[tokio::test]
async fn client_side_caches_are_told_what_has_changed() {
    let it = OneAddress::start();
    let (mut client, mut other) = (it.proxy.raw().await, it.proxy.raw().await);
    client.ask(&words("HELLO 3")).await;
    assert_eq!(client.ask(&words("CLIENT TRACKING ON")).await, Reply::ok());
    assert_eq!(client.ask(&words("GET page")).await, Reply::Nil);
    assert_eq!(other.ask(&words("SET page 1")).await, Reply::ok());
    let invalidate = |keys| Reply::Array(vec![Reply::bulk("invalidate"), keys]);
    assert_eq!(client.reply().await, invalidate(message(&["page"])));
    // The data Redis does not see when locks change.
    assert_eq!(client.ask(&words("GET lock:a")).await, Reply::Nil);
    assert_eq!(client.reply().await, invalidate(message(&["lock:a"])));
    assert_eq!(client.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    for queued in ["MULTI", "GET lock:a"] {
        assert!(matches!(client.ask(&words(queued)).await, Reply::Simple(_)));
    }
    let read = Reply::Array(vec![Reply::bulk("me")]);
    assert_eq!(client.ask(&words("EXEC")).await, read);
    assert_eq!(client.reply().await, invalidate(Reply::Nil));
    assert_eq!(client.ask(&words("CLIENT TRACKING OFF")).await, Reply::ok());
    for request in ["GET lock:a", "GET lock:a"] {
        assert_eq!(client.ask(&words(request)).await, Reply::bulk("me"));
    }
}

#[tokio::test]
async fn monitor_shows_requests_for_locks_and_for_data_once() {
    let it = OneAddress::start();
    let (mut client, mut other) = (it.proxy.raw().await, it.proxy.raw().await);
    assert_eq!(client.ask(&words("MONITOR")).await, Reply::ok());
    assert_eq!(other.ask(&words("SET page 1")).await, Reply::ok());
    assert_eq!(other.ask(&words("SET lock:a me PX 60000")).await, Reply::ok());
    assert_eq!(other.ask(&words("SET page 2")).await, Reply::ok());
    assert_eq!(it.data.ask(&words("SET other 3")).await, Reply::ok());
    let mut shown = Vec::new();
    while shown.len() < 4 {
        let line = client.reply().await.text();
        if line.contains("\"SET\"") {
            shown.push(line);
        }
    }
    shown.sort_by_key(|line| line.split("\"SET\"").nth(1).map(str::to_owned));
    for (line, words) in shown.iter().zip(["lock:a", "other", "page", "page"]) {
        assert!(line.contains(words), "{shown:?}");
    }
}

#[tokio::test]
async fn monitor_shows_what_both_are_told_once_and_nothing_that_the_proxy_asks() {
    let it = OneAddress::start();
    let (mut client, mut other) = (it.proxy.raw().await, it.proxy.raw().await);
    assert_eq!(client.ask(&words("MONITOR")).await, Reply::ok());
    other.ask(&["SCRIPT", "LOAD", "return 1"]).await;
    for line in ["SUBSCRIBE news", "UNSUBSCRIBE news", "SUBSCRIBE free:a", "SUBSCRIBE free:b sport"]
    {
        other.send(&encode(&words(line))).await;
        for _ in 0..line.split(' ').count() - 1 {
            other.reply().await;
        }
    }
    // New connections send this command, and so does the proxy's own connection to the data Redis.
    let asked = it.data.calls("exists").await;
    eventually("the proxy has asked", || async {
        (it.data.calls("exists").await > asked).then_some(())
    })
    .await;
    assert_eq!(it.data.ask(&words("SET end 1")).await, Reply::ok());
    let mut shown = Vec::new();
    loop {
        let line = client.reply().await.text().to_lowercase();
        if line.contains("\"end\"") {
            break;
        }
        shown.push(line);
    }
    assert!(!shown.iter().any(|line| line.contains("redlock-proxy")), "{shown:#?}");
    for (words, times) in [
        ("\"script\" \"load\"", 1),
        ("\"subscribe\" \"news\"", 1),
        ("\"unsubscribe\" \"news\"", 1),
        ("\"subscribe\" \"free:a\"", 1),
        ("\"subscribe\" \"free:b\" \"sport\"", 1),
        ("\"subscribe\" \"sport\"", 1),
    ] {
        let count = shown
            .iter()
            .filter(|line| {
                line.ends_with(&format!("] {words}"))
                    || words.starts_with("\"script") && line.contains(words)
            })
            .count();
        assert_eq!(count, times, "{words}: {shown:#?}");
    }
}

#[tokio::test]
async fn a_value_of_many_megabytes_passes_through_in_both_directions() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    let value: Vec<u8> = (0..30_000_000u32).map(|at| at as u8).collect();
    let before = peak_kib(&it.proxy);
    for round in 0..3 {
        let key = format!("page {round}");
        let request = [b"SET", key.as_bytes(), &value].map(<[u8]>::to_vec);
        let mut requests = encode(&request);
        requests.extend(encode(&words("SET lock:a me PX 60000")));
        requests.extend(encode(&["STRLEN", &key]));
        client.send(&requests).await;
        assert_eq!(client.reply().await, Reply::ok());
        assert_eq!(client.reply().await, Reply::ok());
        assert_eq!(client.reply().await, int(value.len() as i64));
        assert_eq!(client.ask(&["GET", &key]).await, Reply::Bulk(value.clone()));
    }
    let grown = peak_kib(&it.proxy).saturating_sub(before);
    assert!(grown < 4096, "the proxy keeps none of it, and grew by {grown} KiB");
}

#[tokio::test]
async fn a_long_request_is_passed_on_where_its_keys_come_first() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    let mut push: Vec<Vec<u8>> = vec![b"RPUSH".into(), b"list".into()];
    push.extend((0..300_000).map(|at| at.to_string().into_bytes()));
    assert_eq!(client.ask(&push).await, int(300_000));
    assert_eq!(client.ask(&words("MULTI")).await, Reply::ok());
    assert_eq!(client.ask(&push).await, Reply::Simple("QUEUED".into()));
    assert_eq!(client.ask(&words("EXEC")).await, Reply::Array(vec![int(600_000)]));
}

#[tokio::test]
async fn a_long_request_of_which_the_keys_are_not_known_in_time_has_a_limit() {
    let it = OneAddress::start();
    for line in [&["SET", "lock:a"][..], &["MSET", "page"], &["SET", "redlock-proxy:mark"]] {
        let mut client = it.proxy.raw().await;
        let mut request: Vec<Vec<u8>> = line.iter().map(|word| word.as_bytes().into()).collect();
        request.push(vec![b'v'; 2 << 20]);
        client.send_regardless(&encode(&request)).await;
        let error = client.reply().await;
        assert!(error.is_error("ERR Protocol error: request larger"), "{line:?}: {error:?}");
    }
    assert_eq!(it.data.ask(&["DBSIZE"]).await, int(0));
}

#[tokio::test]
async fn half_a_request_is_not_finished_by_somebody_else() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    client.send(b"*3\r\n$3\r\nSET\r\n$4\r\npage\r\n$1000000\r\n").await;
    client.send(&vec![b'v'; 500_000]).await;
    drop(client);
    let mut other = it.proxy.raw().await;
    assert_eq!(other.ask(&words("EXISTS page")).await, int(0));
    eventually("the half has gone", || async {
        // This query, the proxy's own connection, the other client and a spare connection.
        (it.clients_of_data(&[]).await.len() <= 4).then_some(())
    })
    .await;
    assert_eq!(other.ask(&words("EXISTS page")).await, int(0));
}

#[tokio::test]
async fn a_redis_with_the_mark_of_a_master_is_refused_as_data() {
    let it = OneAddress::start();
    it.proxy.expect_warnings();
    let mut early = it.proxy.raw().await;
    assert_eq!(early.ask(&words("SET page 1")).await, Reply::ok());
    it.data.ask(&words("SET redlock-proxy:mark 1")).await;
    it.proxy.tells(&["the data Redis is unavailable", "it has the mark of a master"]).await;
    for _ in 0..3 {
        let mut client = it.proxy.raw().await;
        client.send(&encode(&words("SET page 2"))).await;
        assert!(client.until_closed().await.is_empty());
    }
    assert_eq!(it.data.ask(&words("GET page")).await, Reply::bulk("1"));
    let mut locker = it.proxy.raw().await;
    assert_eq!(locker.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
}

#[tokio::test]
async fn it_is_told_whether_the_data_redis_is_there() {
    let mut it = OneAddress::start();
    let told = async |proxy: &Proxy, state: &str| {
        let expected = format!("state={state},");
        eventually("INFO redlock tells it", || async {
            let info = proxy.raw().await.ask(&words("INFO redlock")).await.text();
            let line = info.lines().find(|line| line.starts_with("data:")).map(str::to_owned);
            line.filter(|line| line.contains(&expected))
        })
        .await
    };
    told(&it.proxy, "up").await;
    it.proxy.expect_warnings();
    it.data.kill_9();
    let line = told(&it.proxy, "down").await;
    assert!(line.contains("reason=") && !line.ends_with("reason="), "{line}");
    it.proxy.tells(&["WARN", "the data Redis is unavailable, locks still work"]).await;
    it.data.restart_empty();
    told(&it.proxy, "up").await;
    it.proxy.tells(&["INFO", "the data Redis is up"]).await;
}

#[tokio::test]
async fn a_script_is_loaded_for_locks_and_for_data() {
    let mut it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    let text = "return redis.call('INCR', KEYS[1])";
    let sha = client.ask(&["SCRIPT", "LOAD", text]).await.text();
    assert_eq!(client.ask(&["EVALSHA", &sha, "1", "page"]).await, int(1));
    assert_eq!(client.ask(&["EVALSHA", &sha, "1", "lock:a"]).await, int(1));
    assert!(it.data.has("page").await && !it.data.has("lock:a").await);
    it.proxy.expect_warnings();
    it.data.kill_9();
    let mut locker = it.proxy.raw().await;
    let other = "return redis.call('INCRBY', KEYS[1], 2)";
    let sha = locker.ask(&["SCRIPT", "LOAD", other]).await.text();
    assert_eq!(locker.ask(&["EVALSHA", &sha, "1", "lock:b"]).await, int(2));
}

#[tokio::test]
async fn a_script_that_a_transaction_loads_runs_on_data_as_well() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    let loads = [
        ("PING", "return redis.call('INCR', KEYS[1])"),
        ("GET lock:a", "return redis.call('DECR', KEYS[1])"),
    ];
    for (before, text) in loads {
        client.ask(&words("MULTI")).await;
        client.ask(&words(before)).await;
        client.ask(&["SCRIPT", "LOAD", text]).await;
        let Reply::Array(answers) = client.ask(&words("EXEC")).await else { panic!("{before}") };
        let answer = client.ask(&["EVALSHA", &answers[1].text(), "1", before]).await;
        assert!(matches!(answer, Reply::Int(1 | -1)), "{before}: {answer:?}");
        assert!(it.data.has(before).await);
    }
    client.ask(&words("MULTI")).await;
    let text = "return redis.call('EXISTS', KEYS[1])";
    client.ask(&["SCRIPT", "LOAD", text]).await;
    client.ask(&words("DISCARD")).await;
    let sha = redis::Script::new(text).get_hash().to_owned();
    assert!(client.ask(&["EVALSHA", &sha, "1", "page"]).await.is_error("NOSCRIPT"));
}

#[tokio::test]
async fn exec_with_too_many_words_discards_a_transaction_of_data() {
    let it = OneAddress::start();
    for address in [it.proxy.address(), &it.data.address()] {
        let mut client = Raw::connect(address).await;
        for line in ["MULTI", "SET page 1"] {
            client.ask(&words(line)).await;
        }
        let refused = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
        assert_eq!(client.ask(&words("EXEC now")).await, Reply::Error(refused.into()), "{address}");
        assert!(client.ask(&words("EXEC")).await.is_error("ERR EXEC without MULTI"), "{address}");
        for line in ["MULTI", "SET page 1", "DISCARD now"] {
            client.ask(&words(line)).await;
        }
        assert!(
            client
                .ask(&words("EXEC"))
                .await
                .is_error("EXECABORT Transaction discarded because of prev")
        );
        assert_eq!(client.ask(&words("EXISTS page")).await, int(0), "{address}");
        // The same with a subscriber, and after a rejected command.
        for line in ["HELLO 3", "PSUBSCRIBE news*", "MULTI", "GET page", "GET"] {
            client.ask(&words(line)).await;
        }
        assert_eq!(client.ask(&words("EXEC now")).await, Reply::Error(refused.into()), "{address}");
        assert!(client.ask(&words("EXEC")).await.is_error("ERR EXEC without MULTI"), "{address}");
    }
}

#[tokio::test]
async fn what_changes_the_client_is_refused_in_a_transaction_of_data() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    for change in ["SETNAME me", "NO-EVICT on", "NO-TOUCH on", "REPLY OFF"] {
        let change = words(&format!("CLIENT {change}"));
        client.ask(&words("MULTI")).await;
        client.ask(&words("SET page 1")).await;
        assert!(client.ask(&change).await.is_error("ERR"), "{change:?}");
        assert!(client.ask(&words("EXEC")).await.is_error("EXECABORT"));
        // The same if the key comes afterwards.
        client.ask(&words("MULTI")).await;
        client.ask(&change).await;
        assert!(client.ask(&words("SET page 1")).await.is_error("ERR"), "{change:?}");
        assert!(client.ask(&words("EXEC")).await.is_error("EXECABORT"));
    }
    assert_eq!(client.ask(&words("CLIENT GETNAME")).await, Reply::Nil);
    assert!(!it.data.has("page").await);
}

#[tokio::test]
async fn what_names_no_key_is_about_the_data() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    assert_eq!(client.ask(&words("DBSIZE")).await, int(1));
    assert_eq!(client.ask(&words("KEYS *")).await, message(&["page"]));
    assert_eq!(client.ask(&words("WAIT 0 10")).await, int(0));
    let ours = client.ask(&words("INFO data server")).await.text();
    let run_id = |info: &str| info.lines().find(|it| it.starts_with("run_id:")).map(str::to_owned);
    let theirs = it.data.ask(&words("INFO server")).await.text();
    assert_eq!(run_id(&ours), run_id(&theirs));
    assert!(client.ask(&words("INFO")).await.text().contains("redlock"), "the proxy's own");
    let mut listener = it.proxy.raw().await;
    listener.send(&encode(&words("SUBSCRIBE news free:a"))).await;
    for _ in 0..2 {
        listener.reply().await;
    }
    assert_eq!(client.ask(&words("PUBSUB CHANNELS")).await, message(&["news"]));
    let count = |channel: &str| Reply::Array(vec![Reply::bulk(channel), int(1)]);
    for channel in ["news", "free:a"] {
        assert_eq!(client.ask(&["PUBSUB", "NUMSUB", channel]).await, count(channel));
    }
    assert_eq!(client.ask(&words("FLUSHALL")).await, Reply::ok());
    assert_eq!(client.ask(&words("EXISTS page")).await, int(0));
    assert_eq!(client.ask(&words("EXISTS lock:a")).await, int(1), "locks are never flushed");
}

#[tokio::test]
async fn a_password_of_the_proxy_is_no_trouble_to_a_data_redis_without_one() {
    let it = OneAddress::start_with(&["--requirepass", "pw"]);
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("AUTH pw")).await, Reply::ok());
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
}

#[tokio::test]
async fn a_limited_user_is_himself_at_the_data_redis_or_nobody() {
    let users =
        ["app on >pw ~lock:* ~app:* &* +@all -@admin -@dangerous", "anybody on nopass ~* &* +get"];
    let settings = Settings::with(&users, "");
    let it = OneAddress::start_with(&settings.flags());
    let mut app = it.proxy.raw().await;
    assert_eq!(app.ask(&words("AUTH app pw")).await, Reply::ok());
    let unknown = app.ask(&words("SET app:page 1")).await;
    assert!(unknown.is_error("WRONGPASS"), "the data Redis does not know it: {unknown:?}");
    assert_eq!(app.ask(&words("SET lock:b me NX PX 60000")).await, Reply::ok(), "locks go on");
    it.data.ask(&words("ACL SETUSER app on >pw ~app:* +@all")).await;
    let mut app = it.proxy.raw().await;
    assert_eq!(app.ask(&words("AUTH app pw")).await, Reply::ok());
    assert_eq!(app.ask(&words("SET app:page 1")).await, Reply::ok());
    for line in ["MODULE LIST", "CONFIG GET maxmemory", "SHUTDOWN", "NONSENSE app:a"] {
        let denied = app.ask(&words(line)).await;
        assert!(denied.is_error("NOPERM") || denied.is_error("ERR"), "{line}: {denied:?}");
    }
    assert!(app.ask(&words("SET page 1")).await.is_error("NOPERM"));
    let script = "return redis.call('SET', 'page', 'by a script')";
    assert!(!matches!(app.ask(&["EVAL", script, "0"]).await, Reply::Simple(_)));
    assert_eq!(it.data.ask(&words("EXISTS page")).await, int(0));
    let mut anybody = it.proxy.raw().await;
    assert_eq!(anybody.ask(&words("AUTH anybody any")).await, Reply::ok());
    assert_eq!(anybody.ask(&words("GET lock:a")).await, Reply::Nil);
}

#[tokio::test]
async fn a_transaction_in_which_a_command_was_refused_runs_nowhere() {
    let users = ["app on >pw ~lock:* ~page &* +@all"];
    let settings = Settings::with(&users, "");
    let it = OneAddress::start_with(&settings.flags());
    it.data.ask(&words("ACL SETUSER app on >pw ~* +@all")).await;
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("AUTH app pw")).await, Reply::ok());
    for lines in [
        &["MULTI", "GET other", "SET page 1", "EXEC"][..],
        &["MULTI", "SET page 1", "GET other", "EXEC"],
        &["MULTI", "SET page 1", "SUBSCRIBE news", "EXEC"],
        &["MULTI", "SUBSCRIBE news", "SET page 1", "EXEC"],
        &["MULTI", "SELECT 1", "SET page 1", "AUTH app pw", "EXEC"],
        &["MULTI", "AUTH app pw", "SET page 1", "EXEC"],
        &["MULTI", "SET page 1", "EXEC x"],
    ] {
        let mut last = Reply::Nil;
        for line in lines {
            last = client.ask(&words(line)).await;
        }
        assert!(last.is_error("EXECABORT"), "{lines:?}: {last:?}");
        assert_eq!(client.ask(&words("EXISTS page")).await, int(0), "{lines:?}");
    }
}

#[tokio::test]
async fn a_database_that_a_transaction_of_data_selects_is_selected_for_locks_too() {
    let it = OneAddress::start();
    for lines in [["MULTI", "SELECT 3", "SET page 1"], ["MULTI", "SET page 1", "SELECT 3"]] {
        let mut client = it.proxy.raw().await;
        let mut requests = Vec::new();
        for line in lines.into_iter().chain(["EXEC", "SET lock:a me NX PX 60000"]) {
            requests.extend(encode(&words(line)));
        }
        client.send(&requests).await;
        for _ in 0..3 {
            client.reply().await;
        }
        let done = client.reply().await;
        assert_eq!(done, Reply::Array(vec![Reply::ok(), Reply::ok()]), "{lines:?}");
        assert_eq!(client.reply().await, Reply::ok());
        assert_eq!(client.ask(&words("SET here 1")).await, Reply::ok());
        let mut direct = Raw::connect(&it.data.address()).await;
        direct.ask(&words("SELECT 3")).await;
        assert_eq!(direct.ask(&words("DEL here")).await, int(1), "{lines:?}");
        assert_eq!(client.ask(&words("SELECT 0")).await, Reply::ok());
        assert!(client.ask(&words("EXISTS lock:a here")).await.is_error("CROSSSLOT"));
        assert_eq!(client.ask(&words("EXISTS lock:a")).await, int(0));
        assert_eq!(client.ask(&words("SELECT 3")).await, Reply::ok());
        assert_eq!(client.ask(&words("DEL lock:a")).await, int(1));
    }
    let mut client = it.proxy.raw().await;
    for line in ["WATCH page", "MULTI", "SELECT 5"] {
        client.ask(&words(line)).await;
    }
    it.data.ask(&words("SET page changed")).await;
    assert_eq!(client.ask(&words("EXEC")).await, Reply::Nil);
    assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("changed"), "still in 0");
}

#[tokio::test]
async fn a_limited_user_is_not_at_the_data_redis_whom_the_url_names() {
    let (masters, data) = (Masters::start(3), Master::start());
    data.ask(&words("ACL SETUSER boss on >secret ~* &* +@all")).await;
    data.ask(&words("ACL SETUSER app on >pw ~app:* +@all")).await;
    data.ask(&words("ACL SETUSER default off")).await;
    let settings = Settings::with(&["app on >pw ~* &* +@all -@admin"], "");
    let url = format!("redis://boss:secret@{}", data.address());
    let own = ["--data", &url, "--lock-keys", "lock:*"];
    let proxy = Proxy::start(&masters, &[&own, &settings.flags()[..]].concat());
    let mut free = proxy.raw().await;
    assert_eq!(free.ask(&words("ACL WHOAMI")).await, Reply::bulk("default"));
    assert_eq!(free.ask(&words("SET page 1")).await, Reply::ok(), "as the boss");
    let mut app = proxy.raw().await;
    assert_eq!(app.ask(&words("AUTH app pw")).await, Reply::ok());
    assert!(app.ask(&words("GET page")).await.is_error("NOPERM"), "the data Redis says so");
    assert_eq!(app.ask(&words("SET app:a 1")).await, Reply::ok());
    let script = "return redis.call('GET', 'page')";
    assert!(!matches!(app.ask(&["EVAL", script, "0"]).await, Reply::Bulk(_)));
}

/// On the data Redis, the ID that the client knows is another client's, which received the invalidations instead.
#[tokio::test]
async fn invalidations_are_not_redirected_to_a_stranger() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    let Reply::Int(id) = client.ask(&words("CLIENT ID")).await else { panic!("a number") };
    let id = id.to_string();
    let refused = client.ask(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id]).await;
    assert!(refused.is_error("ERR CLIENT TRACKING with REDIRECT is not supported"), "{refused:?}");
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
}
