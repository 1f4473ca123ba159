//! Which masters may vote: Redlock's "delayed restarts", shortened where others remember.
//!
//! A master that has forgotten locks and votes again lets two clients hold one lock: A holds it on
//! masters 1 and 2, master 2 restarts empty, B gets it from 2 and 3. So such a master is on
//! **probation**: it gets every write, but its ballots do not count, until
//!
//! * it has copied what it may have forgotten from the others ([`super::rejoin`]), or
//! * it has waited so long that every lock of that time has ended.
//!
//! Nothing in here knows a socket or a clock.

use std::time::Duration;

use super::facts::{Bar, Facts};
use crate::clock::Instant;
use crate::quorum::{MasterId, MasterSet, Quorum};

/// What becomes of masters that are all young when the proxy meets them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColdStart {
    /// They are a first deployment: they vote at once.
    Trust,
    /// They may have lost their memory together: they wait.
    Wait,
}

/// How long a clock has to go right before its master is trusted again: a rate shows only over some time.
const CALM: Duration = Duration::from_secs(10);

/// How far apart the starts of masters may be that were deployed together; `INFO` tells whole seconds.
const TOGETHER: Duration = Duration::from_secs(2);

/// Why a master is on probation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cause {
    /// Another process answers than before.
    #[error("it was restarted and may have forgotten locks")]
    Restarted,
    /// It has not been running for long, and others have.
    #[error("it was started a short while ago and may have forgotten locks")]
    Young,
    /// Its data was replaced or evicted by somebody.
    #[error("somebody has flushed, replaced or evicted its data")]
    Flushed,
    /// It was not fit to vote, and nobody knows what happened to it meanwhile.
    #[error("it could not be trusted until now: {0}")]
    Barred(Bar),
    /// Its clock does not go as ours does, and has ended locks too early or too late.
    #[error("its clock has {0}, and keys end by it")]
    Clock(String),
}

impl Cause {
    /// The kinds, in the order of [`Cause::kind`].
    pub const KINDS: [&str; 5] = ["restarted", "young", "flushed", "barred", "clock"];

    /// The place of its kind among [`Cause::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Restarted => 0,
            Self::Young => 1,
            Self::Flushed => 2,
            Self::Barred(_) => 3,
            Self::Clock(_) => 4,
        }
    }
}

/// Whether a master may vote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Nobody has asked it yet.
    Unknown,
    /// It is young, and the others have not been met yet.
    Young,
    /// It may.
    Voter,
    /// Not yet.
    Probation {
        /// Why.
        cause: Cause,
        /// Since when.
        since: Instant,
        /// When every lock that it may have forgotten has ended.
        until: Instant,
    },
    /// Not as it is.
    Barred(Bar),
}

impl Standing {
    /// In one word, for people; it does not tell whether the master can be reached. Without having been looked at for
    /// other proxies, it is not judged yet.
    pub fn word(&self, was_looked_at: bool) -> &'static str {
        match self {
            Self::Voter if was_looked_at => "voter",
            Self::Voter | Self::Young | Self::Unknown => "waiting",
            Self::Probation { .. } => "probation",
            Self::Barred(_) => "barred",
        }
    }

    /// Why it may not, apart from being out of reach.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Probation { cause, .. } => Some(cause.to_string()),
            Self::Barred(bar) => Some(bar.to_string()),
            Self::Unknown | Self::Young | Self::Voter => None,
        }
    }
}

/// What decides about probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How many of how many.
    pub quorum: Quorum,
    /// The longest time that a lock lasts.
    pub restart_wait: Duration,
    /// For a first deployment.
    pub cold_start: ColdStart,
}

/// One master, as it has shown itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    standing: Standing,
    facts: Option<Facts>,
    since: Instant,
    /// Counts the changes of its standing.
    epoch: u64,
}

/// All masters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probation {
    terms: Terms,
    known: Vec<Known>,
    /// All masters that can be reached have been met.
    everybody_met: bool,
}

/// Masters that remember what another one may have forgotten, as long as nothing happens to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// A quorum of voters.
    pub masters: MasterSet,
    epochs: Vec<u64>,
}

impl Probation {
    /// Masters that nobody has asked yet.
    pub fn new(terms: Terms, now: Instant) -> Self {
        let known = Known { standing: Standing::Unknown, facts: None, since: now, epoch: 0 };
        Self { terms, known: vec![known; terms.quorum.masters()], everybody_met: false }
    }

    /// How this master stands.
    pub fn standing(&self, master: MasterId) -> &Standing {
        &self.known[master.index()].standing
    }

    /// Since when it has stood so.
    pub fn since(&self, master: MasterId) -> Instant {
        self.known[master.index()].since
    }

