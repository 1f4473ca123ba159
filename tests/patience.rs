//! A hiccup is no outage: while all masters pause together for a moment, clients wait as they would for one Redis. A
//! silent minority delays nobody, and a majority that stays silent leads to an error eventually.
//!
//! Unless stated otherwise, proxies use the default vote timeout here.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use support::scripts::{EXTEND, RELEASE, TAKE_OR_EXTEND};
use support::{Master, Masters, Proxy, Reply, eventually, target_is_plain_redis, value};

const FLAGS: [&str; 2] = ["--vote-timeout", "50ms"];
const TEN_MINUTES: &str = "600000";
/// A fork, a starved processor, a lost packet.
const HICCUP: Duration = Duration::from_millis(150);
/// Outlasts every repetition of a round without agreement.
const LONG_HICCUP: Duration = Duration::from_millis(600);
/// Rounds in which this machine itself paused for longer than this prove nothing.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum time to wait for masters.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Far more than a healthy machine needs, far less than waiting in vain would take.
const LIMIT: Duration = Duration::from_secs(20);
/// A script that no library sends.
const PUSH: &str = "redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('LLEN', KEYS[1])";
/// The same, with a TTL of some milliseconds.
const PUSH_FOR: &str = "redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('PEXPIRE', KEYS[1], ARGV[2]) \
                        return redis.call('LLEN', KEYS[1])";

/// Every request in these 150 ms used to fail with CLUSTERDOWN, where one Redis would only have been late.
#[tokio::test]
async fn while_all_masters_pause_for_a_moment_answers_are_late_and_no_errors() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &FLAGS);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    let mut quiet_rounds = 0;
    for round in 0..5 {
        let commands = commands(round);
        prepare(&mut client, round).await;
        masters.iter().for_each(Master::stop);
        let since = Instant::now();
        let asking = join_all(commands.iter().map(|(words, _)| ask(&proxy, words)));
        let pause = async {
            tokio::time::sleep(HICCUP).await;
            masters.iter().for_each(Master::cont);
        };
        let (replies, ()) = tokio::join!(asking, pause);
        if since.elapsed() > QUIET {
            continue;
        }
        quiet_rounds += 1;
        for ((words, expected), reply) in commands.iter().zip(replies) {
            assert_eq!(reply.as_ref(), Ok(expected), "{words:?} in round {round}");
        }
    }
    assert!(quiet_rounds > 0, "the machine was too busy to tell");
}

/// Returns commands of every kind, with the answers of a single Redis after [`prepare`].
fn commands(round: usize) -> Vec<(Vec<String>, Value)> {
    let key = |name: &str| format!("{name} {round}");
    let text = |text: &str| text.to_owned();
    let mine = Value::BulkString(b"mine".to_vec());
    vec![
        (["SET", &key("free"), "mine", "NX", "PX", TEN_MINUTES].map(text).to_vec(), Value::Okay),
        (["SET", &key("read"), "other", "NX", "PX", TEN_MINUTES].map(text).to_vec(), Value::Nil),
        (["EVAL", RELEASE, "1", &key("held"), "mine"].map(text).to_vec(), Value::Int(1)),
        (
            ["EVAL", EXTEND, "1", &key("prolonged"), "mine", TEN_MINUTES].map(text).to_vec(),
            Value::Int(1),
        ),
        (["GET", &key("read")].map(text).to_vec(), mine),
        (["EVAL", PUSH, "1", &key("queue"), "job"].map(text).to_vec(), Value::Int(1)),
        (["INCR", &key("counter")].map(text).to_vec(), Value::Int(1)),
        (["DEL", &key("deleted")].map(text).to_vec(), Value::Int(1)),
    ]
}

async fn prepare(client: &mut MultiplexedConnection, round: usize) {
    for name in ["read", "held", "prolonged", "deleted"] {
        let key = format!("{name} {round}");
        eventually("a lock is granted", || {
            let (mut client, key) = (client.clone(), &key);
            async move { (claim(&mut client, key).await == Ok(Value::Okay)).then_some(()) }
        })
        .await;
    }
    // Masters check a new script first.
    let _ = value(client, &["EVAL", PUSH, "1", &format!("warm up {round}"), "job"]).await;
}

