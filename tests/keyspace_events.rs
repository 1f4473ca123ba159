//! Keyspace notifications (`notify-keyspace-events`): the proxy publishes each change that was decided, once, with
//! Redis's names of events.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::side_by_side::lines;
use support::subscriber::Subscriber;
use support::{Master, Masters, Proxy, Raw, Reply, target_is_plain_redis, words};

const ALL: [&str; 4] = ["CONFIG", "SET", "notify-keyspace-events", "KEAn"];

/// Channel of a message after each command, so that a subscriber knows that nothing else will come.
const END: &str = "__keyspace-end";

async fn subscribed(address: &str) -> Subscriber {
    let mut client = Raw::connect(address).await;
    assert_eq!(client.ask(&ALL).await, Reply::ok());
    Subscriber::new(address, "2", &["PSUBSCRIBE", "__key*"]).await
}

/// Returns the events until now, as channel and message.
async fn events(client: &mut Raw, subscriber: &mut Subscriber) -> Vec<String> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let end = LAST.fetch_add(1, Ordering::Relaxed).to_string();
    assert!(matches!(client.ask(&["PUBLISH", END, &end]).await, Reply::Int(1..)));
    let mut events = Vec::new();
    loop {
        let message = subscriber.message().await;
        match message[2] == END {
            true if message[3] == end => return events,
            // Another subscriber has waited for it.
            true => {}
            false => events.push(format!("{} {}", message[2], message[3])),
        }
    }
}

/// Sends the commands to a plain Redis and to the proxy, and compares the events of each.
async fn compare(table: &str) {
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &["--allow-flush", "--vote-timeout", "3s"]);
    let addresses = [redis.address(), proxy.address().to_owned()];
    let mut seen = Vec::new();
    for address in &addresses {
        let mut subscriber = subscribed(address).await;
        let mut client = Raw::connect(address).await;
        // In a transaction, a client's own `PUBLISH` would be queued.
        let mut publisher = Raw::connect(address).await;
        let mut of_all = Vec::new();
        for line in lines(table) {
            let reply = client.ask(&words(&line)).await;
            let events = events(&mut publisher, &mut subscriber).await;
            of_all.push((line, reply, events));
        }
        seen.push(of_all);
    }
    let differ = seen[0].iter().zip(&seen[1]).filter(|(theirs, ours)| theirs.2 != ours.2);
    let differ: Vec<_> = differ
        .map(|(theirs, ours)| {
            format!(
                "{}\n  redis: {:?} {:?}\n  proxy: {:?} {:?}",
                theirs.0, theirs.1, theirs.2, ours.1, ours.2
            )
        })
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[tokio::test]
async fn strings_have_the_events_of_redis() {
    compare(
        r#"
        SET lock token NX PX 60000
        SET lock other NX PX 60000
        SETNX lock other
        DEL lock
        DEL lock
        SETNX lock other
        SET lock other NX
        UNLINK lock
        SET k v
        SET k v EX 100
        SET k v XX
        SET gone v XX
        SET k w GET
        SET k v KEEPTTL
        SET fresh v NX GET
        SET fresh v NX GET
        SETEX k 100 v
        PSETEX k2 100000 v
        GETSET k 1
        GETSET new 1
        MSET a 1 b 2
        MSET m 1 m 2
        MSETNX a 1 c 2
        MSETNX c 1 d 2
        APPEND k x
        APPEND app x
        SETRANGE k 2 y
        SETRANGE k 2 ""
        SETRANGE nothing 2 ""
        GETEX k
        GETEX k EX 100
        GETEX k PERSIST
        GETEX k PERSIST
        GETEX missing EX 100
        GETDEL k
        GETDEL k
        INCR n
        INCRBY n 5
        DECR n
        DECRBY n 2
        INCRBYFLOAT n 1.5
        INCR k2
        GET k2
        EXPIRE a 100
        PEXPIRE a 100000
        EXPIRE missing 100
        EXPIRE a 100 NX
        PEXPIREAT a 1
        EXPIRE b -1
        EXPIRE c 100
        PERSIST c
        PERSIST c
        RENAME c e
        RENAME e d
        RENAMENX d fresh
        RENAMENX d g
        RENAME g g
        COPY g h
        COPY g h
        COPY g h REPLACE
        COPY h q DB 3
        DEL g h h missing
        SETBIT bits 7 1
        SETBIT bits 7 1
        SETBIT bits 7 0
        BITFIELD bits SET u8 0 5
        BITFIELD bits GET u8 0
        BITFIELD bits INCRBY u8 0 0
        SET x abc
        SET y abd
        BITOP AND z x y
        BITOP AND z none none2
        PFADD hll a b
        PFADD hll a b
        PFMERGE hll2 hll
        PFCOUNT hll hll2
        SELECT 3
        SET k v
        DEL k
        "#,
    )
    .await;
}

