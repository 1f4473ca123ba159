//! Short requests of many clients share one connection to the data Redis, and no client notices.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use support::users::Settings;
use support::{Master, OneAddress, Proxy, Raw, Relay, Reply, encode, eventually, words};

/// Returns the last command on each client connection to the data Redis.
async fn connections(data: &Master) -> Vec<String> {
    let listed = data.ask(&words("CLIENT LIST TYPE normal")).await.text();
    let last = |line: &str| {
        let word = line.split(' ').find_map(|field| field.strip_prefix("cmd="));
        word.unwrap_or_default().to_owned()
    };
    // This query's connection, and the proxy's own connection to the data Redis.
    let others = ["client|list", "exists", "hello", "NULL", "client|setinfo"];
    listed.lines().map(last).filter(|cmd| !others.contains(&cmd.as_str())).collect()
}

async fn clients(proxy: &Proxy, count: usize) -> Vec<Raw> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(proxy.raw().await);
    }
    clients
}

/// Starts a proxy with a data Redis behind a relay.
fn behind_relay() -> (OneAddress, Relay) {
    let data = Master::start();
    let relay = Relay::to(&data);
    let url = format!("redis://{}", relay.address());
    (OneAddress::start_at(&url, data, &[]), relay)
}

#[tokio::test]
async fn short_requests_of_many_clients_take_one_connection() {
    let it = OneAddress::start();
    let mut all = clients(&it.proxy, 30).await;
    for (index, client) in all.iter_mut().enumerate() {
        let key = format!("key:{index}");
        assert_eq!(client.ask(&["SET", &key, "value"]).await, Reply::ok());
        assert_eq!(client.ask(&["GET", &key]).await, Reply::bulk("value"));
    }
    assert_eq!(connections(&it.data).await, ["get"]);
    for client in &mut all[..3] {
        client.ask(&words("LRANGE list 0 -1")).await;
        client.ask(&words("GET key:1")).await;
    }
    assert_eq!(connections(&it.data).await.len(), 4, "the others' and three of their own");
}

