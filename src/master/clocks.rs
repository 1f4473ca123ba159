//! How the masters' clocks go. Redis ends keys by its wall clock: one that is set forward, or runs too fast,
//! ends locks before their time.
//!
//! Each look at a master gives the difference between its clock and our monotonic one, to within half of
//! the time that the look took. If two differences are further apart than the drift bound allows, one of
//! the clocks has jumped. When all masters seem to have made the same jump, it was ours: the proxy's host
//! was suspended. Nothing in here knows a socket or a clock.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::clock::Instant;
use crate::quorum::MasterId;

/// So many looks are compared with each other: rates show only over some time.
const WINDOW: usize = 10;

/// How long the other masters have to confirm that the jump was ours.
const CONFIRMATION: Duration = Duration::from_secs(2);

/// The clock of a master as it was read once.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// When we asked, and when we had the answer.
    pub asked: Instant,
    /// See `asked`.
    pub answered: Instant,
    /// What its clock said, in microseconds of Unix time.
    pub unix_micros: i64,
}

/// How far a clock has gone wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// By so many microseconds it is ahead of where it should be.
    ahead_us: i64,
    /// Within this time.
    within: Duration,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ms, way) =
            (self.ahead_us.abs() / 1000, if self.ahead_us > 0 { "gained" } else { "lost" });
        write!(f, "{way} {ms} ms within {} s", self.within.as_secs().max(1))
    }
}

/// The clocks of all masters.
#[derive(Clone, Debug)]
pub struct Clocks {
    drift: f64,
    /// What differences are counted from.
    start: Instant,
    masters: Vec<Clock>,
}

#[derive(Clone, Debug, Default)]
struct Clock {
    readings: VecDeque<Difference>,
    /// It seems to have jumped, and the others have not been asked yet.
    jump: Option<Jump>,
    /// When it was last read.
    last: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Difference {
    at: Instant,
    micros: i64,
    uncertain_us: i64,
}

#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Instant,
    deviation: Deviation,
    uncertain_us: i64,
}

impl Clocks {
    /// Clocks that nobody has read yet. `drift` is the largest difference between the rates of two.
    pub fn new(masters: usize, drift: f64, start: Instant) -> Self {
        Self { drift, start, masters: vec![Clock::default(); masters] }
    }

    /// What the clock of `master` was at `start` if it always went as ours does, by the last reading, and how
    /// far that may be off; both in microseconds.
    pub fn at_start(&self, master: MasterId) -> Option<(i64, i64)> {
        let last = self.masters[master.index()].readings.back()?;
        Some((last.micros, last.uncertain_us))
    }

    /// The clock of `master` was read. Says whose clocks are found to be wrong by that.
    pub fn read(&mut self, master: MasterId, reading: Reading) -> Vec<(MasterId, Deviation)> {
        let difference = Difference::of(reading, self.start);
        let clock = &mut self.masters[master.index()];
        clock.last = Some(reading.answered);
        if let Some(jump) = clock.compare(difference, self.drift) {
            clock.readings.clear();
            clock.jump = Some(jump);
        }
        clock.readings.push_back(difference);
        if clock.readings.len() > WINDOW {
            clock.readings.pop_front();
        }
        self.judge(reading.answered)
    }

    /// A jump is ours if every other master that can be read has seen the same one; it is the master's as
    /// soon as one has not, or has not been heard of for too long.
    fn judge(&mut self, now: Instant) -> Vec<(MasterId, Deviation)> {
        let (mut wrong, mut ours) = (Vec::new(), false);
        let jumps = self.masters.iter().enumerate().filter_map(|(at, it)| Some((at, it.jump?)));
        for (index, jump) in jumps {
            match self.who_jumped(index, jump, now) {
                Who::Master => wrong.push((MasterId::new(index), jump.deviation)),
                Who::We => ours = true,
                Who::Unknown => {}
            }
        }
        for (master, _) in &wrong {
            self.masters[master.index()].jump = None;
        }
        if ours {
            self.masters.iter_mut().for_each(|clock| clock.jump = None);
        }
        wrong
    }

