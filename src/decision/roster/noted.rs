//! Notes of the proxies about the members' clocks. With them, a proxy that starts later can detect clocks that were set
//! in between, and uses the same time of day.
//!
//! A note says by how much each member's clock was ahead of the noter's own. The reader has another clock of its own,
//! which differs from all of these by the same amount, except for drift. So the clocks of members that a quorum
//! disagrees with were set. Knowledge about the others, and about those that cannot be read yet, continues as if the
//! reader had always looked.

use std::fmt;

use super::clock::{Clock, Range, drift_us};
use crate::decision::quorum::{MasterId, Quorum};

/// A member, for as long as it has not forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timekeeper {
    /// Id of the member.
    pub member: u64,
    /// Incarnation of the member.
    pub incarnation: u64,
}

/// A master, the owner of its clock, and the clock as it was read.
pub type ReadNotes = (MasterId, Timekeeper, Clock);

/// The members' clocks as one proxy knew them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClockNote {
    /// Time of the note on the noter's clock, in microseconds.
    at_us: i64,
    /// Time of day when the noter's clock began, in microseconds.
    time_us: i64,
    clocks: Vec<(Timekeeper, Range)>,
}

/// Result of comparing a note with clocks that were read since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// No result: the note covers too few members that have not forgotten since.
    Nothing,
    /// No result yet: too few of the members in the note were read.
    Wait,
    /// The clocks of a quorum continue as noted.
    Found(FoundNotes),
    /// No quorum continues as noted: each of these clocks may have been set, by this many microseconds.
    AllSet(Vec<(MasterId, i64)>),
}

/// Conclusion about the other clocks from a quorum that continues as noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundNotes {
    /// Masters whose clocks were set, by this many microseconds.
    pub set: Vec<(MasterId, i64)>,
    /// All clocks of the note, as the reader would know them if it had read them then.
    pub clocks: Vec<(Timekeeper, Clock)>,
    /// Time of day when the reader's clock began, in microseconds.
    pub time_us: i64,
    /// Microseconds since the note.
    pub age_us: i64,
}

impl ClockNote {
    /// Creates a note of what is known about these clocks at `at_us`. The time of day was `time_us` when the noter's
    /// clock began.
    pub fn new(
        at_us: i64,
        time_us: i64,
        clocks: impl IntoIterator<Item = (Timekeeper, Clock)>,
    ) -> Self {
        let clocks = clocks.into_iter().map(|(whose, clock)| (whose, clock.offset_at(at_us)));
        Self { at_us, time_us, clocks: clocks.collect() }
    }

