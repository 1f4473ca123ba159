//! Programs whose replies are too late for the expiries they have set.
//!
//! Masters count a TTL from the program's time; its client counts from the reply at the latest. Expiries are padded for
//! the time in between, up to the freshness ([`crate::decision::lease::pad`]). Beyond that, a second program extends
//! the expiries before the client gets the first one's reply. As that takes a round too, it sets them ahead by a
//! round's duration. Otherwise a proxy farther from its masters than the freshness would extend them forever.

use std::time::Duration;

use bytes::Bytes;

use super::{Call, Program};
use crate::decision::keyspace::proposer::Outcome;
use crate::decision::quorum::MasterSet;
use crate::operation::Behaviour as _;
use crate::operation::Rules;
use crate::operation::register::run::{Run, RunMoment};
use crate::operation::register::{self, Job, Place};

/// Stands for the TTL of a program that has run, but whose expiries are unknown: its reply must be as fresh as any.
const UNKNOWN_TTL_MS: u64 = 0;

/// A program that has run, and whose reply waits.
#[derive(Debug)]
pub(super) struct Dating {
    /// Its run.
    pub(super) run: Run,
    /// Number of its last round, which masters beyond the quorum may still answer.
    pub(super) round: u8,
    /// Its reply.
    reply: Bytes,
    /// The call that extends its keys' expiries.
    pub(super) call: Call,
    keys: Vec<Place>,
    dated: Dated,
    /// Maximum age of the reply, in microseconds.
    fresh_us: u64,
    /// The shortest TTL that it has set, if known.
    ttl_ms: u64,
    /// When the first of these expiries passes unless extended.
    over_us: u64,
}

/// The moment from which expiries count.
#[derive(Debug)]
struct Dated {
    /// When the program that set them ran.
    as_of: RunMoment,
    /// When they were last extended, and how far ahead of that they were set, in microseconds.
    put_off: Option<(u64, u64)>,
}

/// Durations of a program's rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// When the last one began, in microseconds since the epoch.
    began_us: Option<u64>,
    /// Duration of the quickest one before that.
    quickest_us: Option<u64>,
}

/// Reasons to withhold a program's reply from its client.
pub(super) enum Untold {
    /// It is unknown whether the expiries were extended.
    Undecided,
    /// A key expired before it was extended.
    Over,
}

impl Dating {
    /// Returns keys that may differ on some masters, along with those masters.
    pub(super) fn behind(&self, last: Option<&Run>) -> Option<(Vec<Place>, MasterSet)> {
        match (self.run.behind(), last.and_then(Run::behind)) {
            (Some((keys, masters)), Some((_, others))) => Some((keys, masters.union(others))),
            (one, other) => one.or(other),
        }
    }
}

impl Dated {
    /// Moves expiries ahead by the expected time until the client gets its reply. Returns the extension in
    /// milliseconds. After an extension that came too late, its actual duration is known; at least doubling the last
    /// lead soon suffices.
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
    /// Records that a round begins.
    pub(super) fn begin(&mut self, now_us: u64) {
        if let Some(began_us) = self.began_us.replace(now_us) {
            let took_us = now_us.saturating_sub(began_us);
            self.quickest_us = Some(self.quickest_us.map_or(took_us, |it| it.min(took_us)));
        }
    }

    /// Estimates the duration of the next round, when the last one has just ended: that of the quickest. A single slow
    /// round may be due to stalled masters, and the next takes no longer than usual.
    fn next_us(&self, now_us: u64, usual_us: u64) -> u64 {
        let last_us = self.began_us.map_or(0, |began_us| now_us.saturating_sub(began_us));
        self.quickest_us.unwrap_or(usual_us).min(last_us)
    }
}

impl Program {
    /// Whether expiries are extended first, now that the program has run and `reply` is the client's reply.
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

    /// Processes the outcome of extending the expiries. Returns the program's own reply, or `None` if more remains to
    /// be done.
    ///
    /// # Errors
    /// Returns an error if that reply must be withheld.
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

    /// Extends its keys' expiries by their lateness at the time the client is expected to get the reply. When the
    /// extension itself ran does not matter.
    fn put_off(&mut self, rules: &Rules, now_us: u64) {
        let Some(dating) = &mut self.dating else { return };
        let usual_us = rules.leases.round_trip().as_micros() as u64;
        dating.over_us = dating.dated.as_of.ran_us + dating.ttl_ms * 1000;
        let late_ms = dating.dated.put_off(now_us, self.rounds.next_us(now_us, usual_us));
        dating.call = putting_off(rules, &self.call, (self.db, &dating.keys), late_ms);
    }
}

/// Returns the call that extends expiries. `db` is the client's selected database; the text itself switches to those of
/// other keys.
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

/// Returns how long after the moment from which expiries count a reply may be sent: they are padded for that.
fn freshness_us(rules: &Rules, ttl_ms: u64) -> u64 {
    let freshness = rules.pad.freshness(ttl_ms.cast_signed(), Duration::ZERO);
    u64::try_from(freshness.as_micros()).unwrap_or(u64::MAX)
}

/// Whether expiries that count from `as_of` are too early for a client that gets its reply now.
fn is_late(now_us: u64, as_of: RunMoment, fresh_us: u64) -> bool {
    now_us.saturating_sub(as_of.chosen_us) > fresh_us
}

/// Returns the shortest TTL that it has set, in milliseconds, or `None` if it has set no expiries.
///
/// # Errors
/// Returns an error if it is unknown whether the program ran.
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

    /// Returns how often a key set one round earlier is extended, and how far after the reply its expiry then counts
    /// from. The next rounds take the given microseconds.
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
