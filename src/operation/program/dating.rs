//! Programs that are answered too late for the ends that they have set.
//!
//! Masters count a time to live from the time of the program, and its client at the latest from the reply. Ends are padded for
//! what lies between, as long as that is not more than the freshness ([`crate::decision::lease::pad`]). Beyond that another
//! program puts the ends off, before the client hears of the first. That takes a round as well, so it dates ends ahead by it: else
//! a proxy that is farther from its masters than the freshness would put them off for ever.

use std::time::Duration;

use bytes::Bytes;

use super::{Call, Program};
use crate::decision::keyspace::proposer::Outcome;
use crate::decision::quorum::MasterSet;
use crate::operation::Behaviour as _;
use crate::operation::Rules;
use crate::operation::register::run::{Run, RunMoment};
use crate::operation::register::{self, Job, Place};

/// The time to live of a program that is known to have run, and not what ends it has set: its reply has to be as fresh as any.
const UNKNOWN_TTL_MS: u64 = 0;

/// A program that has run, and whose reply waits.
#[derive(Debug)]
pub(super) struct Dating {
    /// How it ran.
    pub(super) run: Run,
    /// The number of its last round: masters that were not needed answer it yet.
    pub(super) round: u8,
    /// What it replied.
    reply: Bytes,
    /// What puts off the ends of its keys.
    pub(super) call: Call,
    keys: Vec<Place>,
    dated: Dated,
    /// How fresh the reply has to be, in microseconds.
    fresh_us: u64,
    /// The shortest time to live that it has set, if that is known.
    ttl_ms: u64,
    /// When the first of these ends is over, unless they are put off before.
    over_us: u64,
}

/// When ends count from.
#[derive(Debug)]
struct Dated {
    /// They are those of a program that ran then.
    as_of: RunMoment,
    /// When they were put off last, and by how much they were dated ahead of that, in microseconds.
    put_off: Option<(u64, u64)>,
}

/// How long the rounds of a program have taken.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// When the last one began, in microseconds since the epoch.
    began_us: Option<u64>,
    /// How long the quickest one before that took.
    quickest_us: Option<u64>,
}

/// Why its client is not told what a program has replied.
pub(super) enum Untold {
    /// Nobody can tell whether the ends were put off.
    Undecided,
    /// An end was over before it was put off.
    Over,
}

impl Dating {
    /// Keys of which some masters may not hold what the others do, and those masters.
    pub(super) fn behind(&self, last: Option<&Run>) -> Option<(Vec<Place>, MasterSet)> {
        match (self.run.behind(), last.and_then(Run::behind)) {
            (Some((keys, masters)), Some((_, others))) => Some((keys, masters.union(others))),
            (one, other) => one.or(other),
        }
    }
}

impl Dated {
    /// Dates ends ahead by what it will take until the client hears of it, and says how much later they are. If they were put off
    /// in vain, it is known how long that took, and twice as much as the last time is enough soon.
    fn put_off(&mut self, now_us: u64, usual_us: u64) -> u64 {
        let ahead_us = match self.put_off {
            None => usual_us,
            Some((then_us, ahead_us)) => now_us.saturating_sub(then_us).max(2 * ahead_us),
        };
        self.put_off = Some((now_us, ahead_us));
        let RunMoment { ran_us, chosen_us } = self.as_of;
        let late_ms = (now_us + ahead_us).saturating_sub(chosen_us).div_ceil(1000);
        let (ran_us, chosen_us) = (ran_us + late_ms * 1000, chosen_us + late_ms * 1000);
        self.as_of = RunMoment { ran_us, chosen_us };
        late_ms
    }
}

impl Rounds {
    /// A round begins.
    pub(super) fn begin(&mut self, now_us: u64) {
        if let Some(began_us) = self.began_us.replace(now_us) {
            let took_us = now_us.saturating_sub(began_us);
            self.quickest_us = Some(self.quickest_us.map_or(took_us, |it| it.min(took_us)));
        }
    }

    /// How long the next one will take, when the last one has just ended: as long as the quickest. A single one may have met
    /// masters that stood still, and the next takes no longer than is usual.
    fn next_us(&self, now_us: u64, usual_us: u64) -> u64 {
        let last_us = self.began_us.map_or(0, |began_us| now_us.saturating_sub(began_us));
        self.quickest_us.unwrap_or(usual_us).min(last_us)
    }
}

