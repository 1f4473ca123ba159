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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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

/// Whether a master may vote.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What decides about probation.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How many of how many.
    pub quorum: Quorum,
    /// The longest time that a lock lasts.
    pub restart_wait: Duration,
    /// For a first deployment.
    pub cold_start: ColdStart,
}

/// One master, as it has shown itself.
#[derive(Clone, Debug)]
struct Known {
    standing: Standing,
    facts: Option<Facts>,
    since: Instant,
    /// Counts the changes of its standing.
    epoch: u64,
}

/// All masters.
#[derive(Clone, Debug)]
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
