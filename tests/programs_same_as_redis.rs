//! Scripts, transactions and commands on every type of data: the proxy over three masters answers as one plain
//! `redis-server` does, byte for byte, in both versions of the protocol.
//!
//! `support::side_by_side` describes the format of the tables.

mod program_tables;
mod support;

use std::collections::VecDeque;
use std::time::Duration;

use program_tables as tables;
use support::side_by_side::{compare_with, lines, same};
use support::{Master, Masters, Proxy, Raw, Reply, compare, encode, eventually, words};

#[tokio::test]
async fn what_scripts_return() {
    compare(tables::replies::SIMPLE).await;
    compare(tables::replies::NUMBERS).await;
    compare(tables::replies::STRINGS).await;
    compare(tables::replies::LISTS).await;
    compare(tables::replies::STATUSES).await;
    compare(tables::replies::ERRORS).await;
}

#[tokio::test]
async fn what_scripts_pass_on() {
    compare(tables::replies::PASSED_ON).await;
}

#[tokio::test]
async fn scripts_that_speak_resp3() {
    compare(tables::replies::RESP3).await;
}

#[tokio::test]
async fn scripts_that_raise() {
    compare(tables::raised::BY_COMMANDS).await;
    compare(tables::raised::BY_LUA).await;
    compare(tables::raised::ODD).await;
}

#[tokio::test]
async fn scripts_that_catch() {
    compare(tables::raised::CAUGHT).await;
}

#[tokio::test]
async fn scripts_that_do_not_compile() {
    compare(tables::raised::SYNTAX).await;
}

#[tokio::test]
async fn what_scripts_find() {
    compare(tables::environment::GLOBALS).await;
    compare(tables::environment::KEYS_AND_ARGUMENTS).await;
    compare(tables::environment::REDIS_TABLE).await;
    compare(tables::environment::LANGUAGE).await;
    compare(tables::environment::CLOSED).await;
}

#[tokio::test]
async fn libraries_for_scripts() {
    compare(tables::libraries::CJSON).await;
    compare(tables::libraries::CMSGPACK).await;
    compare(tables::libraries::BIT).await;
    compare(tables::libraries::STRUCT).await;
}

#[tokio::test]
async fn calls_from_scripts() {
    compare(tables::calls::ARGUMENTS).await;
    compare(tables::calls::NOT_ALLOWED).await;
}

/// Masters then run longer programs, which note each call.
#[tokio::test]
async fn scripts_answer_the_same_while_events_are_told() {
    for table in [
        tables::calls::ARGUMENTS,
        tables::calls::NOT_ALLOWED,
        tables::raised::BY_COMMANDS,
        tables::raised::CAUGHT,
        tables::transactions::SCRIPTS,
        tables::types::WRONG_WRITES,
    ] {
        compare_with(&["--notify-keyspace-events", "KEAn"], table).await;
    }
}

#[tokio::test]
async fn scripts_in_other_databases() {
    compare(tables::calls::DATABASES).await;
}

#[tokio::test]
async fn times_to_live_in_scripts() {
    compare(tables::calls::TIMES).await;
}

#[tokio::test]
async fn running_scripts() {
    compare(tables::scripts::NUMBER_OF_KEYS).await;
    compare(tables::scripts::CACHE).await;
    compare(tables::scripts::READ_ONLY).await;
    compare(tables::scripts::FLAGS).await;
}

/// Scripts that are too long for the proxy to read run like any other, and are refused like any other.
#[tokio::test]
async fn a_script_of_a_megabyte_holds_a_worker() {
    let long = |piece: &str, end: &str| format!("{}{end}", piece.repeat(300_000 / piece.len()));
    let write = "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])";
    let scripts = [
        "return redis.call(".repeat(55_000),
        long("(", ""),
        long("[====[", ""),
        long("--[==[", ""),
        long("return function() ", ""),
        long("local a = 1 ", ""),
        long("if true then ", ""),
        long("-- a comment\n", write),
        long("redis.call('incr', KEYS[1]) ", "return redis.call('get', KEYS[1])"),
        long("redis.call('get', KEYS[1])\n", "return redis.call(ARGV[1], KEYS[1])"),
        format!("return #[====[{}]====]", long("]===]", "")),
        format!("return #('{}')", long("a' .. 'b", "")),
    ];
    let evals = scripts.iter().map(|script| format!("EVAL \"{script}\" 1 k strlen\n"));
    let queued = format!("MULTI\nEVAL \"{}\" 1 k v\nEXEC\n", scripts[7]);
    compare(&(evals.collect::<String>() + &queued)).await;
}