/// Each client knows what it has written, in sizes around the limit for replies over the shared connection.
#[tokio::test]
async fn every_client_gets_its_own_replies() {
    let it = OneAddress::start();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..24_usize {
        // A client that sends long requests has its own connection.
        let (mut client, mut writer) = (it.proxy.raw().await, it.proxy.raw().await);
        tasks.spawn(async move {
            for round in 0..60_usize {
                let key = format!("of:{number}:{}", round % 3);
                let lengths = [1, 20, 3_000, 15_000, 70_000, 200_000];
                let length = lengths[(number / 4 + round) % if number % 4 == 0 { 6 } else { 4 }];
                let text = format!("{number}-{round}-");
                let value = text.repeat(1 + length / text.len());
                let by = if value.len() > 10_000 { &mut writer } else { &mut client };
                assert_eq!(by.ask(&["SET", &key, &value]).await, Reply::ok());
                assert_eq!(client.ask(&["GET", &key]).await.text(), value);
                assert_eq!(client.ask(&["STRLEN", &key]).await, Reply::Int(value.len() as i64));
                assert!(client.ask(&["LPUSH", &key, "x"]).await.is_error("WRONGTYPE"));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("every reply was the client's own");
    }
}

#[tokio::test]
async fn a_long_reply_to_a_client_that_does_not_read_holds_nobody_up() {
    let it = OneAddress::start();
    let large = "x".repeat(30_000_000);
    assert_eq!(it.data.ask(&["SET", "large", &large]).await, Reply::ok());
    let mut slow = clients(&it.proxy, 3).await;
    for client in &mut slow {
        client.send(&encode(&words("GET large"))).await;
    }
    let mut other = it.proxy.raw().await;
    for _ in 0..100 {
        assert_eq!(other.ask(&words("SET page 1")).await, Reply::ok());
    }
    for client in &mut slow {
        assert_eq!(client.reply().await, Reply::bulk(&large));
        assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("1"));
    }
}

#[tokio::test]
async fn a_client_that_waits_at_the_data_redis_holds_nobody_up() {
    let it = OneAddress::start();
    let mut waiting = it.proxy.raw().await;
    assert_eq!(waiting.ask(&words("SET before 1")).await, Reply::ok());
    waiting.send(&encode(&words("BLPOP queue 0"))).await;
    let mut other = it.proxy.raw().await;
    assert_eq!(other.ask(&words("GET before")).await, Reply::bulk("1"));
    assert_eq!(other.ask(&words("RPUSH queue job")).await, Reply::Int(1));
    assert_eq!(waiting.reply().await, Reply::Array(vec![Reply::bulk("queue"), Reply::bulk("job")]));
}

#[tokio::test]
async fn what_a_client_watches_is_touched_by_its_own_short_requests() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    for (line, expected) in [
        ("SET page 1", Reply::ok()),
        ("WATCH page", Reply::ok()),
        ("SET page 2", Reply::ok()),
        ("MULTI", Reply::ok()),
        ("INCR page", Reply::Simple("QUEUED".to_owned())),
        ("EXEC", Reply::Nil),
        ("GET page", Reply::bulk("2")),
    ] {
        assert_eq!(client.ask(&words(line)).await, expected, "{line}");
    }
}

#[tokio::test]
async fn requests_that_come_together_keep_their_order() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("INCR count")).await, Reply::Int(1));
    let mut bytes = Vec::new();
    let (mut expected, mut length) = (Vec::new(), 0);
    for number in 2..300_i64 {
        bytes.extend(encode(&words("INCR count")));
        expected.push(Reply::Int(number));
        if number % 7 == 0 {
            bytes.extend(encode(&words("RPUSH list x")));
            length += 1;
            expected.push(Reply::Int(length));
            bytes.extend(encode(&words("LINDEX list -1")));
            expected.push(Reply::bulk("x"));
            bytes.extend(encode(&words("SET lock:a me PX 60000")));
            expected.push(Reply::ok());
        }
    }
    client.send(&bytes).await;
    assert_eq!(client.replies(expected.len()).await, expected);
}

/// The client's own connection is ready before the answer arrives over the shared one.
#[tokio::test]
async fn a_connection_of_its_own_does_not_overtake_the_shared_one() {
    let (it, relay) = behind_relay();
    it.proxy.expect_warnings();
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    relay.hold_back_answers_to("count");
    let lines = ["INCR count", "LINDEX list -1"];
    client.send(&lines.map(|line| encode(&words(line))).concat()).await;
    let mut other = it.proxy.raw().await;
    for _ in 0..100 {
        assert_eq!(other.ask(&words("LINDEX list -1")).await, Reply::Nil);
    }
    relay.heal();
    assert_eq!(client.replies(2).await, [Reply::Int(1), Reply::Nil]);
}

