//! Comparison of two replies.

use crate::allowed::Rule;
use crate::support::Reply;

/// A reply and its raw bytes.
pub(crate) type Frame = (Reply, Vec<u8>);

/// Returns whether the two replies are equal under this rule.
pub(crate) fn same(expected: &Frame, actual: &Frame, rule: Rule) -> bool {
    expected.1 == actual.1
        || rule.anything
        || rule.allows_refusal(&expected.0, &actual.0)
        || expected.1[0] == actual.1[0] && (rule.kind || alike(&expected.0, &actual.0, rule))
}

/// Like [`same`], for replies inside an `EXEC`, whose raw bytes are not available.
pub(crate) fn same_inside(expected: &Reply, actual: &Reply, rule: Rule) -> bool {
    let same_type = std::mem::discriminant(expected) == std::mem::discriminant(actual);
    let is_refused = rule.allows_refusal(expected, actual);
    rule.anything || is_refused || same_type && (rule.kind || alike(expected, actual, rule))
}

impl Rule {
    /// Returns whether exactly one side refused the request, and the rule permits that.
    fn allows_refusal(self, expected: &Reply, actual: &Reply) -> bool {
        let only = |one: &Reply, other: &Reply, why| refuses(one, why) && !refuses(other, why);
        self.scores && only(expected, actual, SCORES) || self.locks && only(actual, expected, LOCKS)
    }
}

/// Error text that a plain Redis also sends when an earlier command has left an `errno` behind.
const SCORES: &str = "One or more scores can't be converted into double";

/// Error text that the proxy sends when a read-only script uses a lock in a way that is not supported there.
const LOCKS: &str = "of a lock is not supported in a read-only script";

/// Returns whether the reply, or one inside it, contains this error text.
fn refuses(reply: &Reply, why: &str) -> bool {
    match reply {
        Reply::Array(items) => items.iter().any(|item| refuses(item, why)),
        Reply::Bulk(found) => String::from_utf8_lossy(found).contains(why),
        Reply::Error(found) | Reply::Simple(found) => found.contains(why),
        _ => false,
    }
}

fn alike(expected: &Reply, actual: &Reply, rule: Rule) -> bool {
    match (expected, actual) {
        (Reply::Int(one), Reply::Int(other)) => rule.numbers || same_number(*one, *other),
        (Reply::Array(one), Reply::Array(other)) => {
            let (one, other) = (in_order(one, rule), in_order(other, rule));
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| alike(one, other, rule))
        }
        (Reply::Map(one), Reply::Map(other)) => {
            let (one, other) = (flat(one), flat(other));
            let pairs = |flat: &[Reply]| {
                flat.chunks(2).map(|pair| Reply::Array(pair.to_vec())).collect::<Vec<_>>()
            };
            alike(&Reply::Array(pairs(&one)), &Reply::Array(pairs(&other)), rule)
        }
        (Reply::Bulk(one), Reply::Bulk(other)) if rule.raw && one == b"raw" => {
            [&b"raw"[..], b"embstr", b"int"].contains(&&other[..])
        }
        (Reply::Bulk(one), Reply::Bulk(other)) if rule.times => {
            without_lines(one) == without_lines(other)
        }
        (Reply::Error(one), Reply::Error(other)) | (Reply::Simple(one), Reply::Simple(other))
            if rule.times =>
        {
            without_lines(one.as_bytes()) == without_lines(other.as_bytes())
        }
        // A big number: Redis turns any text into one.
        (Reply::Other('(', one), Reply::Other('(', other)) if rule.times => {
            without_lines(one.as_bytes()) == without_lines(other.as_bytes())
        }
        _ => expected == actual,
    }
}

/// Returns the items in the order of the reply, or sorted if the rule ignores order.
fn in_order(items: &[Reply], rule: Rule) -> Vec<&Reply> {
    let mut items: Vec<_> = items.iter().collect();
    if rule.order {
        items.sort_by_cached_key(|item| text(item));
    }
    items
}

/// Returns a text that is equal for replies with equal elements in any order.
fn text(reply: &Reply) -> String {
    let mut items = match reply {
        Reply::Array(items) => items.iter().map(text).collect(),
        Reply::Map(pairs) => pairs.iter().map(|(key, value)| text(key) + &text(value)).collect(),
        Reply::Int(_) => vec!["number".to_owned()],
        other => vec![format!("{other:?}")],
    };
    items.sort();
    items.concat()
}

fn flat(pairs: &[(Reply, Reply)]) -> Vec<Reply> {
    pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect()
}

