//! Sends the same command lines to one plain `redis-server` and to the proxy over three masters,
//! and compares the replies byte for byte, in both versions of the protocol.
//!
//! A table holds one command per line; a quoted word may continue over several lines. A line may
//! begin with a mark that says what may differ and, unless that is just time, why:
//!
//! | mark | the replies are the same when |
//! | --- | --- |
//! | `[within N]` | integers are at most N apart (time passes between the two), the rest is equal |
//! | `[any order]` | lists hold the same elements |
//! | `[shape: why]` | they are of the same type |
//! | `[other]` | they are equal; a second connection sends the line |
//!
//! `{now+N}` and `{nowms+N}` stand for times in seconds and milliseconds, `{release}` and
//! `{extend}` for lock scripts, `{sha_release}` and `{sha_extend}` for their SHA1, and `"{sha1
//! TEXT}"` for the SHA1 of any text.

use std::time::{SystemTime, UNIX_EPOCH};

use sha1_smol::Sha1;

use super::raw::ends_inside_quotes;
use super::scripts::{EXTEND, RELEASE};
use super::{Master, Masters, Proxy, Raw, Reply, encode, words};

/// Sends every line of `table` to both, first in RESP2 and then in RESP3. Scripts are known the
/// second time: masters then run them as programs of their own, no longer through another program.
pub async fn compare(table: &str) {
    compare_with(&[], table).await;
}

/// Same as [`compare`], with extra flags for the proxy.
pub async fn compare_with(flags: &[&str], table: &str) {
    let redis = Master::start();
    let masters = Masters::start(3);
    let flags = [&["--allow-flush", "--vote-timeout", "3s"], flags].concat();
    let proxy = Proxy::start(&masters, &flags);
    for version in ["2", "3"] {
        let mut expected = Side::empty(&redis.address(), version).await;
        let mut actual = Side::empty(proxy.address(), version).await;
        let mut failures = Vec::new();
        let mut before = "the start".to_owned();
        for line in lines(table) {
            let difference = compare_line(&line, &mut expected, &mut actual).await;
            failures.extend(difference.map(|how| format!("  after {before}:\n{how}")));
            before = line;
        }
        assert!(failures.is_empty(), "RESP{version} differs:\n{}", failures.join("\n"));
    }
}

/// Splits a table into commands: its lines, joined where a quote is open at the end of a line.
pub fn lines(table: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in table.lines() {
        open = if open.is_empty() { line.trim().to_owned() } else { open + "\n" + line };
        if !open.is_empty() && !ends_inside_quotes(&open) {
            lines.push(std::mem::take(&mut open));
        }
    }
    assert!(open.is_empty(), "a quote is never closed: {open}");
    lines
}

/// One of the two servers, and a test's connections to it.
struct Side {
    first: Raw,
    other: Raw,
}

impl Side {
    /// Connects to a server and empties it.
    async fn empty(address: &str, version: &str) -> Side {
        let mut first = connect(address, version).await;
        assert_eq!(first.ask(&["FLUSHALL"]).await, Reply::ok());
        Side { first, other: connect(address, version).await }
    }

    fn connection(&mut self, mark: &str) -> &mut Raw {
        if mark == "other" { &mut self.other } else { &mut self.first }
    }
}

async fn connect(address: &str, version: &str) -> Raw {
    match version {
        "3" => Raw::connect_resp3(address).await,
        _ => Raw::connect(address).await,
    }
}

/// Sends one line to both. Returns a description of the difference between the replies, if there is
/// one.
async fn compare_line(line: &str, expected: &mut Side, actual: &mut Side) -> Option<String> {
    let (mark, command) = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((mark, command)) => (mark, command),
        None => ("", line),
    };
    let request: Vec<String> = words(command).iter().map(|word| fill_in(word)).collect();
    let request = encode(&request);
    let (expected, actual) = (expected.connection(mark), actual.connection(mark));
    expected.send(&request).await;
    actual.send(&request).await;
    let (expected, actual) = (expected.frame().await, actual.frame().await);
    (!same(mark, &expected, &actual)).then(|| {
        let [expected, actual] = [expected.1, actual.1].map(|bytes| printable(&bytes));
        format!("  {line}\n    redis: {expected}\n    proxy: {actual}")
    })
}

/// Returns whether two replies, each with its bytes, are the same under a mark.
pub fn same(mark: &str, expected: &(Reply, Vec<u8>), actual: &(Reply, Vec<u8>)) -> bool {
    let same_type = expected.1[0] == actual.1[0];
    match mark.split_once([' ', ':']) {
        None => expected.1 == actual.1,
        Some(("within", limit)) => {
            let limit = limit.parse().expect("a number in [within N]");
            same_type && close(&expected.0, &actual.0, limit)
        }
        Some(("any", "order")) => same_type && sorted(&expected.0) == sorted(&actual.0),
        Some(("shape", _)) => same_type,
        Some(_) => panic!("no such mark: [{mark}]"),
    }
}

/// Compares remaining times, which may be a little apart. -1 and -2, which mean that there is no
/// such time, must match.
fn close(expected: &Reply, actual: &Reply, limit: i64) -> bool {
    match (expected, actual) {
        (Reply::Int(expected), Reply::Int(actual)) if *expected >= 0 && *actual >= 0 => {
            (expected - actual).abs() <= limit
        }
        (Reply::Array(expected), Reply::Array(actual)) => {
            expected.len() == actual.len()
                && expected
                    .iter()
                    .zip(actual)
                    .all(|(expected, actual)| close(expected, actual, limit))
        }
        _ => expected == actual,
    }
}

/// Renders a reply so that lists and maps with the same elements give the same text.
pub fn sorted(reply: &Reply) -> String {
    let mut items: Vec<String> = match reply {
        Reply::Array(items) => items.iter().map(sorted).collect(),
        Reply::Map(fields) => {
            fields.iter().map(|(key, value)| sorted(key) + "=" + &sorted(value)).collect()
        }
        other => return format!("{other:?}"),
    };
    items.sort();
    format!("{items:?}")
}

/// Replaces `{...}` placeholders with times and scripts.
fn fill_in(word: &str) -> String {
    let Some(name) = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return word.to_owned();
    };
    if let Some(text) = name.strip_prefix("sha1 ") {
        return Sha1::from(text).hexdigest();
    }
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

/// Unix time in milliseconds.
#[allow(clippy::disallowed_methods, reason = "absolute expiries are wall-clock times")]
pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(now.as_millis()).expect("a time before the year 292 million")
}

/// Start of a reply, in readable form.
pub fn printable(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(PRINTED)];
    let rest = bytes.len() - shown.len();
    let rest = if rest > 0 { format!(" and {rest} bytes more") } else { String::new() };
    format!("{}{rest}", shown.escape_ascii())
}

/// Maximum bytes of a reply in a failure message: enough for the start of a difference, not
/// megabytes.
const PRINTED: usize = 600;