#[tokio::test]
async fn databases_and_protocols_do_not_mix() {
    let it = OneAddress::start();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let address = it.proxy.address().to_owned();
        tasks.spawn(async move {
            let is_resp3 = number % 2 == 0;
            let mut client = if is_resp3 {
                Raw::connect_resp3(&address).await
            } else {
                Raw::connect(&address).await
            };
            let db = (number / 2) % 4;
            for round in 0..40 {
                assert_eq!(client.ask(&words(&format!("SELECT {db}"))).await, Reply::ok());
                let key = format!("of:{number}");
                assert_eq!(client.ask(&["SET", &key, &format!("{round}")]).await, Reply::ok());
                assert_eq!(client.ask(&words("SELECT 9")).await, Reply::ok());
                // The key does not exist.
                let nothing = if is_resp3 { "_\r\n" } else { "$-1\r\n" };
                client.send(&encode(&["GET", &key])).await;
                assert_eq!(client.frame().await.1, nothing.as_bytes());
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("every client is in its own database");
    }
    for db in 0..4 {
        assert_eq!(it.data.key_count_in(db).await, 4);
    }
}

#[tokio::test]
async fn when_the_shared_connection_is_lost_reads_are_asked_again_and_nothing_else() {
    eventually("a read is asked again", || async { is_asked_again().await.then_some(()) }).await;
}

/// Returns whether a read was answered. The proxy may retry it over a spare connection that is lost in the same
/// moment, which closes that client.
async fn is_asked_again() -> bool {
    let (it, relay) = behind_relay();
    it.proxy.expect_warnings();
    let [mut writer, mut reader, mut idle] =
        [it.proxy.raw().await, it.proxy.raw().await, it.proxy.raw().await];
    for client in [&mut writer, &mut reader, &mut idle] {
        assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    }
    relay.withhold_answers();
    writer.send(&encode(&words("INCR page"))).await;
    it.data.holds("page", "2").await;
    reader.send(&encode(&words("GET page"))).await;
    eventually("both have reached the data Redis", || async {
        (it.data.calls("get").await >= 2).then_some(())
    })
    .await;
    relay.reset();
    assert!(writer.until_closed().await.is_empty(), "nobody knows whether it was executed");
    relay.heal();
    let answered = reader.frame_or_end().await;
    assert!(answered.as_ref().is_none_or(|(reply, _)| *reply == Reply::bulk("2")), "{answered:?}");
    assert_eq!(idle.ask(&words("GET page")).await, Reply::bulk("2"));
    assert_eq!(it.data.get("page").await.as_deref(), Some(&b"2"[..]), "once");
    answered.is_some()
}

#[tokio::test]
async fn unwanted_replies_stay_away() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    client.send(&encode(&words("CLIENT REPLY SKIP"))).await;
    client.send(&encode(&words("INCR count"))).await;
    assert_eq!(client.ask(&words("INCR count")).await, Reply::Int(2));
    client.send(&encode(&words("CLIENT REPLY OFF"))).await;
    client.send(&encode(&words("INCR count"))).await;
    it.data.holds("count", "3").await;
    assert_eq!(client.ask(&words("CLIENT REPLY ON")).await, Reply::ok());
    assert_eq!(client.ask(&words("GET count")).await, Reply::bulk("3"));
}

/// An answer of a busy data Redis to one client is not passed to another.
#[tokio::test]
async fn a_busy_data_redis_refuses_each_short_request() {
    let it = OneAddress::start();
    let [mut busy, mut client] = [it.proxy.raw().await, it.proxy.raw().await];
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    it.data.ask(&words("CONFIG SET busy-reply-threshold 1")).await;
    busy.send(&encode(&["EVAL", "while true do end", "1", "page"])).await;
    let refused = eventually("it is busy", || async {
        let reply = it.proxy.raw().await.ask(&words("PING")).await;
        let answer = it.data.ask(&words("GET page")).await;
        (reply == Reply::Simple("PONG".to_owned()) && answer.is_error("BUSY")).then_some(answer)
    })
    .await;
    assert_eq!(client.ask(&words("SET page 2")).await, refused);
    assert_eq!(it.data.ask(&words("SCRIPT KILL")).await, Reply::ok());
    assert!(busy.reply().await.is_error("ERR"));
    assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("1"));
}

/// `WAIT` refers to writes on its own connection, and the client does not have one yet.
#[tokio::test]
async fn wait_counts_the_replicas_that_have_what_short_requests_wrote() {
    let it = OneAddress::start();
    let replica = Master::start();
    let (host, port) = it
        .data
        .address()
        .split_once(':')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("host:port");
    assert_eq!(replica.ask(&["REPLICAOF", &host, &port]).await, Reply::ok());
    eventually("it follows", || async {
        let told = replica.ask(&words("INFO replication")).await.text();
        told.contains("master_link_status:up").then_some(())
    })
    .await;
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    assert_eq!(client.ask(&words("WAIT 1 60000")).await, Reply::Int(1));
    let mut client = it.proxy.raw().await;
    replica.stop();
    assert_eq!(client.ask(&words("SET page 2")).await, Reply::ok());
    assert_eq!(client.ask(&words("WAIT 1 100")).await, Reply::Int(0));
    replica.cont();
    assert_eq!(client.ask(&words("WAIT 1 60000")).await, Reply::Int(1));
}