    /// What it said last.
    pub fn facts(&self, master: MasterId) -> Option<&Facts> {
        self.known[master.index()].facts.as_ref()
    }

    /// The masters that may vote, if they can be reached.
    pub fn voters(&self) -> MasterSet {
        let voter = |known: &Known| known.standing == Standing::Voter;
        let ids = (0..self.known.len()).map(MasterId::new);
        ids.filter(|master| voter(&self.known[master.index()])).collect()
    }

    /// A master has been asked.
    pub fn observe(&mut self, master: MasterId, facts: Facts) {
        let at = facts.at;
        let standing = self.judge(&self.known[master.index()], &facts);
        self.known[master.index()].facts = Some(facts);
        self.stand(master, standing, at);
        self.meet(at);
    }

    /// Whoever can be reached has been asked, as far as that goes within the time for it.
    pub fn everybody_was_met(&mut self, now: Instant) {
        self.everybody_met = true;
        self.meet(now);
    }

    /// Something other than its memory is wrong with it.
    pub fn suspect(&mut self, master: MasterId, cause: Cause, now: Instant) {
        if matches!(self.standing(master), Standing::Voter | Standing::Probation { .. }) {
            self.stand(master, self.probation(cause, now, now), now);
        }
    }

    /// When it may begin to copy: whatever had counted its vote has to be decided, and a clock has to go right
    /// for a while.
    pub fn may_copy_from(&self, master: MasterId, vote_timeout: Duration) -> Option<Instant> {
        match self.standing(master) {
            Standing::Probation { cause: Cause::Clock(_), since, .. } => Some(*since + CALM),
            Standing::Probation { since, .. } => Some(*since + 2 * vote_timeout),
            _ => None,
        }
    }

    /// The others from which it may copy what it has forgotten: a full quorum of voters, so that each
    /// lock that had counted its lost vote is held by one of them. `None` when they are too few.
    pub fn sources(&self, master: MasterId) -> Option<Sources> {
        let mut masters = self.voters();
        masters.remove(master);
        let epochs = self.known.iter().map(|known| known.epoch).collect();
        self.terms.quorum.reached_by(masters).then_some(Sources { masters, epochs })
    }

    /// It has copied all that these others had. Whether it may vote now: not when something has
    /// happened to one of them, or to itself, in between.
    pub fn has_copied(&mut self, master: MasterId, sources: &Sources, now: Instant) -> bool {
        let waits = matches!(self.standing(master), Standing::Probation { .. });
        let may = waits && self.are_as_before(sources) && self.is_as_before(master, sources);
        if may {
            self.stand(master, Standing::Voter, now);
        }
        may
    }

    /// Whether nothing has happened to these masters.
    pub fn are_as_before(&self, sources: &Sources) -> bool {
        sources.masters.iter().all(|master| self.is_as_before(master, sources))
    }

    fn is_as_before(&self, master: MasterId, sources: &Sources) -> bool {
        self.known[master.index()].epoch == sources.epochs[master.index()]
    }

    /// Whether it has waited long enough, and votes from now on.
    pub fn has_waited(&mut self, master: MasterId, now: Instant) -> bool {
        let Standing::Probation { until, .. } = self.standing(master) else { return false };
        let may = now >= *until;
        if may {
            self.stand(master, Standing::Voter, now);
        }
        may
    }

    fn judge(&self, known: &Known, facts: &Facts) -> Standing {
        let now = facts.at;
        if let Some(bar) = &facts.bar {
            return Standing::Barred(bar.clone());
        }
        let Some(before) = &known.facts else { return self.first_contact(facts) };
        let restarted = before.run_id != facts.run_id;
        if let Standing::Barred(bar) = &known.standing {
            self.probation(Cause::Barred(bar.clone()), now, now)
        } else if restarted && !(before.is_durable && facts.is_durable) {
            self.probation(Cause::Restarted, now, now)
        } else if !restarted && before.losses != facts.losses || restarted && facts.losses > 0 {
            self.probation(Cause::Flushed, now, now)
        } else {
            known.standing.clone()
        }
    }

    /// One that has been running for longer than any lock lasts has forgotten none of them.
    fn first_contact(&self, facts: &Facts) -> Standing {
        let is_old = facts.uptime >= self.terms.restart_wait;
        if is_old || facts.is_durable { Standing::Voter } else { Standing::Young }
    }