#[tokio::test]
async fn transactions() {
    compare(tables::transactions::QUEUE).await;
    compare(tables::transactions::ERRORS).await;
    compare(tables::transactions::TYPES).await;
    compare(tables::transactions::TIMES).await;
}

#[tokio::test]
async fn a_database_that_a_script_selects_leaks_into_the_transaction() {
    compare(tables::transactions::DATABASES).await;
}

#[tokio::test]
async fn other_commands_in_transactions() {
    compare(tables::transactions::OTHER_COMMANDS).await;
    compare(tables::transactions::SCRIPTS).await;
    compare(tables::transactions::BLOCKING).await;
}

#[tokio::test]
async fn watched_keys() {
    compare(tables::watch::UNDISTURBED).await;
    compare(tables::watch::DISTURBED).await;
    compare(tables::watch::FORGOTTEN).await;
    compare(tables::watch::DATABASES).await;
}

#[tokio::test]
async fn watched_keys_that_were_put_back() {
    compare(tables::watch::PUT_BACK).await;
}

#[tokio::test]
async fn hashes() {
    compare(tables::hashes::WRITES).await;
    compare(tables::hashes::READS).await;
    compare(tables::hashes::LARGE).await;
}

#[tokio::test]
async fn sets() {
    compare(tables::sets::WRITES).await;
    compare(tables::sets::READS).await;
    compare(tables::sets::DRAWN).await;
    compare(tables::sets::DRAWN_ALONE).await;
}

#[tokio::test]
async fn sorted_sets() {
    compare(tables::sorted_sets::WRITES).await;
    compare(tables::sorted_sets::READS).await;
}

#[tokio::test]
async fn lists() {
    compare(tables::lists::WRITES).await;
    compare(tables::lists::READS).await;
}

#[tokio::test]
async fn strings_and_what_is_kept_in_them() {
    compare(tables::strings::STRINGS).await;
    compare(tables::strings::BITMAPS).await;
    compare(tables::strings::HYPERLOGLOGS).await;
}

#[tokio::test]
async fn keys_of_any_type() {
    compare(tables::strings::ANY_TYPE).await;
}

#[tokio::test]
async fn streams_and_places() {
    compare(tables::streams::STREAMS).await;
    compare(tables::streams::READ).await;
    compare(tables::streams::DELIVERED).await;
    compare(tables::streams::MADE_IDS).await;
    compare(tables::streams::CLAIMS).await;
    compare(tables::streams::PLACES).await;
}

#[tokio::test]
async fn keys_of_the_wrong_type() {
    compare(tables::types::WRONG_READS).await;
    compare(tables::types::WRONG_WRITES).await;
    compare(tables::types::ARITY).await;
}

#[tokio::test]
async fn commands_that_may_wait() {
    compare(tables::blocking::DATA_IS_THERE).await;
    compare(tables::blocking::NOTHING_COMES).await;
}

/// A waiting client gets what another one brings, with the same replies as from Redis.
#[tokio::test]
async fn clients_that_wait_are_woken() {
    let redis = Master::start();
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for (waiting, bringing) in WOKEN {
        for version in ["2", "3"] {
            let expected = woken(&redis.address(), version, waiting, bringing).await;
            let actual = woken(proxy.address(), version, waiting, bringing).await;
            assert_eq!(actual, expected, "{waiting} woken by {bringing} in RESP{version}");
        }
    }
}