#[tokio::test]
async fn a_user_with_a_login_of_its_own_shares_with_nobody() {
    let data = Master::start();
    for rule in ["app on >pw ~* &* +@all", "other on >pw ~page &* +@all"] {
        let setuser = format!("ACL SETUSER {rule}");
        assert_eq!(data.ask(&words(&setuser)).await, Reply::ok());
    }
    let users = ["app on >pw ~* &* +@all", "other on >pw ~* &* +@all"];
    let settings = Settings::with(&users, "");
    let url = format!("redis://{}", data.address());
    let it = OneAddress::start_at(&url, data, &settings.flags());
    let [mut app, mut other] = [it.proxy.raw().await, it.proxy.raw().await];
    assert_eq!(app.ask(&words("AUTH app pw")).await, Reply::ok());
    assert_eq!(other.ask(&words("AUTH other pw")).await, Reply::ok());
    assert_eq!(app.ask(&words("SET secret 1")).await, Reply::ok());
    assert!(other.ask(&words("GET secret")).await.is_error("NOPERM"));
    assert_eq!(app.ask(&words("GET secret")).await, Reply::bulk("1"));
    assert_eq!(connections(&it.data).await.len(), 2);
}

/// Short requests may come in any order and number; one Redis gives the same answers.
#[tokio::test]
async fn short_requests_are_answered_as_by_one_redis() {
    let (it, one) = (OneAddress::start(), Master::start());
    let mut client = it.proxy.raw().await;
    let mut direct = Raw::connect(&one.address()).await;
    for line in SHORT.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = words(line);
        assert_eq!(client.ask(&line).await, direct.ask(&line).await, "{line:?}");
    }
    assert_eq!(connections(&it.data).await.len(), 1, "they were all short");
}

const SHORT: &str = "
    SET a 1
    SET a 2 NX
    SET a 3 XX
    APPEND a 4
    STRLEN a
    INCR a
    DECR a
    INCRBY a 5
    DECRBY a 5
    INCRBYFLOAT a 0.5
    GETBIT a 1
    EXPIRE a 100
    PERSIST a
    PEXPIRE a 100000
    EXPIREAT a 99999999999
    PEXPIREAT a 99999999999000
    TYPE a
    MSET x 1 y 2
    MGET x y z
    EXISTS x y z
    DEL x
    UNLINK y
    SETNX n 1
    SETNX n 1
    SETEX e 100 v
    PSETEX e 100000 v
    PTTL none
    TTL none
    LPUSH l 1 2
    RPUSH l 3
    LPUSHX none 1
    RPUSHX l 4
    LLEN l
    HSET h f 1 g 2
    HSETNX h f 1
    HMSET h k 1
    HGET h f
    HMGET h f none
    HEXISTS h f
    HINCRBY h f 2
    HINCRBYFLOAT h f 0.5
    HLEN h
    HSTRLEN h f
    HDEL h f
    SADD s 1 2
    SCARD s
    SISMEMBER s 1
    SMISMEMBER s 1 3
    SREM s 1
    ZADD z 1 a 2 b
    ZADD z INCR 1 a
    ZADD z NX INCR 1 a
    ZCARD z
    ZSCORE z a
    ZMSCORE z a none
    ZRANK z a
    ZREVRANK z none
    ZCOUNT z -inf +inf
    ZREM z a
    PFADD p 1
    XLEN none
    PUBLISH nobody hello
    GET s
    INCR l
    SET a b c d
    HSET h odd
    GET
    EXPIRE a soon
    SET a v EX 0
    PSETEX a -1 v
";
