//! Advice from the traffic about `--lock-keys` and `--lock-channels`: in the log, in the metrics and on the status
//! page.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use support::http::http;
use support::{Master, Masters, Proxy, Raw, Reply, encode, eventually, scripts, words};

/// Three masters, a data Redis and a proxy with an admin port. The proxy warns, as every test here expects.
struct OneAddress {
    /// Dropped first, so it never misses a master.
    proxy: Proxy,
    admin: String,
    _masters: Masters,
    data: Master,
}

impl OneAddress {
    fn start(flags: &[&str]) -> Self {
        Self::start_as(Proxy::start, flags)
    }

    /// Starts a proxy that has received nothing yet, not even a readiness check.
    fn untouched(flags: &[&str]) -> Self {
        Self::start_as(|masters, flags| Proxy::unready(&masters.addresses(), flags), flags)
    }

    fn start_as(start: impl Fn(&Masters, &[&str]) -> Proxy, flags: &[&str]) -> Self {
        let (masters, data) = (Masters::start(3), Master::start());
        let url = format!("redis://{}", data.address());
        let own = ["--data", &url, "--admin", "127.0.0.1:0", "--workers", "2"];
        let proxy = start(&masters, &[&own, flags].concat());
        proxy.expect_warnings();
        let admin = proxy.admin_address();
        Self { proxy, admin, _masters: masters, data }
    }

    /// Returns the status page's advice about the patterns.
    fn advice(&self) -> Vec<String> {
        let status = http(&self.admin, "GET", "/status.json", "").body;
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let lines = status["data"]["advice"].as_array().expect("a list of sentences").iter();
        lines.map(|line| line.as_str().expect("a sentence").to_owned()).collect()
    }

    fn metric(&self, name: &str) -> u64 {
        let page = http(&self.admin, "GET", "/metrics", "").body;
        let value = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        let value: f64 =
            value.unwrap_or_else(|| panic!("no {name} in {page}")).parse().expect("a number");
        value as u64
    }

    /// Returns the number of log lines that contain all of these parts.
    fn warned(&self, parts: &[&str]) -> usize {
        let says = |line: &&String| parts.iter().all(|part| line.contains(part));
        self.proxy.warnings().iter().filter(says).count()
    }

    /// Waits until the log reports these keys, which have a pattern of their own. Everything noted before them has
    /// been logged by then.
    async fn tells_of_last(&self, client: &mut Raw) {
        assert_eq!(client.ask(&words("SETNX the.last one")).await, Reply::Int(1));
        self.proxy.tells(&["WARN", "keys like `the.last` are used as locks"]).await;
    }
}

#[tokio::test]
async fn keys_that_are_used_as_locks_on_the_data_redis_are_told_once_for_each_pattern() {
    let it = OneAddress::start(&["--lock-keys", "lock:*"]);
    let (mut client, mut other) = (it.proxy.raw().await, it.proxy.raw().await);
    for number in 0..20 {
        let claim = format!("SET job:{number} me NX PX 60000");
        assert_eq!(client.ask(&words(&claim)).await, Reply::ok());
        let key = format!("order:{number}:mutex");
        assert_eq!(other.ask(&["SETNX", &key, "me"]).await, Reply::Int(1));
    }
    let job = "keys like `job:*` are used as locks (SET NX with a TTL), on one Redis only: name them with --lock-keys, if \
               they are locks";
    it.proxy.tells(&["WARN", job]).await;
    it.tells_of_last(&mut client).await;
    assert_eq!(it.warned(&["`job:*`"]), 1);
    assert_eq!(it.warned(&["`order:*:mutex`", "(SETNX)"]), 1);
    assert_eq!(it.proxy.warnings().len(), 3, "{:#?}", it.proxy.warnings());
    assert_eq!(it.metric("redlock_unguarded_patterns"), 3);
    assert_eq!(it.metric("redlock_unguarded_claims_total"), 41);
    assert_eq!(it.advice()[0], job);
    assert_eq!(it.advice().len(), 3);
    // The pattern is listed once, however many claims follow.
    assert_eq!(client.ask(&words("SET job:1 me NX PX 60000")).await, Reply::Nil);
    assert_eq!(it.metric("redlock_unguarded_claims_total"), 42);
    assert_eq!(it.advice().len(), 3);
    assert!(it.data.has("job:1").await, "it is only told");
}