/// A waiting client skips a key that now has another type, and gets no error.
#[tokio::test]
async fn clients_that_wait_pass_over_keys_of_another_type() {
    let redis = Master::start();
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for (waiting, steps) in PASSED_OVER {
        let expected = passed_over(&redis.address(), waiting, steps).await;
        let actual = passed_over(proxy.address(), waiting, steps).await;
        assert_eq!(actual, expected, "{waiting} behind {steps:?}");
    }
}

const PASSED_OVER: [(&str, &[&str]); 8] = [
    ("BLPOP k 0", &["SET k v", "DEL k", "RPUSH k a"]),
    ("BRPOP k 0", &["SET k v NX PX 60000", "DEL k", "RPUSH k a b"]),
    ("BLPOP k other 0", &["SET k v", "RPUSH other a"]),
    ("BLMPOP 0 2 k other RIGHT COUNT 2", &["SADD k v", "RPUSH other a b c"]),
    ("BZMPOP 0 2 k other MIN", &["RPUSH k v", "ZADD other 1 a"]),
    ("BLMOVE k to LEFT RIGHT 0", &["SET k v", "DEL k", "RPUSH k a"]),
    ("BRPOPLPUSH k to 0", &["SET to v", "RPUSH k a"]),
    ("XREAD BLOCK 0 STREAMS k $", &["SET k v", "DEL k", "XADD k 1-1 field value"]),
];

/// Returns the answer to the waiting client.
async fn passed_over(address: &str, waiting: &str, steps: &[&str]) -> Vec<u8> {
    let mut other = connect(address, "2").await;
    other.ask(&["DEL", "k", "to", "other"]).await;
    let mut waiter = connect(address, "2").await;
    waiter.send(&encode(&words(waiting))).await;
    for step in steps {
        // Gives the proxy time to look at the key in between.
        tokio::time::sleep(SETTLES_DOWN).await;
        other.send(&encode(&words(step))).await;
        other.frame().await;
    }
    waiter.frame().await.1
}

/// Each blocking command with the one that wakes it.
const WOKEN: [(&str, &str); 12] = [
    ("BLPOP k 0", "LPUSH k a b"),
    ("BRPOP k 0", "LPUSH k a b"),
    ("BLPOP other k 10", "RPUSH k a"),
    ("BLMOVE k to LEFT RIGHT 0", "RPUSH k a"),
    ("BRPOPLPUSH k to 0", "RPUSH k a"),
    ("BLMPOP 0 1 k LEFT COUNT 2", "RPUSH k a b c"),
    ("BLMPOP 0 2 k other RIGHT", "RPUSH other a"),
    ("BZPOPMIN k 0", "ZADD k 1 a 2.5 b"),
    ("BZPOPMAX k 0", "ZADD k 1 a 2.5 b"),
    ("BZMPOP 0 1 k MIN COUNT 2", "ZADD k 1 a 2.5 b"),
    ("BLPOP k 0", "EVAL \"return redis.call('rpush', KEYS[1], 'by a script')\" 1 k"),
    ("BLPOP k 0", "RENAME elsewhere k"),
];

/// Returns the answers to the waiting and the bringing client, and the final state.
async fn woken(address: &str, version: &str, waiting: &str, bringing: &str) -> [Vec<u8>; 3] {
    let mut bringer = connect(address, version).await;
    bringer.ask(&["DEL", "k", "to", "other", "elsewhere"]).await;
    bringer.ask(&["RPUSH", "elsewhere", "moved here"]).await;
    let mut waiter = connect(address, version).await;
    waiter.send(&encode(&words(waiting))).await;
    tokio::time::sleep(SETTLES_DOWN).await;
    bringer.send(&encode(&words(bringing))).await;
    let replies = [waiter.frame().await.1, bringer.frame().await.1];
    bringer.send(&encode(&["EXISTS", "k", "to", "other"])).await;
    let [waited, brought] = replies;
    [waited, brought, bringer.frame().await.1]
}

/// In this time a client usually starts to wait. If it does not, less is tested, but nothing fails.
const SETTLES_DOWN: Duration = Duration::from_millis(100);

