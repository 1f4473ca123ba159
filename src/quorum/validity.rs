//! Redlock's time arithmetic, seen from the masters' side.
//!
//! A Redlock client shortens its own lease: `validity = TTL - elapsed - drift`. An unmodified client
//! believes in the whole TTL it asked for and cannot be told otherwise, so the masters keep the key
//! longer by the same amount: the pad. A grant is only given within the vote timeout, hence from the
//! moment of the reply a quorum keeps the key for at least the TTL that was asked.

use std::time::Duration;

/// Expiry granularity and propagation on a master, in milliseconds (the "+ 2 ms" of Redlock's text).
const GRANULARITY_MS: i64 = 2;

/// The largest TTL that Redis can add to its wall clock without overflow (`expire.c`), with room
/// for some centuries of clock.
const MAX_TTL_MS: i64 = i64::MAX - (1 << 50);

/// How much longer than asked the masters keep a key.
#[derive(Clone, Copy, Debug)]
pub struct Pad {
    vote_timeout_ms: i64,
    drift: f64,
}

impl Pad {
    /// `drift` is the largest difference in rate between two clocks, as a fraction (0.01 = 1 %).
    pub fn new(vote_timeout: Duration, drift: f64) -> Self {
        Self { vote_timeout_ms: millis_up(vote_timeout), drift }
    }

    /// The TTL to set on the masters for the TTL that was asked, both in milliseconds.
    pub fn pad(self, asked_ms: i64) -> i64 {
        let drift_ms = (asked_ms as f64 * self.drift).ceil() as i64;
        asked_ms.saturating_add(drift_ms).saturating_add(self.fixed_ms()).min(MAX_TTL_MS)
    }

    /// What of a remaining TTL on the masters is the client's. Never negative: the key does exist.
    pub fn unpad(self, remaining_ms: i64) -> i64 {
        let unfixed = remaining_ms.saturating_sub(self.fixed_ms()).max(0);
        (unfixed as f64 / (1.0 + self.drift)) as i64
    }

    /// By how much a remaining TTL on one master may differ from our own reckoning after `elapsed_ms`.
    pub fn slack_ms(self, elapsed_ms: i64) -> i64 {
        (elapsed_ms as f64 * self.drift).ceil() as i64 + GRANULARITY_MS
    }

    /// How long one round of ballots may take.
    pub fn vote_timeout(self) -> Duration {
        Duration::from_millis(self.vote_timeout_ms.unsigned_abs())
    }

    /// The largest difference in rate between two clocks.
    pub fn drift(self) -> f64 {
        self.drift
    }

    /// What is added to every TTL, however short, in milliseconds.
    pub fn fixed_ms(self) -> i64 {
        self.vote_timeout_ms + GRANULARITY_MS
    }
}

/// The remaining TTL a master must show for a key that a claim of ours has set there, so that
/// nobody else's key with the same value is undone.
///
/// Tokens are meant to be unique, but legacy `SETNX lock 1` code and libraries that use one token per
/// process do exist; for them the TTL tells one claim from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlWindow {
    /// The least remaining TTL in milliseconds; -1 lets a key without TTL in.
    pub least_ms: i64,
    /// The greatest remaining TTL in milliseconds.
    pub most_ms: i64,
}

impl TtlWindow {
    /// Whatever TTL there is, or none.
    pub const ANY: Self = Self { least_ms: -1, most_ms: i64::MAX };

    /// A key set with `ttl_ms` between `earliest` and `latest` ago.
    pub fn of_claim(pad: Pad, ttl_ms: i64, earliest: Duration, latest: Duration) -> Self {
        let (earliest_ms, latest_ms) = (millis_up(earliest), latest.as_millis() as i64);
        let least_ms = ttl_ms.saturating_sub(earliest_ms).saturating_sub(pad.slack_ms(earliest_ms));
        let most_ms = ttl_ms.saturating_sub(latest_ms).saturating_add(pad.slack_ms(latest_ms));
        Self { least_ms: least_ms.max(0), most_ms }
    }

    /// A lock that other masters saw end `remaining_ms` after it was released, `elapsed` ago.
    pub fn of_release(pad: Pad, remaining_ms: i64, elapsed: Duration) -> Self {
        if remaining_ms < 0 {
            return Self { least_ms: -1, most_ms: -1 };
        }
        let elapsed_ms = millis_up(elapsed);
        let most_ms = remaining_ms.saturating_sub(elapsed_ms);
        Self { least_ms: 0, most_ms: most_ms.saturating_add(pad.slack_ms(remaining_ms)) }
    }
}