#[tokio::test]
async fn locks_on_the_masters_and_plain_data_are_no_matter() {
    let it = OneAddress::start(&["--lock-keys", "lock:*"]);
    let mut client = it.proxy.raw().await;
    for line in [
        "SET lock:a me NX PX 60000",
        "SETNX redisson:{lock:b} me",
        "SET page hello",
        "SET page hello PX 60000",
        "SET page nx",
        "GET page",
        "INCR hits",
        "EXPIRE hits 60",
        "SET page hello XX",
        "EVAL return(redis.call('incr',KEYS[1])) 1 hits",
    ] {
        let reply = client.ask(&words(line)).await;
        assert!(!reply.is_error(""), "{line}: {reply:?}");
    }
    // A request that the proxy rejects changes nothing anywhere.
    assert!(client.ask(&["SETNX", "refused:1"]).await.is_error("ERR wrong number"));
    assert!(client.ask(&words("EVAL x 2 lock:a refused:2")).await.is_error("CROSSSLOT"));
    it.tells_of_last(&mut client).await;
    assert_eq!(it.proxy.warnings().len(), 1, "{:#?}", it.proxy.warnings());
    assert_eq!(it.metric("redlock_unguarded_claims_total"), 1);
    assert_eq!(it.metric("redlock_unmatched_patterns"), 0);
}

#[tokio::test]
async fn claims_that_wait_for_their_turn_count_once() {
    let it = OneAddress::start(&["--lock-keys", "lock:*"]);
    let mut client = it.proxy.raw().await;
    let mut requests = Vec::new();
    for number in 0..50 {
        requests.extend(encode(&["SETNX", &format!("job:{number}"), "me"]));
        requests.extend(encode(&["GET", "lock:a"]));
        requests.extend(encode(&["SETNX", "redlock-proxy:mark", "me"]));
    }
    client.send(&requests).await;
    for _ in 0..50 {
        assert_eq!(client.replies(2).await, [Reply::Int(1), Reply::Nil]);
        assert!(client.reply().await.is_error("ERR names that begin with"));
    }
    assert_eq!(it.metric("redlock_unguarded_claims_total"), 50);
}

#[tokio::test]
async fn scripts_and_transactions_of_locks_are_seen() {
    let it = OneAddress::start(&["--lock-keys", "lock:*"]);
    let mut client = it.proxy.raw().await;
    let release = ["EVAL", scripts::RELEASE, "1", "by-script", "me"];
    assert_eq!(client.ask(&release).await, Reply::Int(0));
    // The script's text never passed through this proxy.
    let redisson = "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
                    redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
                    return redis.call('pttl', KEYS[1]);";
    let sha = client.ask(&["SCRIPT", "LOAD", redisson]).await.text();
    let claim = ["EVALSHA", &sha, "1", "myLock", "30000", "client:1"];
    assert_eq!(client.ask(&claim).await, Reply::Nil);
    assert!(it.data.has("myLock").await);
    for (line, reply) in [
        ("MULTI", Reply::ok()),
        ("SET in-transaction me NX", Reply::Simple("QUEUED".into())),
        ("EXEC", Reply::Array(vec![Reply::ok()])),
    ] {
        assert_eq!(client.ask(&words(line)).await, reply);
    }
    it.tells_of_last(&mut client).await;
    for (pattern, sign) in [
        ("`by-script`", "script that releases"),
        ("`myLock`", "script that looks like a lock's"),
        ("`in-transaction`", "SET NX without a TTL"),
    ] {
        assert_eq!(it.warned(&[pattern, sign]), 1, "{pattern}: {:#?}", it.proxy.warnings());
    }
}

#[tokio::test]
async fn names_that_have_nothing_in_common_fill_neither_the_log_nor_the_page() {
    let it = OneAddress::start(&["--lock-keys", "lock:*"]);
    let word = |number: u8| char::from(b'a' + number);
    let mut claims = Vec::new();
    for number in 0..200_u8 {
        let key = format!("{}{}", word(number / 26), word(number % 26));
        claims.extend(encode(&["SETNX", &key, "me"]));
    }
    // The proxy samples some claims in each second.
    let more = "more keys are used as locks, on one Redis only: see all of them";
    eventually("it says that there are more", || async {
        let mut client = it.proxy.raw().await;
        client.send(&claims).await;
        client.replies(200).await;
        (it.warned(&[more]) == 1).then_some(())
    })
    .await;
    // The page shows more than the log, and it also has the last line.
    eventually("the page is full", || async {
        let mut client = it.proxy.raw().await;
        client.send(&claims).await;
        client.replies(200).await;
        (it.advice().len() == 65).then_some(())
    })
    .await;
    assert_eq!(it.metric("redlock_unguarded_patterns"), 64);
    assert_eq!(it.proxy.warnings().len(), 17, "{:#?}", it.proxy.warnings());
}

