//! Redlock's validity arithmetic, seen from the masters' side.
//!
//! A Redlock client shortens its own lease: "validity time = TTL - elapsed - drift". An unmodified client believes in
//! the whole TTL it asked for. So the masters keep the key longer by the same amount: the pad. It covers the
//! *freshness*: how long after sending a quorum's yes may still be answered with `OK`.

use std::time::Duration;

/// Expiry granularity on a master, in milliseconds (the "+ 2 milliseconds" of Redlock's text).
const GRANULARITY_MS: i64 = 2;

/// Least freshness, in milliseconds: below it an idle network would seem slow.
const LEAST_FRESHNESS_MS: u64 = 5;

/// Freshness of a short TTL, as its part of it: a `GET` soon after the end of 100 ms finds nothing.
const PART_OF_SHORT_TTL: u64 = 10;

/// Largest TTL that Redis can add to its wall clock without overflow (`expire.c`), with room for centuries of clock.
const MAX_TTL_MS: i64 = i64::MAX - (1 << 50);

/// How long a quorum's yes stays good, and how much longer than asked the masters keep a key for that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pad {
    freshness_ms: i64,
    drift: f64,
}

impl Pad {
    /// The pad for a lease of `asked_ms`.
    ///
    /// `drift` is the largest difference in rate between two clocks, as a fraction (0.01 = 1 %).
    pub fn of_ttl(asked_ms: i64, vote_timeout: Duration, round_trip: Duration, drift: f64) -> Self {
        Self::of_freshness(freshness(asked_ms, vote_timeout, round_trip), drift)
    }

    /// The pad that covers `freshness`, which a late quorum has doubled.
    pub fn of_freshness(freshness: Duration, drift: f64) -> Self {
        let freshness_ms = i64::try_from(freshness.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
        Self { freshness_ms: freshness_ms.min(MAX_TTL_MS), drift }
    }

    /// The TTL to set on the masters for the TTL that was asked, both in milliseconds.
    pub fn pad(self, asked_ms: i64) -> i64 {
        let asked_ms = asked_ms.min(MAX_TTL_MS);
        let apart_ms =
            (asked_ms.saturating_add(self.freshness_ms) as f64 * self.drift).ceil() as i64;
        asked_ms.saturating_add(apart_ms).saturating_add(self.fixed_ms()).min(MAX_TTL_MS)
    }

    /// What of a remaining TTL on the masters is the client's. Never negative: the key does exist.
    pub fn unpad(self, remaining_ms: i64) -> i64 {
        let both = remaining_ms.saturating_sub(GRANULARITY_MS).max(0);
        ((both as f64 / (1.0 + self.drift)) as i64).saturating_sub(self.freshness_ms).max(0)
    }

    fn fixed_ms(self) -> i64 {
        self.freshness_ms.saturating_add(GRANULARITY_MS)
    }
}

/// How long after sending a quorum's yes grants a lease of `asked_ms`.
///
/// The vote timeout, or twice the usual round trip if that is longer; for short TTLs a tenth of the TTL.
pub fn freshness(asked_ms: i64, vote_timeout: Duration, round_trip: Duration) -> Duration {
    let part_ms = asked_ms.max(0).unsigned_abs() / PART_OF_SHORT_TTL;
    let short = Duration::from_millis(part_ms.max(LEAST_FRESHNESS_MS));
    vote_timeout.max(round_trip.saturating_mul(2)).min(short)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DRIFT: f64 = 0.01;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn usual(asked_ms: i64) -> Pad {
        Pad::of_ttl(asked_ms, ms(50), ms(1), DRIFT)
    }

    proptest! {
        /// The validity rule. The reply leaves at the last moment of the freshness, the proxy's clock is slow and the
        /// masters' clocks are fast by all of the drift, and the masters voted as soon as the claim was sent.
        #[test]
        fn a_quorum_keeps_the_lease_for_as_long_as_the_client_believes_in_it(
            asked_ms in 1i64..100_000_000, vote_timeout in 1u64..10_000, doublings in 0u32..6
        ) {
            let first = freshness(asked_ms, ms(vote_timeout), ms(1));
            let freshness = first * 2u32.pow(doublings);
            let on_masters = Pad::of_freshness(freshness, DRIFT).pad(asked_ms) as f64;
            let believed = (freshness.as_millis() as i64 + asked_ms) as f64 * (1.0 + DRIFT);
            prop_assert!(on_masters >= believed, "{} < {}", on_masters, believed);
        }

        #[test]
        fn what_was_padded_comes_back(asked_ms in 1i64..100_000_000) {
            let back = usual(asked_ms).unpad(usual(asked_ms).pad(asked_ms));
            prop_assert!((asked_ms - 1..=asked_ms + 1).contains(&back), "{} -> {}", asked_ms, back);
        }

        /// Masters add what they get to their own clocks, which Redis does in 64 bits.
        #[test]
        fn no_time_of_a_client_wraps_anywhere(
            asked_ms in prop_oneof![1..=i64::MAX, i64::MAX - 100_000..=i64::MAX, Just(1)],
            drift in 0.0..=0.5,
            freshness_ms: u64,
        ) {
            let pad = Pad::of_freshness(ms(freshness_ms), drift);
            let on_masters = pad.pad(asked_ms);
            let year_3000_ms = 32_503_680_000_000;
            prop_assert!(on_masters >= asked_ms.min(MAX_TTL_MS));
            prop_assert!(on_masters.checked_add(year_3000_ms).is_some());
            prop_assert!((0..=on_masters).contains(&pad.unpad(on_masters)));
        }
    }

    #[test]
    fn a_long_ttl_has_the_vote_timeout_or_two_round_trips() {
        assert_eq!(freshness(30_000, ms(50), ms(1)), ms(50));
        assert_eq!(freshness(30_000, ms(50), ms(80)), ms(160));
        assert_eq!(usual(10_000).pad(10_000), 10_000 + 101 + 50 + 2);
    }

    #[test]
    fn a_short_ttl_has_a_tenth_of_itself_but_not_less_than_5_ms() {
        assert_eq!(freshness(100, ms(50), ms(1)), ms(10));
        assert_eq!(freshness(30, ms(50), ms(80)), ms(5));
        assert_eq!(freshness(0, ms(50), ms(1)), ms(5));
        assert!(usual(100).pad(100) < 120, "a GET after 120 ms finds nothing");
    }

    #[test]
    fn a_vote_timeout_shorter_than_a_tenth_stays() {
        assert_eq!(freshness(1_000, ms(3), ms(1)), ms(3));
    }

    #[test]
    fn a_remaining_time_shorter_than_the_pad_is_nothing() {
        assert_eq!(usual(10_000).unpad(51), 0);
    }
}
