//! A master that is out of memory rejects commands that need more. It has not run a program in which it rejects a
//! command: it must not reach another state under the same ballot.

mod support;

use std::time::Duration;

use support::http::http;
use support::state::all_hold_the_same;
use support::{Masters, Proxy, Raw, Relay, Reply, eventually, target_is_plain_redis, words};

/// One byte is less than any Redis uses.
async fn fill(masters: &Masters, index: usize) {
    let reply = masters[index].ask(&words("CONFIG SET maxmemory 1")).await;
    assert_eq!(reply, Reply::ok());
}

async fn empty(masters: &Masters, index: usize) {
    let reply = masters[index].ask(&words("CONFIG SET maxmemory 0")).await;
    assert_eq!(reply, Reply::ok());
}

async fn are_the_same(masters: &Masters, keys: &[&str]) {
    eventually("all masters hold the same", || async {
        all_hold_the_same(masters, keys).await.then_some(())
    })
    .await;
}

fn behind_a_proxy() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    Some((masters, proxy))
}

/// This master answers before the others, so its answer is in the first quorum.
#[tokio::test]
async fn a_program_that_a_master_without_memory_has_refused_ran_on_the_others() {
    let Some((masters, relays, proxy)) = behind_relays() else { return };
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(1));
    fill(&masters, 0).await;
    for relay in &relays[1..] {
        relay.delay(Duration::ZERO, Duration::from_millis(100));
    }
    assert_eq!(client.ask(&words("RPUSH list b")).await, Reply::Int(2));
    empty(&masters, 0).await;
    // The master has accepted nothing, so this must not run there under the ballot of the rejected program.
    assert_eq!(client.ask(&words("RPUSH list c")).await, Reply::Int(3));
    let all = Reply::Array(["a", "b", "c"].map(Reply::bulk).to_vec());
    assert_eq!(client.ask(&words("LRANGE list 0 -1")).await, all);
    are_the_same(&masters, &["list"]).await;
}

/// Starts three masters, each behind a relay.
fn behind_relays() -> Option<(Masters, Vec<Relay>, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &[]);
    proxy.expect_warnings();
    Some((masters, relays, proxy))
}

fn assert_unknown(reply: &Reply) {
    let Reply::Error(error) = reply else { panic!("{reply:?}") };
    assert!(error.starts_with("UNKNOWN whether the command took effect: "), "{error}");
    assert!(error.contains("OOM command not allowed"), "{error}");
}

/// One master rejects the program, one runs it, and one is silent.
#[tokio::test]
async fn a_refusal_is_not_told_where_a_silent_master_may_make_a_quorum_with_who_ran_it() {
    let Some((masters, relays, proxy)) = behind_relays() else { return };
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(1));
    fill(&masters, 0).await;
    relays[2].hold_back("silent");
    assert_unknown(&client.ask(&words("RPUSH list silent")).await);
    empty(&masters, 0).await;
    relays[2].heal();
    eventually("it is done", || async {
        (proxy.raw().await.ask(&words("LLEN list")).await == Reply::Int(2)).then_some(())
    })
    .await;
}

/// A quorum rejects the program. The third master's state is adopted by one of the two while the other one is away.
#[tokio::test]
async fn a_refusal_is_not_told_where_one_master_has_run_it() {
    let Some((masters, relays, proxy)) = behind_relays() else { return };
    let mut client = proxy.raw().await;
    for key in ["first", "last"] {
        assert_eq!(client.ask(&["RPUSH", key, "a"]).await, Reply::Int(1));
    }
    fill(&masters, 0).await;
    fill(&masters, 1).await;
    // The master that runs it answers before the others reject it, or after that.
    for (key, late) in [("first", 0..2), ("last", 2..3)] {
        let delay = |relay: &Relay| relay.delay(Duration::ZERO, Duration::from_millis(100));
        relays[late].iter().for_each(delay);
        assert_unknown(&client.ask(&["RPUSH", key, "b"]).await);
        relays.iter().for_each(Relay::heal);
    }
    relays[0].cut();
    proxy.knows(0, "state", "down").await;
    empty(&masters, 1).await;
    for key in ["first", "last"] {
        eventually("it is done", || async {
            (proxy.raw().await.ask(&["LLEN", key]).await == Reply::Int(2)).then_some(())
        })
        .await;
    }
}

/// A quorum rejects the program, and the third master receives it late.
#[tokio::test]
async fn a_refusal_is_not_told_where_a_silent_master_may_run_it() {
    let Some((masters, relays, proxy)) = behind_relays() else { return };
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(1));
    fill(&masters, 0).await;
    fill(&masters, 1).await;
    relays[2].hold_back("silent");
    assert_unknown(&client.ask(&words("RPUSH list silent")).await);
}

/// The program was then certainly not executed, and never will be.
#[tokio::test]
async fn a_refusal_is_told_where_every_master_that_was_asked_refuses() {
    let Some((masters, relays, proxy)) = behind_relays() else { return };
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(1));
    for master in 0..3 {
        fill(&masters, master).await;
    }
    for relay in &relays[1..] {
        relay.delay(Duration::ZERO, Duration::from_millis(100));
    }
    let reply = client.ask(&words("RPUSH list b")).await;
    assert!(reply.is_error("OOM command not allowed"), "{reply:?}");
    relays[1].heal();
    relays[2].cut();
    proxy.knows(2, "state", "down").await;
    let reply = client.ask(&words("RPUSH list c")).await;
    assert!(reply.is_error("OOM command not allowed"), "{reply:?}");
    relays[2].heal();
    for master in 0..3 {
        empty(&masters, master).await;
    }
    assert_eq!(client.ask(&words("RPUSH list d")).await, Reply::Int(2));
    are_the_same(&masters, &["list"]).await;
}