/// One master has lost the key, another is silent, and the silent one decides. `PEXPIRE` used to answer `TRYAGAIN`,
/// and an extension `CLUSTERDOWN`, after 50 ms, where one Redis would only have been late.
#[tokio::test]
async fn a_silent_master_that_decides_is_waited_for() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &FLAGS);
    proxy.expect_warnings();
    for pause in [HICCUP, LONG_HICCUP] {
        let mut round = 0;
        while !is_waited_for(&proxy, &masters, &format!("{pause:?} {round}"), pause).await {
            round += 1;
            assert!(round < 10, "the machine was too busy to tell");
        }
    }
}

/// Sends everything while the second master pauses. Returns `false` if this machine itself paused.
async fn is_waited_for(proxy: &Proxy, masters: &[Master], round: &str, pause: Duration) -> bool {
    let kinds = kinds();
    let key = |kind: usize| format!("kind {kind} {round}");
    for (kind, (before, ..)) in kinds.iter().enumerate() {
        prepare_kind(proxy, masters, before, &key(kind)).await;
    }
    masters[1].stop();
    let since = Instant::now();
    let named = kinds.iter().enumerate().map(|(kind, (_, words, _))| about(&key(kind), words));
    let words: Vec<Vec<String>> = named.collect();
    let asking = join_all(words.iter().map(|words| ask(proxy, words)));
    let pause = async {
        tokio::time::sleep(pause).await;
        masters[1].cont();
    };
    let (replies, ()) = tokio::join!(asking, pause);
    if since.elapsed() > QUIET {
        return false;
    }
    let all = kinds.into_iter().map(|(_, words, expected)| (words, Ok(expected))).zip(replies);
    let wrong: Vec<_> = all.filter(|((_, expected), reply)| reply != expected).collect();
    assert!(wrong.is_empty(), "{round}: {wrong:#?}");
    true
}

type Kind = (&'static [&'static str], Vec<&'static str>, Value);

/// Returns, for each kind of request: commands that prepare a key `$`, the request, and the answer of a single Redis.
fn kinds() -> Vec<Kind> {
    const LOCK: &[&str] = &["SET", "$", "mine", "NX", "PX", TEN_MINUTES];
    const NUMBER: &[&str] = &["SET", "$", "7"];
    const LIST: &[&str] = &["RPUSH", "$", "first"];
    let int = Value::Int;
    let bulk = |text: &str| Value::BulkString(text.into());
    vec![
        (LOCK, vec!["EVAL", EXTEND, "1", "$", "mine", TEN_MINUTES], int(1)),
        (LOCK, vec!["EVAL", TAKE_OR_EXTEND, "1", "$", "mine", TEN_MINUTES], int(1)),
        (LOCK, vec!["EVAL", RELEASE, "1", "$", "mine"], int(1)),
        (LOCK, vec!["PEXPIRE", "$", TEN_MINUTES], int(1)),
        (LOCK, vec!["EXPIRE", "$", "900", "GT"], int(1)),
        (LOCK, vec!["PEXPIREAT", "$", "99999999999999"], int(1)),
        (LOCK, vec!["PERSIST", "$"], int(1)),
        (LOCK, vec!["DEL", "$"], int(1)),
        (LOCK, vec!["UNLINK", "$"], int(1)),
        (LOCK, vec!["GET", "$"], bulk("mine")),
        (LOCK, vec!["STRLEN", "$"], int(4)),
        (LOCK, vec!["EXISTS", "$"], int(1)),
        (LOCK, vec!["TYPE", "$"], Value::SimpleString("string".to_owned())),
        (LOCK, vec!["WATCH", "$"], Value::Okay),
        (LOCK, vec!["SET", "$", "mine", "XX", "PX", TEN_MINUTES], Value::Okay),
        (LOCK, vec!["GETEX", "$", "PX", TEN_MINUTES], bulk("mine")),
        (LOCK, vec!["GETSET", "$", "new"], bulk("mine")),
        (LOCK, vec!["GETDEL", "$"], bulk("mine")),
        (LOCK, vec!["APPEND", "$", "?"], int(5)),
        (NUMBER, vec!["INCR", "$"], int(8)),
        (LIST, vec!["LLEN", "$"], int(1)),
        (LIST, vec!["LRANGE", "$", "0", "-1"], Value::Array(vec![bulk("first")])),
        (LIST, vec!["RPUSH", "$", "second"], int(2)),
        (LIST, vec!["EVAL", PUSH, "1", "$", "second"], int(2)),
        (LIST, vec!["EVAL", PUSH_FOR, "1", "$", "second", TEN_MINUTES], int(2)),
    ]
}