impl Program {
    /// Whether its ends are put off first, now that it has run so and `reply` is what its client will be told.
    pub(super) fn is_dated_anew(
        &mut self,
        rules: &Rules,
        ttl_ms: Option<u64>,
        reply: &Bytes,
    ) -> bool {
        let ran_at = self.run.as_ref().and_then(Run::ran_at);
        let (Some(ran_at), Some(ttl_ms)) = (ran_at, ttl_ms) else { return false };
        let (now_us, fresh_us) = (rules.unix_time.micros() as u64, freshness_us(rules, ttl_ms));
        if !is_late(now_us, ran_at, fresh_us) {
            return false;
        }
        let round = self.round();
        let Some(run) = self.take_run() else { return false };
        let (reply, call, keys) = (reply.clone(), self.call.clone(), run.keys());
        let (dated, over_us) = (Dated { as_of: ran_at, put_off: None }, 0);
        let dating = Dating { run, round, reply, call, keys, dated, fresh_us, ttl_ms, over_us };
        self.dating = Some(Box::new(dating));
        self.put_off(rules, now_us);
        true
    }

    /// What puts ends off has ended so. Returns what its client is told of the program itself; `None`: there is more to do.
    ///
    /// # Errors
    /// That must not be told.
    pub(super) fn is_dated(
        &mut self,
        rules: &Rules,
        outcome: &Outcome<Job>,
    ) -> Result<Option<Bytes>, Untold> {
        let ttl_ms = time_to_live(outcome).map_err(|()| Untold::Undecided)?;
        if matches!(outcome, Outcome::Ran(register::RegisterReply::Frame(raw, ..)) if raw.starts_with(b"-"))
        {
            return Err(Untold::Undecided);
        }
        let ran_at = self.run.as_ref().and_then(Run::ran_at);
        let dating = self.dating.as_mut().ok_or(Untold::Undecided)?;
        let is_over = ran_at.is_none_or(|ran_at| ran_at.ran_us >= dating.over_us);
        if dating.ttl_ms != UNKNOWN_TTL_MS && is_over {
            return Err(Untold::Over);
        }
        let fresh_us = ttl_ms.map_or(u64::MAX, |ttl_ms| freshness_us(rules, ttl_ms));
        dating.fresh_us = dating.fresh_us.min(fresh_us);
        let now_us = rules.unix_time.micros() as u64;
        if !is_late(now_us, dating.dated.as_of, dating.fresh_us) {
            return Ok(Some(dating.reply.clone()));
        }
        self.take_run();
        self.put_off(rules, now_us);
        Ok(None)
    }

    /// Puts off the ends of its keys, by as much as they are late when the client will hear of them: when that has run is another
    /// matter.
    fn put_off(&mut self, rules: &Rules, now_us: u64) {
        let Some(dating) = &mut self.dating else { return };
        let usual_us = rules.leases.round_trip().as_micros() as u64;
        dating.over_us = dating.dated.as_of.ran_us + dating.ttl_ms * 1000;
        let late_ms = dating.dated.put_off(now_us, self.rounds.next_us(now_us, usual_us));
        dating.call = putting_off(rules, &self.call, (self.db, &dating.keys), late_ms);
    }
}

/// Its client has selected this database; other keys have to be gone to.
fn putting_off(rules: &Rules, call: &Call, (db, keys): (u32, &[Place]), late_ms: u64) -> Call {
    let is_here = keys.iter().all(|place| u32::from(place.db) == db);
    let text = rules.texts.putting_off(is_here);
    let (runner, turns) = (rules.texts.runner_of(&text), call.keys.clone());
    let dbs: Vec<u16> = keys.iter().filter(|_| !is_here).map(|place| place.db).collect();
    let argv = std::iter::once(late_ms).chain(dbs.iter().map(|&db| db.into()));
    let argv: Vec<String> = argv.map(|number: u64| number.to_string()).collect();
    let names = keys.iter().map(|place| &place.key[..]);
    let putting_off = Call::new(text, runner, turns, names, argv.iter().map(String::as_bytes));
    Call { dbs, ..putting_off }
}

