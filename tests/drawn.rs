//! Random draws: clients draw only from what a quorum holds, and each popped element goes to one client.

mod support;

use std::collections::HashSet;

use support::{Masters, Proxy, Raw, Reply, connection, target_is_plain_redis, words};

const MEMBERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn ask(client: &mut Raw, line: &str) -> Reply {
    let reply = client.ask(&words(line)).await;
    assert!(!reply.is_error(""), "{line}: {reply:?}");
    reply
}

/// Returns the texts of a reply of any type.
fn texts(reply: Reply) -> Vec<String> {
    match reply {
        Reply::Array(items) => items.into_iter().flat_map(texts).collect(),
        Reply::Nil => Vec::new(),
        other => vec![other.text()],
    }
}

#[tokio::test]
async fn all_elements_are_drawn_in_the_end() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    ask(&mut client, "SADD s a b c d e f").await;
    ask(&mut client, "HSET h a a b b c c d d e e f f").await;
    ask(&mut client, "ZADD z 1 a 1 b 1 c 1 d 1 e 1 f").await;
    for line in [
        "SRANDMEMBER s",
        "SRANDMEMBER s 2",
        "SRANDMEMBER s -2",
        "HRANDFIELD h",
        "HRANDFIELD h 2",
        "HRANDFIELD h -2 WITHVALUES",
        "ZRANDMEMBER z",
        "ZRANDMEMBER z -2",
    ] {
        let mut drawn = HashSet::new();
        while drawn.len() < MEMBERS.len() {
            drawn.extend(texts(ask(&mut client, line).await));
            assert!(drawn.iter().all(|it| MEMBERS.contains(&&**it)), "{line}: {drawn:?}");
        }
    }
    let without_repeats = texts(ask(&mut client, "SRANDMEMBER s 6").await);
    assert_eq!(without_repeats.iter().collect::<HashSet<_>>().len(), 6, "{without_repeats:?}");
    let scores = texts(ask(&mut client, "ZRANDMEMBER z 6 WITHSCORES").await);
    assert_eq!(scores.iter().filter(|it| *it == "1").count(), 6, "{scores:?}");
}

/// Masters would be busy with nothing else for minutes.
#[tokio::test]
async fn nobody_draws_without_an_end() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    ask(&mut client, "SADD s a").await;
    let error = "ERR more than 1048576 elements with repeats are not supported";
    for line in ["SRANDMEMBER s -1048577", "HRANDFIELD h -9000000000", "ZRANDMEMBER z -1048577"] {
        assert!(client.ask(&words(line)).await.is_error(error), "{line}");
    }
    assert_eq!(texts(ask(&mut client, "SRANDMEMBER s -1000").await).len(), 1000);
}

#[tokio::test]
async fn every_key_is_drawn_in_the_end_and_no_other() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    assert_eq!(ask(&mut client, "RANDOMKEY").await, Reply::Nil);
    for line in
        ["SET lock token NX PX 100000", "RPUSH list 1", "SET text 1", "SET gone 1", "DEL gone"]
    {
        ask(&mut client, line).await;
    }
    if !target_is_plain_redis() {
        // No majority has this key.
        masters[0].ask(&["SET", "stray", "1"]).await;
    }
    let mut drawn = HashSet::new();
    for _ in 0..200 {
        drawn.extend(texts(ask(&mut client, "RANDOMKEY").await));
    }
    assert_eq!(drawn, HashSet::from(["lock", "list", "text"].map(str::to_owned)));
    // Many stamps of deleted keys neither count as keys nor hide one.
    for line in ["DEL lock", "DEL list", "DEL text"] {
        ask(&mut client, line).await;
    }
    let names: Vec<String> = (0..400).map(|at| format!("gone:{at}")).collect();
    for name in &names {
        client.ask(&["SET", name, "1"]).await;
    }
    for name in &names {
        client.ask(&["DEL", name]).await;
    }
    assert_eq!(ask(&mut client, "RANDOMKEY").await, Reply::Nil);
    ask(&mut client, "SET only 1").await;
    assert_eq!(ask(&mut client, "RANDOMKEY").await, Reply::bulk("only"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_element_is_popped_once() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut client = proxies[0].raw().await;
    let members: Vec<String> = (0..240).map(|at| format!("member:{at}")).collect();
    ask(&mut client, &format!("SADD s {}", members.join(" "))).await;
    let mut poppers = tokio::task::JoinSet::new();
    for id in 0..6 {
        let address = proxies[id % 2].address().to_owned();
        poppers.spawn(async move {
            let mut connection = connection(&address).await;
            let mut popped: Vec<String> = Vec::new();
            loop {
                let mut request = redis::cmd("SPOP");
                request.arg("s").arg(1 + id % 3);
                let some: Vec<String> =
                    request.query_async(&mut connection).await.expect("no error");
                if some.is_empty() {
                    return popped;
                }
                popped.extend(some);
            }
        });
    }
    let mut popped = poppers.join_all().await.concat();
    popped.sort();
    let mut expected = members;
    expected.sort();
    assert_eq!(popped, expected);
}

/// One master holds the earlier value, under its old stamp.
#[tokio::test]
async fn nothing_is_drawn_from_a_master_that_is_behind() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    let behind = &masters[1];
    let stamp = "redlock-proxy:s:s";
    let restore = "redis.call('del', KEYS[1], KEYS[2]) redis.call('set', KEYS[2], ARGV[2]) \
                   return redis.call('restore', KEYS[1], 0, ARGV[1])";
    for turn in 0..40 {
        ask(&mut client, "SADD s old").await;
        let (value, said) = (behind.ask(&["DUMP", "s"]).await, behind.ask(&["GET", stamp]).await);
        let (Reply::Bulk(value), Reply::Bulk(said)) = (value, said) else { panic!("it is there") };
        ask(&mut client, "SADD s new").await;
        ask(&mut client, "SREM s old").await;
        let words: [&[u8]; 7] =
            [b"EVAL", restore.as_bytes(), b"2", b"s", stamp.as_bytes(), &value, &said];
        assert_eq!(behind.ask(&words).await, Reply::ok());
        for line in ["SRANDMEMBER s", "SRANDMEMBER s 5", "SRANDMEMBER s -5"] {
            let drawn = texts(ask(&mut client, line).await);
            assert!(drawn.iter().all(|it| it == "new"), "{line}, turn {turn}: {drawn:?}");
        }
    }
}

/// Drawing without popping leaves no trace.
#[tokio::test]
async fn who_only_draws_writes_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut client = proxies[0].raw().await;
    ask(&mut client, "SADD s a b c").await;
    let before = stamps(&masters).await;
    let mut reader = proxies[1].raw().await;
    for line in ["SRANDMEMBER s", "SRANDMEMBER s 2", "RANDOMKEY"] {
        ask(&mut reader, line).await;
    }
    assert_eq!(stamps(&masters).await, before);
}

/// Returns the masters' stamps once all are the same.
async fn stamps(masters: &Masters) -> Vec<Reply> {
    support::eventually("all have the same stamp", || async {
        let mut stamps = Vec::new();
        for master in masters.iter() {
            stamps.push(master.ask(&["GET", "redlock-proxy:s:s"]).await);
        }
        stamps.windows(2).all(|two| two[0] == two[1]).then_some(stamps)
    })
    .await
}