fn millis_up(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pad() -> Pad {
        Pad::new(Duration::from_millis(50), 0.01)
    }

    proptest! {
        #[test]
        fn what_was_padded_comes_back(asked in 1i64..100_000_000) {
            let back = pad().unpad(pad().pad(asked));
            prop_assert!((asked - 1..=asked + 1).contains(&back), "{} -> {}", asked, back);
        }

        /// Masters add what they get to their own clocks, which Redis does in 64 bits.
        #[test]
        fn no_time_of_a_client_wraps_anywhere(
            asked in prop_oneof![1..=i64::MAX, i64::MAX - 100_000..=i64::MAX, Just(1)],
            drift in 0.0..=0.5,
            vote_timeout_ms in 1u64..=10_000,
            elapsed_ms in 0u64..=u64::MAX / 2,
        ) {
            let pad = Pad::new(Duration::from_millis(vote_timeout_ms), drift);
            let on_masters = pad.pad(asked);
            let year_3000_ms = 32_503_680_000_000;
            prop_assert!(on_masters >= asked.min(MAX_TTL_MS));
            prop_assert!(on_masters.checked_add(year_3000_ms).is_some());
            prop_assert!((0..=on_masters).contains(&pad.unpad(on_masters)));
            let elapsed = Duration::from_millis(elapsed_ms);
            let window = TtlWindow::of_claim(pad, on_masters, elapsed, Duration::ZERO);
            prop_assert!(window.least_ms <= window.most_ms);
            prop_assert!(TtlWindow::of_release(pad, on_masters, elapsed).least_ms == 0);
        }

        /// The validity rule: a quorum still keeps the key when the client's lease ends, with the
        /// reply given at the last moment and the master's clock fast by the whole drift.
        #[test]
        fn the_masters_outlive_the_lease(asked in 1i64..100_000_000, reply_after in 0i64..=50) {
            let on_masters = pad().pad(asked) as f64;
            let lease_end_on_fast_clock = (reply_after + asked) as f64 * 1.01;
            prop_assert!(on_masters + 0.5 >= lease_end_on_fast_clock);
        }
    }

    #[test]
    fn a_thousand_years_do_not_overflow() {
        assert!(pad().pad(31_557_600_000_000) > 31_557_600_000_000);
        assert!(pad().pad(i64::MAX) < i64::MAX);
    }

    #[test]
    fn every_ttl_is_padded_by_one_vote_and_the_granularity() {
        assert_eq!(pad().fixed_ms(), 52);
        assert_eq!(pad().vote_timeout(), Duration::from_millis(50));
        assert_eq!(pad().pad(10_000), 10_000 + 100 + 52);
        assert_eq!(pad().drift(), 0.01);
    }

    #[test]
    fn a_window_is_as_wide_as_clocks_may_differ() {
        let second = Duration::from_secs(1);
        let window = TtlWindow::of_claim(pad(), 30_000, second, second);
        assert_eq!((window.least_ms, window.most_ms), (29_000 - 12, 29_000 + 12));
        let window = TtlWindow::of_release(pad(), 10_000, second);
        assert_eq!((window.least_ms, window.most_ms), (0, 9_000 + 102));
    }

    #[test]
    fn a_lock_without_ttl_is_only_in_the_windows_for_such() {
        assert_eq!(TtlWindow::ANY.least_ms, -1);
        let of_release = |remaining_ms| TtlWindow::of_release(pad(), remaining_ms, Duration::ZERO);
        assert_eq!(of_release(-1), TtlWindow { least_ms: -1, most_ms: -1 });
        assert_eq!(of_release(0), TtlWindow { least_ms: 0, most_ms: 2 });
    }

    #[test]
    fn the_window_lets_our_claim_in_and_an_older_one_out() {
        let window = |latest| {
            let latest = Duration::from_millis(latest);
            let window = TtlWindow::of_claim(pad(), 30_000, Duration::from_millis(1_010), latest);
            window.least_ms..=window.most_ms
        };
        assert!(window(0).contains(&29_995));
        assert!(window(1_000).contains(&28_995));
        assert!(!window(1_000).contains(&28_000), "an older claim");
        assert!(!window(1_000).contains(&29_500), "a younger claim");
    }
}
