//! Redlock's validity arithmetic, seen from the masters' side.
//!
//! A Redlock client shortens its own lease: "validity time = TTL - elapsed - drift". An unmodified client trusts the
//! whole TTL it asked for. So the masters keep the key longer by the same amount: the pad. It covers the *freshness*:
//! how long after sending the proxy may still answer a quorum's yes with `OK`.

use std::time::Duration;

/// Expiry granularity on a master, in milliseconds (the "+ 2 milliseconds" of Redlock's text).
const GRANULARITY_MS: i64 = 2;

/// Minimum freshness, in milliseconds. Anything lower would make an idle network seem slow.
const LEAST_FRESHNESS_MS: u64 = 5;

/// Divisor that gives the freshness of a short TTL: a `GET` soon after the end of 100 ms finds nothing.
const PART_OF_SHORT_TTL: u64 = 10;

/// Maximum TTL sent to masters, 142,000 years: scripts add it to a time of day without rounding.
const MAX_TTL_MS: i64 = 1 << 52;

/// Extra time for which masters keep a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pad {
    vote_timeout: Duration,
    drift: f64,
}

impl Pad {
    /// Creates a pad. `drift` is the largest difference in rate between two clocks, as a fraction (0.01 = 1 %).
    pub fn new(vote_timeout: Duration, drift: f64) -> Self {
        Self { vote_timeout, drift }
    }

    /// Returns how long after sending a quorum's yes still grants a lease of `asked_ms`.
    ///
    /// This is the vote timeout, or twice the usual round trip if that is longer; for short TTLs, a tenth of the TTL.
    pub fn freshness(self, asked_ms: i64, round_trip: Duration) -> Duration {
        let part_ms = asked_ms.max(0).unsigned_abs() / PART_OF_SHORT_TTL;
        let short = Duration::from_millis(part_ms.max(LEAST_FRESHNESS_MS));
        self.vote_timeout.max(round_trip.saturating_mul(2)).min(short)
    }

    /// Returns the TTL to set on the masters for the TTL that the client asked for, both in milliseconds. It covers
    /// `freshness`.
    pub fn pad_for(self, asked_ms: i64, freshness: Duration) -> i64 {
        let freshness_ms = millis_up(freshness).min(MAX_TTL_MS);
        let asked_ms = asked_ms.min(MAX_TTL_MS);
        let apart_ms = (asked_ms.saturating_add(freshness_ms) as f64 * self.drift).ceil() as i64;
        let fixed_ms = freshness_ms.saturating_add(GRANULARITY_MS);
        asked_ms.saturating_add(apart_ms).saturating_add(fixed_ms).min(MAX_TTL_MS)
    }

    /// Returns the padded TTL for a network that is faster than the vote timeout.
    pub fn pad(self, asked_ms: i64) -> i64 {
        self.pad_for(asked_ms, self.freshness(asked_ms, Duration::ZERO))
    }

    /// Returns the client's share of a remaining TTL on the masters. It is never negative, since the key exists.
    ///
    /// The original TTL is unknown, so the remaining TTL is taken for the whole one.
    pub fn unpad(self, remaining_ms: i64) -> i64 {
        let both = remaining_ms.saturating_sub(GRANULARITY_MS).max(0);
        let both = (both as f64 / (1.0 + self.drift)) as i64;
        let part_ms = (both / (PART_OF_SHORT_TTL as i64 + 1)).max(LEAST_FRESHNESS_MS as i64);
        both.saturating_sub(part_ms.min(millis_up(self.vote_timeout))).max(0)
    }

    /// Returns how long a verdict waits for a silent minority.
    pub fn vote_timeout(self) -> Duration {
        self.vote_timeout
    }

    /// Returns the largest difference in rate between two clocks.
    pub fn drift(self) -> f64 {
        self.drift
    }
}

fn millis_up(duration: Duration) -> i64 {
    let rest = i64::from(duration.subsec_nanos().div_ceil(1_000_000));
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    seconds.saturating_mul(1000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DRIFT: f64 = 0.01;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn pad() -> Pad {
        Pad::new(ms(50), DRIFT)
    }

    proptest! {
        /// Checks the validity rule in the worst case. The masters voted as soon as the claim was sent, and the reply
        /// leaves at the last moment of the freshness. The proxy's clock is slow and the masters' clocks are fast, by
        /// all of the drift.
        #[test]
        fn a_quorum_keeps_the_lease_for_as_long_as_the_client_believes_in_it(
            asked_ms in 1i64..100_000_000, vote_timeout in 1u64..10_000, doublings in 0u32..6
        ) {
            let pad = Pad::new(ms(vote_timeout), DRIFT);
            let freshness = pad.freshness(asked_ms, ms(1)) * 2u32.pow(doublings);
            let on_masters = pad.pad_for(asked_ms, freshness) as f64;
            let believed = (freshness.as_millis() as i64 + asked_ms) as f64 * (1.0 + DRIFT);
            prop_assert!(on_masters >= believed, "{} < {}", on_masters, believed);
        }

        #[test]
        fn what_was_padded_comes_back(asked_ms in 1i64..100_000_000) {
            let back = pad().unpad(pad().pad(asked_ms));
            prop_assert!((asked_ms - 2..=asked_ms + 2).contains(&back), "{} -> {}", asked_ms, back);
        }

        /// Masters add TTLs to their own clocks, and Redis does that in 64 bits.
        #[test]
        fn no_time_of_a_client_wraps_anywhere(
            asked_ms in prop_oneof![1..=i64::MAX, i64::MAX - 100_000..=i64::MAX, Just(1)],
            drift in 0.0..=0.5,
            freshness_ms: u64,
        ) {
            let pad = Pad::new(ms(50), drift);
            let on_masters = pad.pad_for(asked_ms, ms(freshness_ms));
            let year_3000_ms = 32_503_680_000_000;
            prop_assert!(on_masters >= asked_ms.min(MAX_TTL_MS));
            prop_assert!(on_masters.checked_add(year_3000_ms).is_some());
            prop_assert!((0..=on_masters).contains(&pad.unpad(on_masters)));
        }
    }

    #[test]
    fn a_long_ttl_has_the_vote_timeout_or_two_round_trips() {
        assert_eq!(pad().freshness(30_000, ms(1)), ms(50));
        assert_eq!(pad().freshness(30_000, ms(80)), ms(160));
        assert_eq!(pad().pad(10_000), 10_000 + 101 + 50 + 2);
    }

    #[test]
    fn a_short_ttl_has_a_tenth_of_itself_but_not_less_than_5_ms() {
        assert_eq!(pad().freshness(100, ms(1)), ms(10));
        assert_eq!(pad().freshness(30, ms(80)), ms(5));
        assert_eq!(pad().freshness(0, ms(1)), ms(5));
        assert!(pad().pad(100) < 120, "a GET after 120 ms finds nothing");
    }

    #[test]
    fn a_vote_timeout_shorter_than_a_tenth_stays() {
        assert_eq!(Pad::new(ms(3), DRIFT).freshness(1_000, ms(1)), ms(3));
    }

    #[test]
    fn a_remaining_time_shorter_than_the_pad_is_nothing() {
        assert_eq!(pad().unpad(6), 0);
    }
}