/// One element wakes one client, the one that has waited longest.
#[tokio::test]
async fn the_first_client_that_waits_is_served_first() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut waiters = [proxy.raw().await, proxy.raw().await, proxy.raw().await];
    for waiter in &mut waiters {
        waiter.send(&encode(&["BLPOP", "k", "0"])).await;
        tokio::time::sleep(SETTLES_DOWN).await;
    }
    let mut bringer = proxy.raw().await;
    for (element, waiter) in ["first", "second", "third"].iter().zip(&mut waiters) {
        assert_eq!(bringer.ask(&["RPUSH", "k", element]).await, Reply::Int(1));
        let expected = Reply::Array(vec![Reply::bulk("k"), Reply::bulk(element)]);
        assert_eq!(waiter.reply().await, expected);
    }
    assert_eq!(bringer.ask(&["EXISTS", "k"]).await, Reply::Int(0));
}

/// The same over and over, at any moment between two looks at the key: a served client goes to the end of the queue.
#[tokio::test]
async fn clients_that_wait_are_served_in_turns() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut waiters = VecDeque::new();
    for _ in 0..5 {
        let mut waiter = proxy.raw().await;
        waiter.send(&encode(&["BLPOP", "k", "0"])).await;
        tokio::time::sleep(SETTLES_DOWN).await;
        waiters.push_back(waiter);
    }
    let mut bringer = proxy.raw().await;
    for turn in 0..300 {
        let element = turn.to_string();
        assert_eq!(bringer.ask(&["RPUSH", "k", &element]).await, Reply::Int(1));
        let mut waiter = waiters.pop_front().expect("a client that waits");
        let expected = Reply::Array(vec![Reply::bulk("k"), Reply::bulk(&element)]);
        assert_eq!(waiter.reply().await, expected, "turn {turn}");
        waiter.send(&encode(&["BLPOP", "k", "0"])).await;
        waiters.push_back(waiter);
        tokio::time::sleep(Duration::from_millis(turn % 7)).await;
    }
}

/// A client that is not the first to wait still gets an error for a wrong request. A waiting client may wait on the
/// target of another client's blocked move.
#[tokio::test]
async fn who_waits_behind_others_is_not_held_up() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut first = proxy.raw().await;
    first.send(&encode(&["BLMOVE", "k", "to", "LEFT", "LEFT", "0"])).await;
    tokio::time::sleep(SETTLES_DOWN).await;
    let mut wrong = proxy.raw().await;
    let refused = wrong.ask(&["BLMPOP", "0", "1", "k", "UPWARDS"]).await;
    assert_eq!(refused, Reply::Error("ERR syntax error".into()));
    let mut second = proxy.raw().await;
    second.send(&encode(&["BLPOP", "to", "0"])).await;
    tokio::time::sleep(SETTLES_DOWN).await;
    let mut bringer = proxy.raw().await;
    assert_eq!(bringer.ask(&["RPUSH", "to", "a"]).await, Reply::Int(1));
    assert_eq!(second.reply().await, Reply::Array(vec![Reply::bulk("to"), Reply::bulk("a")]));
    assert_eq!(bringer.ask(&["RPUSH", "k", "b"]).await, Reply::Int(1));
    assert_eq!(first.reply().await, Reply::bulk("b"));
}

/// A client that disconnects while it waits takes nothing with it.
#[tokio::test]
async fn who_no_longer_waits_gets_nothing() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut gone = proxy.raw().await;
    gone.send(&encode(&["BLPOP", "k", "0"])).await;
    tokio::time::sleep(SETTLES_DOWN).await;
    drop(gone);
    let mut raw = proxy.raw().await;
    tokio::time::sleep(SETTLES_DOWN).await;
    assert_eq!(raw.ask(&["RPUSH", "k", "a"]).await, Reply::Int(1));
    tokio::time::sleep(SETTLES_DOWN).await;
    let left = Reply::Array(vec![Reply::bulk("a")]);
    assert_eq!(raw.ask(&["LRANGE", "k", "0", "-1"]).await, left);
}