#[tokio::test]
async fn collections_have_the_events_of_redis() {
    compare(
        r#"
        LPUSH l a b c
        RPUSH l d
        LPUSHX none a
        RPUSHX l e
        LINSERT l BEFORE a x
        LINSERT l BEFORE nobody x
        LSET l 0 y
        LREM l 1 y
        LREM l 1 nobody
        LTRIM l 0 2
        LTRIM none 0 2
        LPOP l
        RPOP l
        LMOVE l l2 LEFT RIGHT
        RPOPLPUSH l2 l3
        RPOPLPUSH l3 l3
        LMPOP 2 none l3 LEFT
        BLPOP none 0.01
        RPUSH l a
        BLPOP l 1
        RPUSH l a
        BRPOPLPUSH l l4 1
        BLMOVE l4 l LEFT LEFT 1
        RPUSH l c b
        SORT l ALPHA STORE sorted
        SORT none ALPHA STORE sorted
        LTRIM l 5 6
        SADD s a b c
        SADD s a
        SREM s a
        SREM s a
        SMOVE s s2 b
        SMOVE s s2 nobody
        SADD s b
        SMOVE s s2 b
        SMOVE s s2 c
        SPOP s2
        SPOP s2 9
        SADD s a b
        SADD t b
        SINTERSTORE u s t
        SUNIONSTORE u s t
        SDIFFSTORE u t s
        SDIFFSTORE none t s
        ZADD z 1 a 2 b
        ZADD z 1 a
        ZADD z 2 a
        ZADD z NX 5 a
        ZADD z INCR 1 a
        ZINCRBY z 1 a
        ZINCRBY z 0 a
        ZREM z a
        ZREM z a
        ZADD z 1 a 3 c 4 d 5 e
        ZREMRANGEBYRANK z 0 0
        ZREMRANGEBYSCORE z 2 2
        ZREMRANGEBYLEX z [d [d
        ZPOPMIN z
        ZPOPMAX z
        ZPOPMAX z
        ZADD z 1 a 3 c
        ZMPOP 1 z MIN
        BZPOPMAX z 1
        ZADD z 1 a 3 c
        ZUNIONSTORE y 2 z z
        ZINTERSTORE y 2 z z
        ZDIFFSTORE y 2 z z
        ZRANGESTORE y z 0 -1
        ZRANGESTORE y z 8 9
        GEOADD g 13.36 38.11 Palermo
        GEOADD g 13.36 38.11 Palermo
        GEOSEARCHSTORE near g FROMLONLAT 15 37 BYRADIUS 200 km
        GEORADIUS g 15 37 200 km STORE near
        HSET h f 1 g 2
        HSET h f 1
        HSETNX h f 1
        HSETNX h n 1
        HMSET h f 2
        HINCRBY h f 1
        HINCRBYFLOAT h f 1.5
        HDEL h f nobody
        HDEL h nobody
        HDEL h g n
        XADD x 1-1 a b
        XADD x MAXLEN 1 1-2 a b
        XADD none NOMKSTREAM 1-1 a b
        XTRIM x MAXLEN 0
        XTRIM x MAXLEN 0
        XADD x 1-3 a b
        XDEL x 1-3
        XDEL x 1-3
        XSETID x 2-0
        XGROUP CREATE x g $
        XGROUP CREATE x2 g $ MKSTREAM
        XGROUP SETID x g 0
        XGROUP CREATECONSUMER x g alice
        XGROUP CREATECONSUMER x g alice
        XADD x 3-1 a b
        XREADGROUP GROUP g bob COUNT 1 STREAMS x >
        XREADGROUP GROUP g bob COUNT 1 STREAMS x >
        XCLAIM x g carol 0 3-1
        XAUTOCLAIM x g dave 0 0
        XACK x g 3-1
        XGROUP DELCONSUMER x g alice
        XGROUP DELCONSUMER x g alice
        XGROUP DESTROY x g
        XGROUP DESTROY x g
        LPUSH x a
        INCR x
        "#,
    )
    .await;
}

#[tokio::test]
async fn scripts_and_transactions_have_the_events_of_redis() {
    compare(
        r#"
        EVAL "redis.call('set', KEYS[1], 1) redis.call('incr', KEYS[1]) return redis.pcall('lpush', KEYS[1], 1)" 1 k
        EVAL "redis.call('select', 2) return redis.call('set', KEYS[1], 1)" 1 k
        EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 k 2
        SET lock t NX PX 60000
        EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end" 1 lock t 70000
        EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock u
        EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock t
        EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock t
        EVAL "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])" 1 other t 60000
        EVAL "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])" 1 other t 60000
        EVAL "if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 1 elseif redis.call('get',KEYS[1]) == ARGV[1] then redis.call('pexpire',KEYS[1],ARGV[2]) return 1 else return 0 end" 1 third t 60000
        EVAL "if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 1 elseif redis.call('get',KEYS[1]) == ARGV[1] then redis.call('pexpire',KEYS[1],ARGV[2]) return 1 else return 0 end" 1 third t 60000
        EVAL "if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 1 elseif redis.call('get',KEYS[1]) == ARGV[1] then redis.call('pexpire',KEYS[1],ARGV[2]) return 1 else return 0 end" 1 third u 60000
        EXPIRE other 100
        DEL other
        EVAL "return redis.call('incr', 'un' .. 'declared')" 0
        EVAL "redis.call('set', KEYS[1], 1) error('no')" 1 failed
        MULTI
        SET a 1
        LPUSH a 1
        EVAL "return redis.call('del', KEYS[1])" 1 a
        RPUSH list x
        LPOP list
        EXEC
        MULTI
        SET b 1
        DISCARD
        SET watched 1
        WATCH watched
        SET watched 2
        MULTI
        SET b 1
        EXEC
        FLUSHDB
        "#,
    )
    .await;
}

#[tokio::test]
async fn the_setting_is_that_of_redis() {
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &[]);
    let (mut theirs, mut ours) = (Raw::connect(&redis.address()).await, proxy.raw().await);
    for classes in ["KEA", "KEAn", "g$lshzxetdKE", "Kxm", "KEq", "", "q"] {
        for request in [["SET", classes].as_slice(), &["GET"]] {
            let (command, rest) = request.split_first().expect("a word");
            let request = [&["CONFIG", command, "notify-keyspace-events"], rest].concat();
            assert_eq!(ours.ask(&request).await, theirs.ask(&request).await, "{request:?}");
        }
    }
}

#[tokio::test]
async fn only_the_chosen_classes_and_channels_are_told() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--notify-keyspace-events", "Kg"]);
    let mut client = proxy.raw().await;
    let mut subscriber = Subscriber::new(proxy.address(), "3", &["PSUBSCRIBE", "__key*"]).await;
    for (classes, expected) in [
        (None, vec!["__keyspace@0__:k del"]),
        (Some("E$"), vec!["__keyevent@0__:set k"]),
        (Some("KE"), vec![]),
        (Some("A"), vec![]),
        (Some(""), vec![]),
        (Some("Kng"), vec!["__keyspace@0__:k new", "__keyspace@0__:k del"]),
    ] {
        if let Some(classes) = classes {
            let request = ["CONFIG", "SET", "notify-keyspace-events", classes];
            assert_eq!(client.ask(&request).await, Reply::ok());
        }
        assert_eq!(client.ask(&words("SET k v")).await, Reply::ok());
        assert_eq!(client.ask(&words("DEL k")).await, Reply::Int(1));
        assert_eq!(events(&mut client, &mut subscriber).await, expected, "{classes:?}");
    }
}