    /// Young masters among others that remember have been restarted. If all are young, and are a quorum,
    /// this is a first deployment, or looks like one.
    fn meet(&mut self, now: Instant) {
        let ids = || (0..self.known.len()).map(MasterId::new);
        let young: MasterSet =
            ids().filter(|master| *self.standing(*master) == Standing::Young).collect();
        let is_met = |known: &Known| known.standing != Standing::Unknown;
        let everybody = self.everybody_met || self.known.iter().all(is_met);
        let someone_remembers = !self.voters().is_empty();
        if young.is_empty() || !someone_remembers && !everybody {
            return;
        }
        let trusted = self.deployed_together(young);
        for master in young.iter() {
            let standing = match self.terms.cold_start {
                _ if someone_remembers => self.young(master),
                _ if trusted.is_empty() => continue,
                ColdStart::Trust if trusted.contains(master) => Standing::Voter,
                ColdStart::Trust | ColdStart::Wait => self.young(master),
            };
            self.stand(master, standing, now);
        }
    }

    /// A quorum of them, and those that were started as early as these: one that is much younger than they
    /// are may have been restarted since. None, if they are no quorum.
    fn deployed_together(&self, young: MasterSet) -> MasterSet {
        let started = |master: MasterId| self.facts(master).and_then(Facts::started);
        let mut starts: Vec<Instant> = young.iter().filter_map(started).collect();
        starts.sort_unstable();
        let Some(last) = starts.get(self.terms.quorum.needed() - 1) else {
            return MasterSet::EMPTY;
        };
        let is_early = |start: Instant| start <= *last + TOGETHER;
        young.iter().filter(|master| started(*master).is_some_and(is_early)).collect()
    }

    /// It waits only for what is left of the time since its start.
    fn young(&self, master: MasterId) -> Standing {
        let Some(facts) = self.facts(master) else { return Standing::Unknown };
        let started = facts.started().unwrap_or(facts.at);
        self.probation(Cause::Young, facts.at, started)
    }

    fn probation(&self, cause: Cause, since: Instant, forgot_at: Instant) -> Standing {
        Standing::Probation { cause, since, until: forgot_at + self.terms.restart_wait }
    }