/// A watched key that expires counts as changed.
#[tokio::test]
async fn a_watched_key_that_expires_stops_the_transaction() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&["SET", "k", "v", "PX", "300"]).await, Reply::ok());
    assert_eq!(raw.ask(&["WATCH", "k"]).await, Reply::ok());
    eventually("the key runs out", || async {
        let mut other = proxy.raw().await;
        (other.ask(&["EXISTS", "k"]).await == Reply::Int(0)).then_some(())
    })
    .await;
    assert_eq!(raw.ask(&["MULTI"]).await, Reply::ok());
    assert_eq!(raw.ask(&["SET", "k", "w"]).await, Reply::Simple("QUEUED".into()));
    assert_eq!(raw.ask(&["EXEC"]).await, Reply::Nil);
    assert_eq!(raw.ask(&["EXISTS", "k"]).await, Reply::Int(0));
}

/// Libraries on other systems send scripts whose lines end in `\r\n`, and bytes that are not text.
#[tokio::test]
async fn scripts_of_any_bytes() {
    let redis = Master::start();
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let requests: [&[&[u8]]; 5] = [
        (&[b"EVAL", b"local one = 1\r\n\r\nreturn one\r\n", b"0"]),
        (&[b"EVAL", b"local one = 1\r\n\r\nerror('x')\r\n", b"0"]),
        (&[b"EVAL", b"return '\xff\x00\xfe'", b"0"]),
        (&[b"EVAL", b"return {KEYS[1], ARGV[1]}", b"1", b"\x00\xff", b"\r\n$1\r\n"]),
        (&[b"EVAL", b"return redis.call('set', KEYS[1], ARGV[1])", b"1", b"\xff\r\n", b"\x00"]),
    ];
    let (mut expected, mut actual) = (Raw::connect(&redis.address()).await, proxy.raw().await);
    for request in requests {
        expected.send(&encode(request)).await;
        actual.send(&encode(request)).await;
        assert_eq!(actual.frame().await, expected.frame().await, "{request:?}");
    }
}

/// The test of the tests: the marks allow what they say, and no more.
#[test]
fn replies_that_differ_are_told() {
    for (mark, one, another, alike) in [
        ("", "$1\r\na\r\n", "$1\r\na\r\n", true),
        ("", "$-1\r\n", "*-1\r\n", false),
        ("within 5", ":100\r\n", ":105\r\n", true),
        ("within 5", ":100\r\n", ":106\r\n", false),
        ("within 5", ":-1\r\n", ":1\r\n", false),
        ("within 5", "*2\r\n$1\r\na\r\n:7\r\n", "*2\r\n$1\r\na\r\n:9\r\n", true),
        ("within 5", "*2\r\n$1\r\na\r\n:7\r\n", "*2\r\n$1\r\nb\r\n:7\r\n", false),
        ("any order", "*2\r\n:1\r\n:2\r\n", "*2\r\n:2\r\n:1\r\n", true),
        ("any order", "*2\r\n:1\r\n:2\r\n", "~2\r\n:2\r\n:1\r\n", false),
        ("any order", "*2\r\n:1\r\n:2\r\n", "*2\r\n:1\r\n:1\r\n", false),
        ("shape: why", "+a\r\n", "+b\r\n", true),
        ("shape: why", "+a\r\n", "-b\r\n", false),
    ] {
        let [one, another] = [one, another].map(|text| {
            let (reply, _) = Reply::parse(text.as_bytes()).expect("a whole reply");
            (reply, text.as_bytes().to_vec())
        });
        assert_eq!(same(mark, &one, &another), alike, "[{mark}] {one:?} {another:?}");
    }
}

#[test]
fn a_quoted_word_may_go_on_over_several_lines() {
    let table = "\n  EVAL \"\n  return 'x'\n\n \" 0\n\n  PING\n";
    assert_eq!(lines(table), ["EVAL \"\n  return 'x'\n\n \" 0", "PING"]);
}

async fn connect(address: &str, version: &str) -> Raw {
    match version {
        "3" => Raw::connect_resp3(address).await,
        _ => Raw::connect(address).await,
    }
}
