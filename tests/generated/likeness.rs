//! Comparison of two replies, or of two states of a key.

use super::commands::FAR_MS;
use crate::support::Reply;

/// Returns whether two replies are equal, apart from times to live, which run down between the two, and from order
/// where it has no meaning.
pub(crate) fn alike(expected: &Reply, actual: &Reply, unordered: bool) -> bool {
    match (expected, actual) {
        (Reply::Int(expected), Reply::Int(actual)) => same_number(*expected, *actual),
        (Reply::Array(expected), Reply::Array(actual)) => {
            let same = |one: &Reply, other: &Reply| alike(one, other, unordered);
            if unordered {
                same_bag(expected, actual, same)
            } else {
                same_list(expected, actual, same)
            }
        }
        (Reply::Map(expected), Reply::Map(actual)) => same_bag(expected, actual, |one, other| {
            alike(&one.0, &other.0, unordered) && alike(&one.1, &other.1, unordered)
        }),
        _ => expected == actual,
    }
}

/// Compares numbers. Times to live may differ by 2 %: masters pad them, and some time passes between the requests.
pub(crate) fn same_number(expected: i64, actual: i64) -> bool {
    let far_s = i64::try_from(FAR_MS / 1000).expect("a small number");
    let near = (expected - actual).abs() <= expected / 50;
    expected == actual || (expected > far_s / 2 && near)
}

fn same_list<T>(expected: &[T], actual: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    expected.len() == actual.len()
        && expected.iter().zip(actual).all(|(one, other)| same(one, other))
}

/// Returns whether both contain the same elements, each the same number of times.
fn same_bag<T>(expected: &[T], actual: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    let mut rest: Vec<&T> = actual.iter().collect();
    for one in expected {
        let Some(found) = rest.iter().position(|other| same(one, other)) else { return false };
        rest.swap_remove(found);
    }
    rest.is_empty()
}