#[tokio::test]
async fn names_without_a_word_are_told_by_an_example() {
    let it = OneAddress::start(&["--lock-keys", "lock:*"]);
    let mut client = it.proxy.raw().await;
    for key in ["4711", "4712", "12:34"] {
        assert_eq!(client.ask(&["SETNX", key, "me"]).await, Reply::Int(1));
    }
    it.proxy.tells(&["WARN", "keys such as `4711` are used as locks (SETNX)"]).await;
    it.tells_of_last(&mut client).await;
    assert_eq!(it.proxy.warnings().len(), 2, "{:#?}", it.proxy.warnings());
}

/// Repeats the requests until the log has such a line: each second with a request counts.
async fn claims_until(it: &OneAddress, lines: &[&str], parts: &[&str]) {
    eventually(&format!("the log tells {parts:?}"), || async {
        let mut client = it.proxy.raw().await;
        for line in lines {
            let reply = client.ask(&words(line)).await;
            assert!(!reply.is_error(""), "{line}: {reply:?}");
        }
        (it.warned(parts) > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pattern_that_matches_nothing_is_told_once_until_it_does() {
    let patterns = ["--lock-keys", "lock:*,lokc:*,lock:special:*", "--lock-channels", "free:*"];
    let it = OneAddress::start(&[&patterns[..], &["--warn-unmatched-after", "2s"]].concat());
    let requests = ["SET lock:a me NX PX 60000", "GET page"];
    claims_until(&it, &requests, &["WARN", "no channel has matched `free:*` of --lock-channels"])
        .await;
    let misspelled = "no key has matched `lokc:*` of --lock-keys during 2s of traffic: correct it, if such locks should \
                      have been taken by now";
    it.proxy.tells(&["WARN", misspelled]).await;
    it.proxy.tells(&["WARN", "`lock:special:*`"]).await;
    assert_eq!(it.metric("redlock_unmatched_patterns"), 3);
    assert_eq!(it.advice()[0], misspelled);

    // Another pattern matches the key, too.
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET lock:special:1 me NX PX 60000")).await, Reply::ok());
    assert_eq!(client.ask(&words("PUBLISH free:a 1")).await, Reply::Int(0));
    assert_eq!(it.metric("redlock_unmatched_patterns"), 1);
    assert_eq!(it.advice(), [misspelled]);
    assert_eq!(client.ask(&words("GET lokc:1")).await, Reply::Nil);
    assert_eq!(it.metric("redlock_unmatched_patterns"), 0);
    it.tells_of_last(&mut client).await;
    assert_eq!(it.proxy.warnings().len(), 4, "{:#?}", it.proxy.warnings());
}

#[tokio::test]
async fn a_pattern_of_everything_matches_and_leaves_nothing_to_tell() {
    let it = OneAddress::start(&["--lock-keys", "*", "--warn-unmatched-after", "1s"]);
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET job:1 me NX PX 60000")).await, Reply::ok());
    assert_eq!((it.advice(), it.metric("redlock_unguarded_claims_total")), (Vec::new(), 0));
    assert_eq!(it.metric("redlock_unmatched_patterns"), 0);
}

/// The third proxy shows when the first two would have warned.
#[tokio::test]
async fn neither_silence_nor_a_probe_is_traffic_and_no_time_is_never() {
    let after = |time: &'static str| {
        OneAddress::untouched(&["--lock-keys", "lokc:*", "--warn-unmatched-after", time])
    };
    let (silent, never, told) = (after("1s"), after("0s"), after("3s"));
    eventually("three seconds of traffic are over", || async {
        let mut probe = silent.proxy.raw().await;
        for line in ["PING", "INFO server", "CLIENT ID"] {
            assert!(!probe.ask(&words(line)).await.is_error(""));
        }
        for it in [&never, &told] {
            assert_eq!(it.proxy.raw().await.ask(&words("GET page")).await, Reply::Nil);
        }
        (told.warned(&["`lokc:*`"]) == 1).then_some(())
    })
    .await;
    for it in [silent, never] {
        assert_eq!((it.advice(), it.warned(&["lokc"])), (Vec::new(), 0));
        assert_eq!(it.metric("redlock_unmatched_patterns"), 0);
    }
}