/// How long after the moment that its ends are as of a reply may be told: they are padded for it.
fn freshness_us(rules: &Rules, ttl_ms: u64) -> u64 {
    let freshness = rules.pad.freshness(ttl_ms.cast_signed(), Duration::ZERO);
    u64::try_from(freshness.as_micros()).unwrap_or(u64::MAX)
}

/// Whether ends that are as of a moment come too early for who hears of them now.
fn is_late(now_us: u64, as_of: RunMoment, fresh_us: u64) -> bool {
    now_us.saturating_sub(as_of.chosen_us) > fresh_us
}

/// The shortest time to live that it has set, in milliseconds; `None`: it has set no ends.
///
/// # Errors
/// It is not known whether it ran.
pub(super) fn time_to_live(outcome: &Outcome<Job>) -> Result<Option<u64>, ()> {
    match outcome {
        Outcome::Ran(register::RegisterReply::Frame(_, _, ttl_ms)) => Ok(*ttl_ms),
        Outcome::Ran(register::RegisterReply::Packed(_)) => Ok(Some(UNKNOWN_TTL_MS)),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_is_ahead_hides_no_lateness() {
        let as_of = RunMoment { ran_us: 20_000_000, chosen_us: 1_000_000 };
        assert!(is_late(7_000_000, as_of, 50_000));
        assert!(!is_late(1_020_000, as_of, 50_000));
    }

    const FRESH_US: u64 = 5_000;

    /// How often a key is put off that was set a round before, and how long after the reply it is as of, where the next rounds
    /// take so long, in microseconds.
    fn put_off(usual_us: u64, rounds_us: impl IntoIterator<Item = u64>) -> (usize, u64) {
        let as_of = RunMoment { ran_us: 0, chosen_us: 0 };
        let mut dated = Dated { as_of, put_off: None };
        let mut now_us = 400_000;
        for (times, round_us) in rounds_us.into_iter().enumerate() {
            if !is_late(now_us, dated.as_of, FRESH_US) {
                return (times, dated.as_of.chosen_us.saturating_sub(now_us));
            }
            let before = dated.as_of;
            let late_ms = dated.put_off(now_us, usual_us);
            assert_eq!(dated.as_of.chosen_us, before.chosen_us + late_ms * 1000);
            assert_eq!(dated.as_of.ran_us, before.ran_us + late_ms * 1000);
            assert!(dated.as_of.chosen_us >= now_us, "ends too early for who hears of it at once");
            now_us += round_us;
        }
        panic!("late again and again");
    }

    #[test]
    fn who_knows_how_long_a_round_takes_puts_off_once() {
        assert_eq!(put_off(400_000, [400_000; 9]), (1, 0));
        assert_eq!(put_off(1_000, [1_000; 9]), (1, 0));
    }

    #[test]
    fn who_does_not_know_how_long_a_round_takes_puts_off_twice() {
        assert_eq!(put_off(0, [400_000; 9]), (2, 0));
        assert_eq!(put_off(0, [400_000, 404_000, 0, 0]), (2, 0));
        assert_eq!(put_off(300_000, [400_000; 9]), (2, 200_000));
    }

    #[test]
    fn rounds_that_take_longer_each_time_are_caught_up_with() {
        let (times, ahead_us) = put_off(0, (1..).map(|number| number * 400_000));
        assert!(times <= 4, "{times} times");
        assert!(ahead_us <= 2 * 4 * 400_000, "{ahead_us} us");
    }

    #[test]
    fn a_round_takes_as_long_as_the_quickest() {
        let mut rounds = Rounds::default();
        rounds.begin(0);
        assert_eq!(rounds.next_us(6_000_000, 1_000), 1_000, "masters stood still");
        assert_eq!(rounds.next_us(700, 1_000), 700);
        rounds.begin(400_000);
        assert_eq!(rounds.next_us(800_500, 1_000), 400_000);
        assert_eq!(rounds.next_us(799_000, 1_000), 399_000);
        rounds.begin(6_400_000);
        assert_eq!(rounds.next_us(6_900_000, 1_000), 400_000);
    }
}