    fn who_jumped(&self, index: usize, jump: Jump, now: Instant) -> Who {
        let is_known =
            |clock: &Clock| clock.last.is_some_and(|last| last + CONFIRMATION >= jump.at);
        let others = self.masters.iter().enumerate().filter(|(other, _)| *other != index);
        let known: Vec<&Clock> =
            others.map(|(_, clock)| clock).filter(|clock| is_known(clock)).collect();
        let has_seen_it = |clock: &&Clock| clock.jump.is_some_and(|other| other.is_like(&jump));
        let is_read = |clock: &&Clock| clock.last.is_some_and(|last| last > jump.at);
        if known.is_empty() || known.iter().any(|clock| is_read(clock) && !has_seen_it(clock)) {
            Who::Master
        } else if known.iter().all(has_seen_it) {
            Who::We
        } else if now > jump.at + CONFIRMATION {
            Who::Master
        } else {
            Who::Unknown
        }
    }
}

enum Who {
    Master,
    We,
    Unknown,
}

impl Clock {
    /// Whether the clock cannot have gone within the drift bound since one of the readings before.
    fn compare(&self, now: Difference, drift: f64) -> Option<Jump> {
        self.readings.iter().rev().find_map(|before| {
            let elapsed = now.at - before.at;
            let ahead_us = now.micros - before.micros;
            let uncertain_us = now.uncertain_us + before.uncertain_us;
            let allowed_us = (elapsed.as_micros() as f64 * drift) as i64 + uncertain_us;
            (ahead_us.abs() > allowed_us).then_some(Jump {
                at: now.at,
                deviation: Deviation { ahead_us, within: elapsed },
                uncertain_us,
            })
        })
    }
}

impl Jump {
    fn is_like(&self, other: &Self) -> bool {
        let apart_us = (self.deviation.ahead_us - other.deviation.ahead_us).abs();
        apart_us <= self.uncertain_us + other.uncertain_us
    }
}