/// Removes the line numbers that errors name, and the kind of variable they mention.
fn without_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace("upvalue '", "global '");
    let mut parts = text.split("user_script:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(": ") {
            Some(error) => text + error,
            None => text + "user_script:" + rest,
        }
    })
}

/// Returns whether two numbers are equal. Times to live are padded on masters, and time passes between the two
/// requests, so numbers of that size may differ by 2 %. Lua rounds integers that it cannot represent.
fn same_number(expected: i64, actual: i64) -> bool {
    let apart = expected.abs_diff(actual);
    let may_be_time = expected > FAR && apart <= expected.unsigned_abs() / 50;
    expected == actual || may_be_time || expected < -EXACT && apart <= ROUNDING
}

/// The largest integer up to which Lua represents every integer exactly.
const EXACT: i64 = 1 << 53;

/// Maximum error when Lua rounds a 64-bit integer.
const ROUNDING: u64 = 512;

/// A number below every time to live in a sequence.
const FAR: i64 = 10_000_000;

/// Tests the comparison itself: which replies count as equal, and which do not.
#[test]
fn replies_that_differ_are_told() {
    let list = |items: &[&str]| Reply::Array(items.iter().map(|item| Reply::bulk(item)).collect());
    let map = |key: &str| Reply::Map(vec![(Reply::bulk(key), Reply::Int(1))]);
    let none = Rule::default();
    let order = Rule { order: true, ..none };
    let times = Rule { times: true, ..none };
    let numbers = Rule { numbers: true, ..none };
    let scores = Rule { scores: true, ..none };
    let no_scores = || Reply::Error("ERR One or more scores can't be converted into double".into());
    let locks = Rule { locks: true, ..none };
    let of_a_lock = || Reply::Error(format!("ERR 'lcs' {LOCKS} of redlock-proxy"));
    let raw = Rule { raw: true, times: true, ..none };
    for (one, other, rule, expected) in [
        (Reply::Int(7), Reply::Int(8), none, false),
        (Reply::Int(7), Reply::Int(8), numbers, true),
        (Reply::Int(100 * FAR), Reply::Int(101 * FAR), none, true),
        (Reply::Int(100 * FAR), Reply::Int(103 * FAR), none, false),
        (Reply::Int(-1), Reply::Int(-2), none, false),
        (Reply::Int(-100 * FAR), Reply::Int(-101 * FAR), none, false),
        (Reply::Int(1 - (1 << 62)), Reply::Int(-(1 << 62)), none, true),
        (Reply::Int(1000 - (1 << 62)), Reply::Int(-(1 << 62)), none, false),
        (Reply::Int(i64::MAX), Reply::Int(i64::MIN), none, false),
        (list(&["a", "b"]), list(&["b", "a"]), none, false),
        (list(&["a", "b"]), list(&["b", "a"]), order, true),
        (list(&["a", "b"]), list(&["a", "a"]), order, false),
        (list(&["a"]), list(&["a", "a"]), order, false),
        (map("a"), map("b"), order, false),
        (no_scores(), list(&["1"]), scores, true),
        (list(&["1"]), no_scores(), scores, false),
        (no_scores(), list(&["1"]), none, false),
        (Reply::Int(7), of_a_lock(), locks, true),
        (of_a_lock(), Reply::Int(7), locks, false),
        (Reply::Int(7), of_a_lock(), none, false),
        (Reply::bulk("raw"), Reply::bulk("embstr"), raw, true),
        (Reply::bulk("raw"), Reply::bulk("int"), raw, true),
        (Reply::bulk("raw"), Reply::bulk("listpack"), raw, false),
        (Reply::bulk("embstr"), Reply::bulk("raw"), raw, false),
        (Reply::bulk("raw"), Reply::bulk("embstr"), times, false),
        (Reply::bulk("a"), Reply::Simple("a".into()), order, false),
        (Reply::bulk("user_script:1: x"), Reply::bulk("user_script:49: x"), times, true),
        (Reply::bulk("user_script:1: x"), Reply::bulk("x"), times, true),
        (Reply::Simple("user_script:1: x".into()), Reply::Simple("x".into()), times, true),
        (Reply::Simple("user_script:1: x".into()), Reply::Simple("x".into()), none, false),
        (Reply::bulk("user_script:1: x"), Reply::bulk("user_script:1: y"), times, false),
    ] {
        assert_eq!(same_inside(&one, &other, rule), expected, "{one:?} {other:?}");
    }
}