/// Subscribers of all proxies hear of a change once, also with a master less. Nobody hears of a change that was not
/// decided.
#[tokio::test]
async fn each_subscriber_of_each_proxy_hears_of_a_decided_change_once() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    proxies.iter().for_each(Proxy::expect_warnings);
    let mut subscribers = Vec::new();
    for proxy in &proxies {
        subscribers.push(subscribed(proxy.address()).await);
    }
    let (mut one, mut other) = (proxies[0].raw().await, proxies[1].raw().await);
    for _ in 0..2 {
        assert_eq!(one.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
        assert_eq!(other.ask(&words("SET lock yours NX PX 60000")).await, Reply::Nil);
        assert_eq!(one.ask(&words("INCR n")).await, Reply::Int(1));
        assert_eq!(other.ask(&words("INCR n")).await, Reply::Int(2));
        assert_eq!(other.ask(&words("DEL lock n")).await, Reply::Int(2));
        let expected = [
            "new lock",
            "set lock",
            "expire lock",
            "new n",
            "incrby n",
            "incrby n",
            "del lock",
            "del n",
        ];
        // The two proxies publish over different connections.
        for subscriber in &mut subscribers {
            let heard = keyevents(&mut one, &mut other, subscriber).await;
            let (mut heard, mut expected) = (heard, expected.map(str::to_owned).to_vec());
            heard.sort();
            expected.sort();
            assert_eq!(heard, expected);
        }
        masters[0].kill_9();
    }
    masters[1].kill_9();
    assert!(matches!(one.ask(&words("SET lock mine NX PX 60000")).await, Reply::Error(_)));
    assert!(matches!(one.ask(&words("INCR n")).await, Reply::Error(_)));
    for subscriber in &mut subscribers {
        assert_eq!(keyevents(&mut one, &mut other, subscriber).await, [""; 0]);
    }
}