/// `DEL` needs no memory.
#[tokio::test]
async fn a_program_is_not_run_in_part_where_memory_is_short() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    for line in ["INCR counter", "SET other x", "SET last x", "SET timed x"] {
        client.ask(&words(line)).await;
    }
    fill(&masters, 0).await;
    assert_eq!(transaction(&mut client).await, Reply::Array(vec![Reply::Int(2), Reply::Int(1)]));
    let script = "redis.pcall('incr', KEYS[1]) return redis.call('del', KEYS[2])";
    assert_eq!(client.ask(&["EVAL", script, "2", "counter", "last"]).await, Reply::Int(1));
    let script = "pcall(function() redis.call('set', KEYS[1], 'y') end) return redis.call('pexpire', KEYS[1], 60000)";
    assert_eq!(client.ask(&["EVAL", script, "1", "timed"]).await, Reply::Int(1));
    assert_eq!(masters[0].ask(&["PTTL", "timed"]).await, Reply::Int(-1));
    // The master has run no part of the program. If it had, it would be repaired from the others all the same.
    let metrics = http(&proxy.admin_address(), "GET", "/metrics", "").body;
    assert!(metrics.contains("\nredlock_replies_differing_total 0\n"), "{metrics}");
    empty(&masters, 0).await;
    are_the_same(&masters, &["counter", "other", "last", "timed"]).await;
    assert_eq!(client.ask(&words("GET counter")).await, Reply::bulk("3"));
}

async fn transaction(client: &mut Raw) -> Reply {
    for line in ["MULTI", "INCR counter", "DEL other"] {
        client.ask(&words(line)).await;
    }
    client.ask(&words("EXEC")).await
}

/// Clients can read what the others hold although a minority lacks it.
#[tokio::test]
async fn reads_do_not_need_the_master_without_memory() {
    let Some((masters, proxy)) = behind_a_proxy() else { return };
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(1));
    fill(&masters, 0).await;
    for length in 2..20 {
        assert_eq!(client.ask(&words("RPUSH list a")).await, Reply::Int(length));
        let all = Reply::Array(vec![Reply::bulk("a"); usize::try_from(length).expect("a length")]);
        assert_eq!(client.ask(&words("LRANGE list 0 -1")).await, all);
    }
}

/// Redis reads and deletes even when its memory is full. A proxy that has written none of the keys needs a promise
/// for each, and a full master queues nothing.
#[tokio::test]
async fn where_all_masters_are_full_what_needs_no_memory_is_answered_as_by_one_redis() {
    let Some((masters, writer)) = behind_a_proxy() else { return };
    let one = Masters::start(1);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    let mut sessions = [writer.raw().await, Raw::connect(&one[0].address()).await];
    let mut library = words("FUNCTION LOAD");
    library.push(LIBRARY.to_owned());
    for request in WRITTEN.map(words).into_iter().chain([library]) {
        compare(&mut sessions, &request).await;
    }
    for master in 0..3 {
        fill(&masters, master).await;
    }
    fill(&one, 0).await;
    let mut sessions = [proxy.raw().await, Raw::connect(&one[0].address()).await];
    let scripts = SCRIPTS.map(|(verb, text, rest)| {
        let rest = words(rest);
        [vec![verb.to_owned(), text.to_owned(), "1".to_owned()], rest].concat()
    });
    for request in ON_FULL_MASTERS.map(words).into_iter().chain(scripts) {
        compare(&mut sessions, &request).await;
    }
    for master in 0..3 {
        empty(&masters, master).await;
    }
    assert_eq!(sessions[0].ask(&words("RPUSH list c")).await, Reply::Int(2));
    are_the_same(&masters, &["list", "hash", "string", "gone"]).await;
}

async fn compare([proxy, one]: &mut [Raw; 2], request: &[String]) {
    assert_eq!(proxy.ask(request).await, one.ask(request).await, "{request:?}");
}

const WRITTEN: [&str; 7] = [
    "SET string v",
    "RPUSH list a b",
    "RPUSH gone a",
    "HSET hash f v",
    "ZADD sorted 1 m",
    "XADD stream 1-1 f v",
    "SET lock token NX PX 3600000",
];

const LIBRARY: &str = "#!lua name=lib
    local function of(keys) return redis.call('GET', keys[1]) end
    redis.register_function{function_name='reads', callback=of, flags={'no-writes'}}";

const ON_FULL_MASTERS: [&str; 24] = [
    "GET string",
    "EXISTS string",
    "TYPE hash",
    "TTL list",
    "PTTL none",
    "HGETALL hash",
    "HLEN none",
    "LRANGE list 0 -1",
    "ZRANGE sorted 0 -1 WITHSCORES",
    "XREAD COUNT 1 STREAMS stream 0",
    "MGET string none",
    "SINTER none another",
    "WATCH string",
    "UNWATCH",
    "FCALL reads 1 string",
    "FCALL_RO reads 1 string",
    "RPUSH list c",
    "SET string w",
    "LPOP list",
    "PERSIST string",
    "EXPIRE hash 1000",
    "DEL gone",
    "UNLINK none",
    "HDEL hash g",
];

const SCRIPTS: [(&str, &str, &str); 6] = [
    ("EVAL", "return redis.call('GET', KEYS[1])", "string"),
    ("EVAL_RO", "return redis.call('LRANGE', KEYS[1], 0, -1)", "list"),
    ("EVAL", "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])", "string"),
    ("EVAL", "#!lua\nreturn redis.call('GET', KEYS[1])", "string"),
    ("EVAL", "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], 1)", "new"),
    (
        "EVAL",
        "if redis.call('get', KEYS[1]) == ARGV[1] then \
         return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
        "lock token 7200000",
    ),
];