    /// Parses a stored note; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (times, rest) = text.split_once(';')?;
        let (at_us, time_us) = times.split_once(' ')?;
        let clocks = rest.split_terminator(';').map(parse_clock).collect::<Option<_>>()?;
        Some(Self { at_us: at_us.parse().ok()?, time_us: time_us.parse().ok()?, clocks })
    }

    /// Compares the note with clocks that were read until `now_us`; `drift_ppm` as for [`Clock`].
    pub fn compare(
        &self,
        read: &[ReadNotes],
        now_us: i64,
        drift_ppm: i64,
        quorum: Quorum,
    ) -> Comparison {
        // Members that were not read may be behind masters that were not read, but there are no more of them.
        let unread = quorum.masters().saturating_sub(read.len());
        let (known, others): (Vec<_>, Vec<_>) =
            self.clocks.iter().map(|(whose, _)| whose).partition(|whose| is_read(whose, read));
        let others = others.into_iter().filter(|whose| !has_forgotten(whose, read));
        let valid = known.len() + others.count().min(unread);
        if valid < quorum.needed() {
            return Comparison::Nothing;
        }
        let ahead = self.ahead(read, now_us);
        if ahead.len() < quorum.needed() {
            return Comparison::Wait;
        }
        let age_us = self.age_us(&ahead, now_us);
        let drift_us = drift_us(age_us, drift_ppm);
        let wide: Vec<Range> = ahead.iter().map(|(_, by)| by.widened(drift_us)).collect();
        let shared = most_shared(&wide);
        let strays = || ahead.iter().zip(&wide).filter(move |(_, by)| !by.has(shared.least));
        if ahead.len() - strays().count() >= quorum.needed() {
            return Comparison::Found(FoundNotes {
                set: steps(strays().map(|(noted, _)| noted), shared.least),
                clocks: self.clocks_by(shared, now_us.saturating_sub(age_us), drift_ppm),
                time_us: self.time_us.saturating_add(shared.middle()),
                age_us,
            });
        }
        if ahead.len() < valid {
            return Comparison::Wait;
        }
        Comparison::AllSet(steps(&ahead, shared.least))
    }

    /// Returns by how much more each clock is ahead of the reader's than it was of the noter's.
    fn ahead(&self, read: &[ReadNotes], now_us: i64) -> Vec<(MasterId, Range)> {
        let ahead = |(master, whose, clock): &ReadNotes| {
            let (_, noted) = self.clocks.iter().find(|(other, _)| other == whose)?;
            Some((*master, clock.offset_at(now_us).minus(*noted)))
        };
        read.iter().filter_map(ahead).collect()
    }

    /// Returns the microseconds since the note, by the clocks that most others agree with.
    fn age_us(&self, ahead: &[(MasterId, Range)], now_us: i64) -> i64 {
        let off_us = median(ahead.iter().map(|(_, by)| by.middle()));
        now_us.saturating_sub(self.at_us).saturating_add(off_us).max(0)
    }

    /// Returns all clocks by the reader's clock, which differs from the noter's by `off`. The note was made at `at_us`.
    fn clocks_by(&self, off: Range, at_us: i64, drift_ppm: i64) -> Vec<(Timekeeper, Clock)> {
        let clock = |(whose, noted): &(Timekeeper, Range)| {
            (*whose, Clock::noted(noted.shifted(off), at_us, drift_ppm))
        };
        self.clocks.iter().map(clock).collect()
    }
}

impl fmt::Display for ClockNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {};", self.at_us, self.time_us)?;
        for (Timekeeper { member, incarnation }, Range { least, most }) in &self.clocks {
            write!(f, "{member} {incarnation} {least} {most};")?;
        }
        Ok(())
    }
}

fn is_read(noted: &Timekeeper, read: &[ReadNotes]) -> bool {
    read.iter().any(|(_, whose, _)| whose == noted)
}

fn has_forgotten(noted: &Timekeeper, read: &[ReadNotes]) -> bool {
    let again = read.iter().find(|(_, whose, _)| whose.member == noted.member);
    again.is_some_and(|(_, whose, _)| whose != noted)
}

/// Returns the range that most ranges have in common.
fn most_shared(ranges: &[Range]) -> Range {
    let sharing = |at: i64| ranges.iter().filter(move |range| range.has(at));
    let at = ranges.iter().map(|range| range.least).max_by_key(|at| sharing(*at).count());
    let shared =
        at.and_then(|at| sharing(at).copied().reduce(|one, other| one.and(other).unwrap_or(one)));
    shared.unwrap_or(Range { least: 0, most: 0 })
}

/// Returns by how much each clock was set.
fn steps<'a>(
    ahead: impl IntoIterator<Item = &'a (MasterId, Range)>,
    from_us: i64,
) -> Vec<(MasterId, i64)> {
    let by = |(master, by): &(MasterId, Range)| (*master, by.middle().saturating_sub(from_us));
    ahead.into_iter().map(by).collect()
}

fn parse_clock(text: &str) -> Option<(Timekeeper, Range)> {
    let words: Vec<_> = text.split(' ').collect();
    let [member, incarnation, least, most] = words[..] else { return None };
    let whose = Timekeeper { member: member.parse().ok()?, incarnation: incarnation.parse().ok()? };
    Some((whose, Range { least: least.parse().ok()?, most: most.parse().ok()? }))
}

