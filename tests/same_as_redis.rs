//! The proxy over three masters answers as one plain `redis-server` does, byte for byte, in both
//! versions of the protocol.
//!
//! The tables hold command lines, sent in order to both. A line may begin with what may differ and,
//! where it is not plain time, why:
//!
//! | mark | the replies are the same when |
//! | --- | --- |
//! | `[within N]` | both are integers and at most N apart (times go on between the two) |
//! | `[any order]` | lists hold the same elements |
//! | `[shape: why]` | they are of the same type |
//!
//! `{now+N}` and `{nowms+N}` stand for times in seconds and milliseconds, `{release}` and
//! `{extend}` for lock scripts, and `{sha_release}`, `{sha_extend}` for their SHA1.

mod support;
mod tables;

use std::time::{SystemTime, UNIX_EPOCH};

use sha1_smol::Sha1;
use support::scripts::{EXTEND, RELEASE};
use support::{Master, Masters, Proxy, Raw, Reply, words};

#[tokio::test]
async fn setting_strings() {
    compare(tables::SET).await;
    compare(tables::SET_ERRORS).await;
    compare(tables::OLD_SETTERS).await;
}

#[tokio::test]
async fn reading_strings() {
    compare(tables::READS).await;
}

#[tokio::test]
async fn numbers_and_appending() {
    compare(tables::NUMBERS).await;
}

#[tokio::test]
async fn expiry() {
    compare(tables::EXPIRY).await;
    compare(tables::EXPIRY_CONDITIONS).await;
}

#[tokio::test]
async fn the_keyspace() {
    compare(tables::KEYSPACE).await;
    compare(tables::DATABASES).await;
}

#[tokio::test]
async fn scripts() {
    compare(tables::SCRIPTS).await;
    compare(tables::SCRIPT_ERRORS).await;
}

#[tokio::test]
async fn the_connection() {
    compare(tables::CONNECTION).await;
    compare(tables::CONNECTION_ERRORS).await;
}

#[tokio::test]
async fn the_server() {
    compare(tables::SERVER).await;
}

#[tokio::test]
async fn unknown_commands_and_wrong_arity() {
    compare(tables::UNKNOWN).await;
    compare(tables::ARITY).await;
}

/// What younger servers than Redis 7.0 answer, the proxy answers over any masters: there is no old
/// Redis to compare with.
#[tokio::test]
async fn newer_commands() {
    if support::target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let (yes, no) = (Reply::Int(1), Reply::Int(0));
    for (line, expected) in [
        ("CLIENT SETINFO LIB-NAME tester", Reply::ok()),
        ("client setinfo lib-ver 1.0", Reply::ok()),
        ("SET lock mine NX PX 600000", Reply::ok()),
        ("SET lock new IFEQ other PX 600000", Reply::Nil),
        ("SET lock mine PX 700000 IFEQ mine", Reply::ok()),
        ("SET absent mine IFEQ mine", Reply::Nil),
        ("DELEX lock IFEQ other", no.clone()),
        ("DELEX lock IFEQ mine", yes.clone()),
        ("DELEX lock IFEQ mine", no.clone()),
        ("SET lock mine", Reply::ok()),
        ("DELIFEQ lock other", no),
        ("DELIFEQ lock mine", yes),
        ("GET lock", Reply::Nil),
    ] {
        assert_eq!(raw.ask(&words(line)).await, expected, "{line}");
    }
}

/// Commands on other data types are for lock scripts; sent directly they are refused by name, and
/// nothing else happens.
#[tokio::test]
async fn other_data_types_are_refused_by_name() {
    if support::target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    for line in ["HSET k f v", "LPUSH k v", "SADD k v", "ZADD k 1 v", "FLUSHALL", "FLUSHDB"] {
        let name = words(line)[0].to_lowercase();
        let refusal = raw.ask(&words(line)).await;
        assert!(refusal.is_error("ERR"), "{line} was answered {refusal:?}");
        assert!(refusal.text().to_lowercase().contains(&name), "{line} was answered {refusal:?}");
    }
    assert_eq!(raw.ask(&["EXISTS", "k"]).await, Reply::Int(0));
}