impl Difference {
    fn of(reading: Reading, start: Instant) -> Self {
        let took = reading.answered - reading.asked;
        let at = reading.asked + took / 2;
        let ours = i64::try_from(at.duration_since(start).as_micros()).unwrap_or(i64::MAX);
        // A millisecond more: neither clock is read in no time.
        let uncertain_us = i64::try_from(took.as_micros() / 2).unwrap_or(i64::MAX / 4) + 1_000;
        Self { at, micros: reading.unix_micros - ours, uncertain_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const DAY_US: i64 = 86_400_000_000;

    /// Reads the clocks of three masters once a second; `clock` says how far each is off, by master and
    /// second, in milliseconds.
    fn wrong(seconds: u64, clock: impl Fn(usize, u64) -> i64) -> Vec<(usize, u64)> {
        wrong_among_those_read(seconds, |master, second| Some(clock(master, second)))
    }

    /// The same; one that cannot be read is `None`.
    fn wrong_among_those_read(
        seconds: u64,
        clock: impl Fn(usize, u64) -> Option<i64>,
    ) -> Vec<(usize, u64)> {
        let start = clock::now();
        let (mut clocks, mut wrong) = (Clocks::new(3, 0.01, start), Vec::new());
        for second in 0..seconds {
            for master in 0..3 {
                let Some(off_ms) = clock(master, second) else { continue };
                let at = Duration::from_secs(second) + Duration::from_millis(3 * master as u64);
                let read = reading(start, at, Duration::from_millis(2), Duration::from_millis(1));
                let reading = Reading { unix_micros: read.unix_micros + 1_000 * off_ms, ..read };
                let found = clocks.read(MasterId::new(master), reading);
                wrong.extend(found.into_iter().map(|(master, _)| (master.index(), second)));
            }
        }
        wrong
    }

    /// What a right clock said that was asked `at` so long after `start`, looked at itself after a part of
    /// the time that it `took` to answer.
    fn reading(start: Instant, at: Duration, took: Duration, part: Duration) -> Reading {
        let asked = start + at;
        let micros = i64::try_from((at + part).as_micros()).expect("a short test");
        Reading { asked, answered: asked + took, unix_micros: DAY_US + micros }
    }

    /// Which masters were found in these seconds, and none before or after.
    fn masters_within(
        found: &[(usize, u64)],
        seconds: std::ops::RangeInclusive<u64>,
    ) -> Vec<usize> {
        assert!(found.iter().all(|(_, second)| seconds.contains(second)), "{found:?}");
        let mut masters: Vec<usize> = found.iter().map(|(master, _)| *master).collect();
        masters.sort_unstable();
        masters
    }

    #[test]
    fn clocks_may_differ_and_drift_a_little() {
        assert_eq!(wrong(100, |master, second| 5_000 * master as i64 + 5 * second as i64), []);
    }

    #[test]
    fn a_clock_that_is_set_is_found_at_once() {
        for jump in [-3_000, -100, 100, 3_000] {
            let found =
                wrong(20, |master, second| if master == 1 && second >= 7 { jump } else { 0 });
            assert_eq!(found.first().map(|(master, _)| *master), Some(1), "{jump} ms");
            assert!(found[0].1 <= 8, "{jump} ms: {found:?}");
            assert_eq!(found.len(), 1, "{jump} ms: {found:?}");
        }
    }

    /// 1 % of a second, and 2 ms for each of two readings.
    #[test]
    fn a_clock_may_be_as_wrong_as_drift_and_reading_make_it() {
        let jumps =
            |ms| wrong(20, |master, second| if master == 1 && second >= 7 { ms } else { 0 });
        assert_eq!(jumps(14), []);
        assert_eq!(masters_within(&jumps(15), 7..=7), [1]);
    }

    #[test]
    fn a_slow_answer_is_no_jump_and_hides_none_that_is_larger() {
        let (second, slow) = (Duration::from_secs(1), Duration::from_millis(400));
        for (part, off_ms, is_wrong) in
            [(Duration::ZERO, 0, false), (slow, 0, false), (slow / 2, 300, true)]
        {
            let start = clock::now();
            let mut clocks = Clocks::new(1, 0.01, start);
            let master = MasterId::new(0);
            clocks.read(master, reading(start, second, Duration::ZERO, Duration::ZERO));
            let read = reading(start, 2 * second, slow, part);
            let reading = Reading { unix_micros: read.unix_micros + 1_000 * off_ms, ..read };
            assert_eq!(clocks.read(master, reading).len(), usize::from(is_wrong), "{part:?}");
        }
    }

    #[test]
    fn a_deviation_is_told_in_words() {
        let within = Duration::from_millis(2_900);
        let told = |ahead_us| Deviation { ahead_us, within }.to_string();
        assert_eq!(told(3_000_999), "gained 3000 ms within 2 s");
        assert_eq!(told(-15_000), "lost 15 ms within 2 s");
    }

    #[test]
    fn a_clock_that_runs_fast_is_found_again_and_again() {
        let found = wrong(60, |master, second| if master == 2 { 30 * second as i64 } else { 0 });
        assert!(found.len() > 10, "{found:?}");
        assert!(found.iter().all(|(master, _)| *master == 2), "{found:?}");
    }

    /// Within one second it is no more than a reading may be uncertain.
    #[test]
    fn a_clock_that_runs_a_little_too_fast_is_found_over_some_time() {
        let found = wrong(60, |master, second| if master == 2 { 12 * second as i64 } else { 0 });
        assert!(found.first().is_some_and(|(_, second)| (2..10).contains(second)), "{found:?}");
        assert!(found.iter().all(|(master, _)| *master == 2), "{found:?}");
    }

    #[test]
    fn when_all_jump_alike_it_was_our_own_clock() {
        assert_eq!(wrong(20, |_, second| if second >= 7 { 5_000 } else { 0 }), []);
        let nearly = |master, second| if second >= 7 { 5_000 + 3 * master as i64 } else { 0 };
        assert_eq!(wrong(20, nearly), [], "no two are read at quite the same time");
    }

    #[test]
    fn when_all_jump_but_not_alike_it_was_theirs() {
        let jump = |master, second| if second >= 7 { 5_000 + 10 * master as i64 } else { 0 };
        assert_eq!(masters_within(&wrong(20, jump), 7..=8), [0, 1, 2]);
    }

    /// The third cannot confirm that the jump was ours, and is not waited for.
    #[test]
    fn two_that_jump_are_found_although_the_third_is_out_of_reach() {
        let found = wrong_among_those_read(20, |master, second| {
            (master < 2 || second < 7).then_some(if second >= 7 { 5_000 } else { 0 })
        });
        assert_eq!(masters_within(&found, 9..=9), [0, 1]);
    }

    #[test]
    fn two_that_jump_are_both_found() {
        let found = wrong(20, |master, second| if master < 2 && second >= 7 { 5_000 } else { 0 });
        assert_eq!(masters_within(&found, 7..=8), [0, 1]);
    }
}