fn about(key: &str, words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.replace('$', key)).collect()
}

/// Sets something under `key` on all masters, and removes it from the first.
async fn prepare_kind(proxy: &Proxy, masters: &[Master], before: &[&str], key: &str) {
    let before = about(key, before);
    eventually("the key is everywhere", || async {
        let _ = ask(proxy, &before).await;
        for master in masters {
            if !master.has(key).await {
                return None;
            }
        }
        Some(())
    })
    .await;
    assert_eq!(masters[0].ask(&["DEL", key]).await, Reply::Int(1), "{key}");
}

/// Sent one after the other, these requests would take minutes if each waited for the silent master.
#[tokio::test]
async fn a_silent_minority_delays_nobody() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "1s"]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    masters[1].stop();
    let requests = async {
        for round in 0..10 {
            prepare(&mut client, round).await;
            for (words, expected) in commands(round) {
                assert_eq!(ask(&proxy, &words).await.as_ref(), Ok(&expected), "{words:?}");
            }
        }
    };
    tokio::time::timeout(LIMIT, requests).await.expect("nobody waits for one silent master");
    masters[1].cont();
}

/// After a client had waited for a quorum, vote timeouts used to go unnoticed until that client's patience ended.
#[tokio::test]
async fn a_silent_minority_delays_nobody_after_a_hiccup_either() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "50ms", "--patience", "60s"]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    masters.iter().for_each(Master::stop);
    let pause = async {
        tokio::time::sleep(HICCUP).await;
        masters.iter().for_each(Master::cont);
    };
    let (late, ()) = tokio::join!(value(&mut client, &["GET", "nothing"]), pause);
    assert_eq!(late, Ok(Value::Nil));
    masters[0].ask(&["SET", "lock", "of somebody"]).await;
    masters[1].stop();
    let split = tokio::time::timeout(LIMIT, claim(&mut client, "lock")).await;
    masters[1].cont();
    assert_eq!(split.expect("nobody waits for one silent master"), Ok(Value::Nil));
}

/// Clients without a quorum for longer than their patience receive an error, but not at once.
#[tokio::test]
async fn a_quorum_that_stays_silent_is_waited_for_and_then_an_error() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &FLAGS);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    prepare(&mut client, 0).await;
    masters[..2].iter().for_each(Master::stop);
    let since = Instant::now();
    let commands = commands(0);
    // A release that one master confirms is a release.
    let others = commands.iter().filter(|(words, _)| words[1] != RELEASE && words[0] != "DEL");
    let asking = others.map(|(words, _)| {
        let proxy = &proxy;
        async move { (words, ask(proxy, words).await, since.elapsed()) }
    });
    for (words, reply, waited) in join_all(asking).await {
        let error = reply.expect_err("nobody can know");
        let code = error.code().unwrap_or_default();
        assert!(["CLUSTERDOWN", "TRYAGAIN", "UNKNOWN"].contains(&code), "{words:?}: {error}");
        assert!(waited >= PATIENCE / 2, "{words:?} gave up after {waited:?}: {error}");
        assert!(waited < LIMIT, "{words:?} was an error after {waited:?} only");
    }
    masters[..2].iter().for_each(Master::cont);
}