/// Sends every line of `table` to both, first in RESP2 and then in RESP3.
async fn compare(table: &str) {
    let redis = Master::start();
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--allow-flush"]);
    for version in ["2", "3"] {
        let mut expected = fresh(&redis.address(), version).await;
        let mut actual = fresh(proxy.address(), version).await;
        let mut failures = Vec::new();
        let lines: Vec<&str> = table.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        for (number, line) in lines.iter().enumerate() {
            let difference = compare_line(line, &mut expected, &mut actual).await;
            let before = lines[..number].last().unwrap_or(&"the start");
            failures.extend(difference.map(|how| format!("  after {before}:\n{how}")));
        }
        assert!(failures.is_empty(), "RESP{version} differs:\n{}", failures.join("\n"));
    }
}

/// A connection to an empty server.
async fn fresh(address: &str, version: &str) -> Raw {
    let mut raw = Raw::connect(address).await;
    assert_eq!(raw.ask(&["FLUSHALL"]).await, Reply::ok());
    assert_eq!(raw.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
    if version == "3" {
        raw = Raw::connect_resp3(address).await;
    }
    raw
}

/// Sends one line to both; tells how the replies differ, if they do.
async fn compare_line(line: &str, expected: &mut Raw, actual: &mut Raw) -> Option<String> {
    let (mark, command) = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((mark, command)) => (mark, command),
        None => ("", line),
    };
    let request: Vec<String> = words(command).iter().map(|word| fill_in(word)).collect();
    let request = support::encode(&request);
    expected.send(&request).await;
    actual.send(&request).await;
    let (expected, actual) = (expected.frame().await, actual.frame().await);
    (!same(mark, &expected, &actual)).then(|| {
        let [expected, actual] = [expected.1, actual.1].map(|bytes| printable(&bytes));
        format!("  {line}\n    redis: {expected}\n    proxy: {actual}")
    })
}

fn same(mark: &str, expected: &(Reply, Vec<u8>), actual: &(Reply, Vec<u8>)) -> bool {
    match mark.split_once([' ', ':']) {
        None => expected.1 == actual.1,
        Some(("within", limit)) => {
            close(&expected.0, &actual.0, limit.parse().expect("a number in [within N]"))
        }
        Some(("any", "order")) => sorted(&expected.0) == sorted(&actual.0),
        Some(("shape", _)) => expected.1[0] == actual.1[0],
        Some(_) => panic!("no such mark: [{mark}]"),
    }
}

/// Both integers are times left, or both say that there is none.
fn close(expected: &Reply, actual: &Reply, limit: i64) -> bool {
    match (expected, actual) {
        (Reply::Int(expected), Reply::Int(actual)) if *expected >= 0 && *actual >= 0 => {
            (expected - actual).abs() <= limit
        }
        _ => expected == actual,
    }
}

fn sorted(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => {
            let mut items: Vec<String> = items.iter().map(sorted).collect();
            items.sort();
            format!("{items:?}")
        }
        other => format!("{other:?}"),
    }
}

/// Puts times and scripts in the place of `{...}`.
fn fill_in(word: &str) -> String {
    let Some(name) = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return word.to_owned();
    };
    let script = |name: &str| match name {
        "release" => RELEASE,
        "extend" => EXTEND,
        other => panic!("no such script: {other}"),
    };
    if let Some(offset) = name.strip_prefix("nowms") {
        return (now_ms() + offset.parse::<i64>().expect("an offset")).to_string();
    }
    if let Some(offset) = name.strip_prefix("now") {
        return (now_ms() / 1000 + offset.parse::<i64>().expect("an offset")).to_string();
    }
    match name.strip_prefix("sha_") {
        Some(name) => Sha1::from(script(name)).hexdigest(),
        None => script(name).to_owned(),
    }
}

#[allow(clippy::disallowed_methods, reason = "absolute expiries are wall-clock times")]
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(now.as_millis()).expect("a time before the year 292 million")
}

fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