/// Returns event and key of each event until now, of either proxy.
async fn keyevents(one: &mut Raw, other: &mut Raw, subscriber: &mut Subscriber) -> Vec<String> {
    let first = events(one, subscriber).await;
    let all = [first, events(other, subscriber).await].concat();
    all.iter().filter_map(|it| it.strip_prefix("__keyevent@0__:")).map(str::to_owned).collect()
}

/// An expiry comes from the masters, which delete their copies by themselves: once, although each of them says so.
#[tokio::test]
async fn a_lock_that_runs_out_is_told_once_and_a_given_back_one_is_not() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    for master in masters.iter() {
        let mut client = Raw::connect(&master.address()).await;
        let request = ["CONFIG", "SET", "notify-keyspace-events", "KEA"];
        assert_eq!(client.ask(&request).await, Reply::ok());
    }
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut subscribers = Vec::new();
    for proxy in &proxies {
        subscribers.push(subscribed(proxy.address()).await);
    }
    let mut client = proxies[0].raw().await;
    let release = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
    for round in 0..2 {
        assert_eq!(client.ask(&words("SET back t NX PX 2000")).await, Reply::ok());
        assert_eq!(client.ask(&words("SET late t NX PX 2000")).await, Reply::ok());
        assert_eq!(client.ask(&words("SET late u NX PX 2000")).await, Reply::Nil);
        assert_eq!(client.ask(&["EVAL", release, "1", "back", "t"]).await, Reply::Int(1));
        for subscriber in &mut subscribers {
            let mut heard = Vec::new();
            while heard.iter().filter(|it: &&String| it.contains("expired")).count() < 2 {
                let message = subscriber.message().await;
                heard.push(format!("{} {}", message[2], message[3]));
            }
            let of_late =
                |it: &&String| it.ends_with(":late expired") || it.ends_with(":expired late");
            assert_eq!(heard.iter().filter(of_late).count(), 2, "{round} {heard:?}");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        for subscriber in &mut subscribers {
            assert_eq!(events(&mut client, subscriber).await, [""; 0], "each once");
        }
    }
    // Changes that an operator makes at a master are not for clients.
    let mut master = Raw::connect(&masters[0].address()).await;
    assert_eq!(master.ask(&words("SET own v PX 1")).await, Reply::ok());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(master.ask(&words("GET own")).await, Reply::Nil);
    for subscriber in &mut subscribers {
        assert_eq!(events(&mut client, subscriber).await, [""; 0]);
    }
}

#[tokio::test]
async fn a_pattern_hears_of_locks_from_the_masters_and_of_data_from_the_data_redis() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, data) = (Masters::start(3), Master::start());
    let url = format!("redis://{}", data.address());
    let proxy = Proxy::start(&masters, &["--data", &url, "--lock-keys", "lock:*"]);
    let mut client = proxy.raw().await;
    for target in [&mut client, &mut Raw::connect(&data.address()).await] {
        let request = ["CONFIG", "SET", "notify-keyspace-events", "E$g"];
        assert_eq!(target.ask(&request).await, Reply::ok());
    }
    let mut subscriber =
        Subscriber::new(proxy.address(), "3", &["PSUBSCRIBE", "__keyevent@0__:*"]).await;
    for command in ["SET lock:a t NX PX 60000", "SET page hello", "DEL page", "DEL lock:a"] {
        assert!(!client.ask(&words(command)).await.is_error(""), "{command}");
    }
    let mut heard = Vec::new();
    for _ in 0..5 {
        let message = subscriber.message().await;
        heard.push(format!("{} {}", message[2].trim_start_matches("__keyevent@0__:"), message[3]));
    }
    heard.sort();
    assert_eq!(heard, ["del lock:a", "del page", "expire lock:a", "set lock:a", "set page"]);
    subscriber.nothing_more().await;
}