/// A claim or a read that paused beyond the patience used to stay unanswered, and so did all others on its key.
#[tokio::test]
async fn who_pauses_while_the_patience_ends_is_answered() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags = ["--vote-timeout", "50ms", "--patience", "50ms", "--split-vote-delay", "2s"];
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    let keys = ["contested", "another", "a third"];
    for key in keys {
        eventually("a lock is granted", || {
            let mut client = client.clone();
            let set = ["SET", key, key, "NX", "PX", TEN_MINUTES];
            async move { (value(&mut client, &set).await == Ok(Value::Okay)).then_some(()) }
        })
        .await;
    }
    for (master, key) in masters.iter().zip(keys).skip(1) {
        let copied = master.ask(&["COPY", key, keys[0], "REPLACE"]).await;
        assert_eq!(copied, Reply::Int(1));
    }
    let reply = ask_in_time(&mut client, &["GET", keys[0]]).await;
    assert_eq!(reply, Ok(Value::Nil), "a lock that nobody holds");
    for master in &masters[..2] {
        let set = master.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
        assert_eq!(set, Reply::Simple("OK".into()));
    }
    let set = ["SET", "refused", "mine", "NX", "PX", TEN_MINUTES];
    ask_in_time(&mut client, &set).await.expect_err("two masters do not write");
    for master in &masters[..2] {
        let set = master.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
        assert_eq!(set, Reply::Simple("OK".into()));
    }
    assert_eq!(ask_in_time(&mut client, &set).await, Ok(Value::Okay), "the key was let go");
}

async fn ask_in_time(client: &mut MultiplexedConnection, words: &[&str]) -> RedisResult<Value> {
    let asking = value(client, words);
    tokio::time::timeout(LIMIT, asking).await.unwrap_or_else(|_| panic!("{words:?}: no answer"))
}

/// A lock for 100 ms used to exist after 120 ms: 50 ms were added to every TTL.
#[tokio::test]
async fn a_key_with_a_short_ttl_is_gone_soon_after_it() {
    for options in [&["NX", "PX", "100"][..], &["PX", "100"]] {
        is_gone_in_time(options).await;
    }
}

async fn is_gone_in_time(options: &[&str]) {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &FLAGS);
    proxy.expect_warnings();
    let client = proxy.connection().await;
    let mut turn = 0;
    let mut quiet_turns = 0;
    while quiet_turns < 5 {
        turn += 1;
        assert!(turn < 100, "the machine was too busy to tell");
        let (mut client, key) = (client.clone(), format!("key {turn}"));
        let set = [&["SET", &key, "mine"], options].concat();
        let since = Instant::now();
        let reply = value(&mut client, &set).await;
        let took = since.elapsed();
        tokio::time::sleep(Duration::from_millis(120)).await;
        let seen = value(&mut client, &["GET", &key]).await;
        // A grant that took longer may last longer by the same time.
        if reply == Ok(Value::Okay) && took < Duration::from_millis(8) {
            quiet_turns += 1;
            assert_eq!(seen, Ok(Value::Nil), "{set:?}, 120 ms after its OK");
        }
    }
}

/// Sends a request over its own connection, so that it waits for no other.
async fn ask(proxy: &Proxy, words: &[String]) -> RedisResult<Value> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    value(&mut proxy.connection().await, &words).await
}

async fn claim(client: &mut MultiplexedConnection, key: &str) -> RedisResult<Value> {
    value(client, &["SET", key, "mine", "NX", "PX", TEN_MINUTES]).await
}

/// Each used to wait for its whole patience, one after the other: the last of them for half an hour here.
#[tokio::test]
async fn who_stands_in_line_for_what_nobody_can_tell_waits_no_longer_than_the_first() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "50ms", "--patience", "5s"]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    let push = ["RPUSH", "list", "a"];
    assert_eq!(value(&mut client, &push).await, Ok(Value::Int(1)));
    eventually("all masters have it", || async {
        (masters.having("list").await == 3).then_some(())
    })
    .await;
    masters[2].stop();
    proxy.knows(2, "state", "down").await;
    for master in &masters[..2] {
        assert_eq!(master.ask(&["DEL", "list"]).await, Reply::Int(1));
    }
    let push = push.map(str::to_owned);
    let in_line = (0..600).map(|_| ask(&proxy, &push));
    let asking = tokio::time::timeout(LIMIT, join_all(in_line)).await;
    for reply in asking.expect("all of them are answered in time") {
        let error = reply.expect_err("only the third knows what was there");
        let code = error.code().unwrap_or_default();
        assert!(["CLUSTERDOWN", "TRYAGAIN"].contains(&code), "{error}");
    }
    masters[2].cont();
    eventually("it is there again", || {
        let again = ask(&proxy, &push);
        async move { (again.await == Ok(Value::Int(2))).then_some(()) }
    })
    .await;
}