fn median(numbers: impl Iterator<Item = i64>) -> i64 {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decision::roster::clock::{ClockLook, Sample};

    const DRIFT_PPM: i64 = 10_000;
    const SECOND_US: i64 = 1_000_000;
    const NOTED_AT: i64 = 500 * SECOND_US;
    /// Time of day when the noter's clock began.
    const TIME_US: i64 = 1_700_000_000 * SECOND_US;
    /// Delay of the reader's clock after the noter's.
    const BEGUN_LATER: i64 = 400 * SECOND_US;

    fn whose(at: usize) -> Timekeeper {
        Timekeeper { member: 100 + at as u64, incarnation: 1 }
    }

    /// Returns a sample at `now_us` of a clock that is ahead by this much.
    fn sample(now_us: i64, ahead_us: i64) -> Sample {
        Sample { sent_us: now_us - 2_000, received_us: now_us, master_us: now_us - 700 + ahead_us }
    }

    fn clock(now_us: i64, ahead_us: i64) -> Clock {
        Clock::new(sample(now_us, ahead_us), DRIFT_PPM)
    }

    fn note(ahead_us: &[i64]) -> ClockNote {
        let clocks = ahead_us.iter().enumerate();
        ClockNote::new(NOTED_AT, TIME_US, clocks.map(|(at, by)| (whose(at), clock(NOTED_AT, *by))))
    }

    /// Returns the same clocks as the reader reads them some seconds later, one for each that can be read.
    fn read(ahead_us: &[i64], after_s: i64, of: &[usize]) -> (Vec<ReadNotes>, i64) {
        let now_us = NOTED_AT + after_s * SECOND_US - BEGUN_LATER;
        let clock = |at: usize| clock(now_us, ahead_us[at] + BEGUN_LATER);
        let read = of.iter().map(|at| (MasterId::new(*at), whose(*at), clock(*at)));
        (read.collect(), now_us)
    }

    fn compare(note: &ClockNote, read: &(Vec<ReadNotes>, i64), of: usize) -> Comparison {
        note.compare(&read.0, read.1, DRIFT_PPM, Quorum::of(of))
    }

    fn set(comparison: Comparison) -> Vec<usize> {
        let masters = match comparison {
            Comparison::Found(found) => found.set,
            Comparison::AllSet(masters) => masters,
            other => panic!("{other:?}"),
        };
        masters.into_iter().map(|(master, _)| master.index()).collect()
    }

    #[test]
    fn a_clock_that_was_set_while_nobody_looked_is_found() {
        let noted = note(&[0, 7_000, -40 * SECOND_US]);
        for by_us in [-3 * SECOND_US, 5 * SECOND_US] {
            let now = [0, 7_000, -40 * SECOND_US + by_us];
            let found = compare(&noted, &read(&now, 60, &[0, 1, 2]), 3);
            let Comparison::Found(found) = found else { panic!("{found:?}") };
            let [(master, by)] = found.set[..] else { panic!("{found:?}") };
            assert_eq!(master.index(), 2);
            assert!((by - by_us).abs() < SECOND_US, "{by} instead of {by_us}");
        }
    }

    #[test]
    fn of_two_that_differ_nobody_knows_which_was_set_before_the_third_is_read() {
        let (noted, now) = (note(&[0, 0, 0]), [0, 9 * SECOND_US, 0]);
        assert_eq!(compare(&noted, &read(&now, 10, &[0]), 3), Comparison::Wait);
        assert_eq!(compare(&noted, &read(&now, 10, &[0, 1]), 3), Comparison::Wait);
        assert_eq!(set(compare(&noted, &read(&now, 10, &[0, 1, 2]), 3)), [1]);
        let now = [0, 9 * SECOND_US, 20 * SECOND_US];
        assert_eq!(set(compare(&noted, &read(&now, 10, &[0, 1, 2]), 3)), [0, 1, 2]);
    }

    #[test]
    fn what_was_noted_of_a_member_before_it_forgot_says_nothing() {
        let noted = note(&[0, 0, 0]);
        let mut now = read(&[0, 9 * SECOND_US, 0], 10, &[0, 1, 2]);
        now.0[1].1.incarnation = 2;
        assert_eq!(set(compare(&noted, &now, 3)), [0; 0]);
        now.0[2].1.incarnation = 2;
        assert_eq!(compare(&noted, &now, 3), Comparison::Nothing);
    }

    #[test]
    fn what_was_noted_in_another_cluster_says_nothing() {
        let mut now = read(&[0, 0, 0], 10, &[0, 1, 2]);
        now.0.iter_mut().for_each(|(_, whose, _)| whose.member += 100);
        assert_eq!(compare(&note(&[0, 0, 0]), &now, 3), Comparison::Nothing);
        now.0.pop();
        assert_eq!(compare(&note(&[0, 0, 0]), &now, 3), Comparison::Nothing, "one is too few");
    }

    #[test]
    fn one_that_is_read_later_is_judged_as_if_the_reader_had_always_looked() {
        let noted = note(&[0, 3_000, 0]);
        let found = compare(&noted, &read(&[0, 3_000], 10, &[0, 1]), 3);
        let Comparison::Found(found) = found else { panic!("{found:?}") };
        let (_, known) = found.clocks.iter().find(|(of, _)| *of == whose(2)).expect("it is noted");
        let later = NOTED_AT + 15 * SECOND_US - BEGUN_LATER;
        let look = |ahead_us| known.clone().look(sample(later, ahead_us + BEGUN_LATER));
        assert_eq!(look(0), ClockLook::Continues);
        assert!(matches!(look(2 * SECOND_US), ClockLook::Stepped { .. }));
        assert!(matches!(look(-2 * SECOND_US), ClockLook::Stepped { .. }));
    }

    #[test]
    fn a_proxy_that_starts_later_goes_by_the_time_that_was_noted() {
        // One clock has drifted since the note, and one was set.
        let noted = note(&[0, 7_000, -40 * SECOND_US]);
        for now in [
            [0, 7_000, -40 * SECOND_US],
            [0, 107_000, -40 * SECOND_US],
            [9 * SECOND_US, 7_000, -40 * SECOND_US],
        ] {
            let found = compare(&noted, &read(&now, 60, &[0, 1, 2]), 3);
            let Comparison::Found(found) = found else { panic!("{found:?}") };
            let off_us = found.time_us - (TIME_US + BEGUN_LATER);
            assert!(off_us.abs() < 60 * DRIFT_PPM + 4_000, "{now:?}: off by {off_us}");
        }
    }

    #[test]
    fn what_is_no_note_is_none() {
        for text in ["", "7", "7;", "7 8;1 2 3", "7 8;1 2 3;", "7 x;", "7 8;1 2 3 4 5;"] {
            assert_eq!(ClockNote::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_note_is_read_as_it_was_written(ahead in prop::collection::vec(-1i64 << 40..1 << 40, 0..9)) {
            let note = note(&ahead);
            prop_assert_eq!(ClockNote::parse(&note.to_string()), Some(note));
        }

        /// Clocks that drift as much as allowed are never accused; a minority that was set further always is.
        #[test]
        fn only_those_are_accused_that_were_set(
            ahead in prop::collection::vec(-100 * SECOND_US..100 * SECOND_US, 3..8),
            drifts in prop::collection::vec(-DRIFT_PPM..=DRIFT_PPM, 8),
            after_s in 0i64..100_000,
            steps in prop::collection::vec((0usize..8, any::<bool>()), 0..4),
        ) {
            let (masters, noted) = (ahead.len(), note(&ahead));
            let mut accused: Vec<_> = steps.iter().map(|(at, _)| at % masters).collect();
            accused.sort_unstable();
            accused.dedup();
            accused.truncate(Quorum::of(masters).tolerates());
            let allowed_us = after_s * DRIFT_PPM;
            let step = |at: usize| {
                let forward = steps.iter().any(|(of, forward)| of % masters == at && *forward);
                let by_us = 4 * allowed_us + (1 + at as i64) * SECOND_US;
                let by_us = if forward { by_us } else { -by_us };
                if accused.contains(&at) { by_us } else { 0 }
            };
            let now: Vec<_> = ahead.iter().enumerate()
                .map(|(at, by)| by + after_s * drifts[at] * 9 / 10 + step(at)).collect();
            let all: Vec<_> = (0..masters).collect();
            prop_assert_eq!(set(compare(&noted, &read(&now, after_s, &all), masters)), accused);
        }
    }
}