    fn stand(&mut self, master: MasterId, standing: Standing, now: Instant) {
        let known = &mut self.known[master.index()];
        if known.standing != standing {
            known.standing = standing;
            known.since = now;
            known.epoch += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const WAIT: Duration = Duration::from_secs(60);

    fn probation(cold_start: ColdStart) -> (Probation, Instant) {
        // Later than the first hour of the clock, so that masters can be older than that.
        let now = clock::now() + Duration::from_secs(3600);
        let terms = Terms { quorum: Quorum::of(3), restart_wait: WAIT, cold_start };
        (Probation::new(terms, now), now)
    }

    fn id(master: usize) -> MasterId {
        MasterId::new(master)
    }

    fn facts(run_id: &str, uptime_s: u64, at: Instant) -> Facts {
        Facts {
            run_id: run_id.to_owned(),
            version: "7.0.15".to_owned(),
            role: "master".to_owned(),
            persistence: "none".to_owned(),
            eviction: "noeviction".to_owned(),
            databases: 16,
            uptime: Duration::from_secs(uptime_s),
            bar: None,
            is_durable: false,
            losses: 0,
            at,
        }
    }

    /// Three masters that vote because they are old.
    fn old() -> (Probation, Instant) {
        let (mut probation, now) = probation(ColdStart::Trust);
        for (master, run_id) in ["a", "b", "c"].into_iter().enumerate() {
            probation.observe(id(master), facts(run_id, 1_000, now));
        }
        assert_eq!(probation.voters().len(), 3);
        (probation, now)
    }

    #[test]
    fn a_restarted_master_votes_again_when_it_has_copied_from_a_quorum_to_which_nothing_happened() {
        let (mut probation, now) = old();
        probation.observe(id(1), facts("new", 0, now));
        assert_eq!(probation.voters(), [id(0), id(2)].into_iter().collect());
        let sources = probation.sources(id(1)).expect("the other two");
        probation.observe(id(2), Facts { losses: 1, ..facts("c", 1_001, now) });
        assert!(!probation.has_copied(id(1), &sources, now), "one has forgotten meanwhile");
        assert_eq!(probation.sources(id(1)), None, "one is no quorum");
        assert!(!probation.has_waited(id(1), now + WAIT - Duration::from_millis(1)));
        assert!(probation.has_waited(id(1), now + WAIT));
        let sources = probation.sources(id(2)).expect("the other two");
        assert!(probation.has_copied(id(2), &sources, now));
        assert_eq!(probation.voters().len(), 3);
    }

    #[test]
    fn a_second_restart_makes_what_was_copied_worthless() {
        let (mut probation, now) = old();
        probation.observe(id(1), facts("new", 0, now));
        let sources = probation.sources(id(1)).expect("the other two");
        probation.observe(id(1), facts("newer", 0, now + Duration::from_secs(1)));
        assert!(!probation.has_copied(id(1), &sources, now));
    }

    #[test]
    fn only_a_master_that_was_durable_before_and_after_forgets_nothing() {
        for (before, after) in [(true, true), (true, false), (false, true)] {
            let (mut probation, now) = old();
            probation.observe(id(0), Facts { is_durable: before, ..facts("a", 1_001, now) });
            probation.observe(id(0), Facts { is_durable: after, ..facts("new", 0, now) });
            assert_eq!(*probation.standing(id(0)) == Standing::Voter, before && after);
        }
    }

    #[test]
    fn a_durable_master_is_trusted_when_it_is_met_and_not_once_it_was_flushed() {
        let (mut probation, now) = probation(ColdStart::Wait);
        probation.observe(id(0), Facts { is_durable: true, ..facts("a", 1, now) });
        assert_eq!(*probation.standing(id(0)), Standing::Voter);
        let flushed = Facts { is_durable: true, losses: 1, ..facts("new", 0, now) };
        probation.observe(id(0), flushed);
        assert!(matches!(
            probation.standing(id(0)),
            Standing::Probation { cause: Cause::Flushed, .. }
        ));
    }

    #[test]
    fn one_young_master_alone_says_nothing_about_the_others() {
        let (mut probation, now) = probation(ColdStart::Trust);
        probation.observe(id(0), facts("a", 10, now));
        probation.everybody_was_met(now);
        assert_eq!(*probation.standing(id(0)), Standing::Young, "the others are out of reach");
        probation.observe(id(1), facts("b", 10, now));
        assert_eq!(probation.voters().len(), 2);
    }

    #[test]
    fn who_was_unfit_to_vote_is_on_probation_first() {
        let (mut probation, now) = old();
        probation.observe(id(0), Facts { bar: Some(Bar::Replica), ..facts("a", 1_001, now) });
        assert_eq!(*probation.standing(id(0)), Standing::Barred(Bar::Replica));
        probation.observe(id(0), facts("a", 1_002, now));
        assert!(matches!(
            probation.standing(id(0)),
            Standing::Probation { cause: Cause::Barred(_), .. }
        ));
    }

    #[test]
    fn a_clock_has_to_go_right_for_a_while_before_its_master_copies() {
        let (mut probation, now) = old();
        probation.suspect(id(0), Cause::Clock("jumped".to_owned()), now);
        assert_eq!(probation.may_copy_from(id(0), Duration::from_millis(50)), Some(now + CALM));
        assert_eq!(probation.may_copy_from(id(1), Duration::from_millis(50)), None);
    }

    #[test]
    fn what_had_counted_the_lost_vote_is_decided_before_anything_is_copied() {
        let (mut probation, now) = old();
        let vote_timeout = Duration::from_millis(50);
        probation.observe(id(1), facts("new", 0, now));
        assert_eq!(probation.may_copy_from(id(1), vote_timeout), Some(now + 2 * vote_timeout));
    }

    #[test]
    fn a_first_deployment_is_trusted_or_waits_until_it_is_old() {
        for cold_start in [ColdStart::Trust, ColdStart::Wait] {
            let (mut probation, now) = probation(cold_start);
            probation.observe(id(0), facts("a", 10, now));
            probation.observe(id(1), facts("b", 11, now));
            assert!(probation.voters().is_empty(), "the third may be old");
            probation.everybody_was_met(now);
            let trusted = if cold_start == ColdStart::Trust { 2 } else { 0 };
            assert_eq!(probation.voters().len(), trusted);
            assert!(!probation.has_waited(id(0), now + Duration::from_secs(49)));
            assert_eq!(probation.has_waited(id(0), now + Duration::from_secs(50)), trusted == 0);
        }
    }

    #[test]
    fn a_young_master_among_old_ones_was_restarted_whenever_it_is_met() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let (mut probation, now) = probation(ColdStart::Trust);
            for master in order {
                let uptime = if master == 1 { 1 } else { 1_000 };
                probation.observe(id(master), facts(&master.to_string(), uptime, now));
            }
            assert_eq!(probation.voters(), [id(0), id(2)].into_iter().collect(), "{order:?}");
            assert!(probation.has_waited(id(1), now + WAIT), "since its start, not longer");
        }
    }

    #[test]
    fn the_youngest_of_a_young_deployment_may_have_been_restarted() {
        let (mut probation, now) = probation(ColdStart::Trust);
        for (master, uptime) in [(0, 30), (1, 31), (2, 3)] {
            probation.observe(id(master), facts(&master.to_string(), uptime, now));
        }
        assert_eq!(probation.voters(), [id(0), id(1)].into_iter().collect());
        assert!(matches!(probation.standing(id(2)), Standing::Probation { .. }));
    }
}
