//! Times to live that a quorum guarantees.

use super::Quorum;

/// Returns the largest remaining TTL that at least a quorum of the `holders` still guarantees. As in Redis's `PTTL`, -1
/// means "forever" and is therefore more than any number.
pub fn guaranteed_ttl_ms(quorum: Quorum, holders: impl Iterator<Item = i64>) -> i64 {
    let mut ttls: Vec<i64> = holders.map(comparable_ttl_ms).collect();
    ttls.sort_unstable_by(|a, b| b.cmp(a));
    match ttls.get(quorum.needed() - 1).copied() {
        Some(i64::MAX) => -1,
        Some(ttl) => ttl,
        None => 0,
    }
}

/// Maps a remaining TTL to a number that grows with it: "forever" is the largest.
pub fn comparable_ttl_ms(ttl_ms: i64) -> i64 {
    if ttl_ms < 0 { i64::MAX } else { ttl_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ttl_is_what_a_quorum_guarantees() {
        let quorum = Quorum::of(3);
        assert_eq!(guaranteed_ttl_ms(quorum, [5000, 4000, 9000].into_iter()), 5000);
        assert_eq!(guaranteed_ttl_ms(quorum, [-1, 4000, -1].into_iter()), -1);
        assert_eq!(guaranteed_ttl_ms(quorum, [-1, 4000].into_iter()), 4000);
        assert_eq!(guaranteed_ttl_ms(quorum, [0, 0].into_iter()), 0, "it ends now");
        assert_eq!(guaranteed_ttl_ms(quorum, [4000].into_iter()), 0, "one guarantees nothing");
    }
}
