//! The worker's side of running a program, or reading.
//!
//! A [`Proposer`] is one operation. Its owner sends every request to all masters and passes in the answers. It calls
//! [`Proposer::again`] after a refusal, when too few masters answered in time, or when the roster's version changed.

mod attempts;
mod messages;

use std::collections::BTreeMap;

use super::early::Early;
use super::remains::{self, Over};
use super::settle::{Finding, HeldBallot, settle};
use super::slot::{self, Adopt, Apply, Basis, Ran, Refusal, Sight};
use super::tombstone::alike;
use super::{Program, flush};
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;
use attempts::Attempts;
pub use messages::{MasterAnswer, Outcome, Request, Step, Wish};

/// State of one operation in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposer<P: Program> {
    quorum: Quorum,
    worker: u64,
    /// Roster version under which everything is sent. Answers under another version do not count.
    version: u64,
    wish: Wish<P>,
    /// Keys that are examined: those of the wish first.
    keys: Vec<P::Key>,
    /// Attempts to run the program.
    attempts: Attempts<P>,
    /// Highest ballot seen.
    highest: Ballot,
    /// Refusals of the last round that was beyond an end.
    early: Option<Early>,
    /// Highest flush seen of the database of each key.
    flushes: BTreeMap<P::Key, u64>,
    /// Leases that a settling operation takes for remains.
    over: Over<P>,
    /// Leases held by fewer than a quorum, by key, from the last time that all masters showed theirs.
    minor: Option<Vec<(P::Key, P::Lease)>>,
    /// Masters that last refused because they were unable, not because of a promise or an end.
    unable: MasterSet,
    /// Ballot of the attempt that turned out to have run although its votes were not received.
    found: Option<Ballot>,
    phase: Phase<P>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase<P: Program> {
    Preparing {
        ballot: Ballot,
        promises: Vec<(MasterId, Vec<Sight<P>>)>,
        no: MasterSet,
    },
    Adopting(Round, Vec<HeldBallot<P>>),
    Applying(Round, Vec<Basis<P>>, Option<Ran<P>>),
    /// The round is lost: the next one has a higher ballot. A quorum's promises may have left open what the keys hold.
    Pausing {
        is_split: bool,
    },
    /// With the new content of the keys, if this worker may continue from it, and the masters known to hold it.
    Ended(Option<Vec<Basis<P>>>, MasterSet),
}

/// Votes on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Round {
    /// Ballot that identifies answers to the round.
    ballot: Ballot,
    next: Ballot,
    yes: MasterSet,
    no: MasterSet,
}

impl<P: Program> Proposer<P> {
    /// Starts with a prepare.
    pub fn new(
        quorum: Quorum,
        worker: u64,
        version: u64,
        wish: Wish<P>,
        now_us: u64,
    ) -> (Self, Request<P>) {
        let mut it = Self::idle(quorum, worker, version, wish, Ballot::NONE);
        let request = it.again(now_us);
        (it, request)
    }

    /// Starts to run `program` on what this worker's last one left: `basis` of each of its keys, under an unchanged
    /// version. It takes one round trip.
    pub fn with_promises(
        quorum: Quorum,
        worker: u64,
        version: u64,
        program: P,
        basis: Vec<Basis<P>>,
        now_us: u64,
    ) -> (Self, Request<P>) {
        let highest = basis.iter().map(|basis| basis.ballot).max().unwrap_or_default();
        let wish = Wish::Run(program.clone());
        let mut it = Self::idle(quorum, worker, version, wish, highest);
        let request = it.apply(program, basis, now_us);
        (it, request)
    }

    /// Returns a proposer that has sent nothing yet, and has seen this ballot.
    fn idle(quorum: Quorum, worker: u64, version: u64, wish: Wish<P>, highest: Ballot) -> Self {
        Self {
            quorum,
            worker,
            version,
            keys: wish.keys(),
            wish,
            attempts: Attempts::default(),
            highest,
            early: None,
            flushes: BTreeMap::new(),
            over: Over::default(),
            minor: None,
            unable: MasterSet::EMPTY,
            found: None,
            phase: Phase::Pausing { is_split: false },
        }
    }

    /// Starts a round with a higher ballot, or one that follows a round beyond an end ([`Early`]). Answers to earlier
    /// rounds no longer count.
    pub fn again(&mut self, now_us: u64) -> Request<P> {
        let ballot = match self.early {
            Some(early) => early.next(self.attempts.highest(), now_us, self.worker),
            None => Ballot::above(self.highest, now_us, self.worker),
        };
        self.early = None;
        self.highest = ballot;
        self.phase = Phase::Preparing { ballot, promises: Vec::new(), no: MasterSet::EMPTY };
        let met = |key: &P::Key| self.flushes.get(key).copied().unwrap_or_default();
        Request::Prepare(self.keys.iter().map(|key| (key.clone(), met(key))).collect(), ballot)
    }

    /// Makes a settling operation take these leases for remains, each if fewer than a quorum hold it.
    pub fn take_for_remains(&mut self, over: Over<P>) {
        self.over = over;
    }

    /// Whether all masters that answer must hold the same state.
    pub fn needs_all(&self) -> bool {
        self.wish.needs_all()
    }

    /// Returns the keys that are examined: those of the wish first.
    pub fn keys(&self) -> &[P::Key] {
        &self.keys
    }

    /// Whether some lease was held by fewer than a quorum when all masters last showed theirs.
    pub fn has_minor(&self) -> bool {
        self.minor.as_ref().is_some_and(|minor| !minor.is_empty())
    }

    /// Takes the leases that fewer than a quorum held, by key, when all masters had shown theirs; `None` if they have
    /// not since the last call. Votes for these leases may still be on their way.
    pub fn minor(&mut self) -> Option<Vec<(P::Key, P::Lease)>> {
        self.minor.take()
    }

    /// Continues with a program that turned out to use more keys: those that it was sent with come first, in their
    /// order. They still show the fate of earlier attempts.
    pub fn with_keys(&mut self, program: P, now_us: u64) -> Request<P> {
        self.wish = Wish::Run(program);
        self.keys = self.wish.keys();
        self.again(now_us)
    }

    /// Continues under another version of the roster. Promises and votes of the previous one are dropped.
    pub fn under(&mut self, version: u64, now_us: u64) -> Request<P> {
        self.version = version;
        self.again(now_us)
    }

    /// Records the answer of `master`, which showed `version`, to the request sent under `ballot`.
    pub fn answer(
        &mut self,
        ballot: Ballot,
        master: MasterId,
        version: u64,
        answer: MasterAnswer<P>,
    ) -> Step<P> {
        if let MasterAnswer::Refused(Refusal { promised, .. }) = &answer
            && *promised != Ballot::NONE
        {
            self.never_runs(ballot, master);
        }
        if self.ballot() != Some(ballot) || self.version != version {
            return Step::Wait;
        }
        match answer {
            MasterAnswer::Promised(sights) => self.promised(master, sights),
            MasterAnswer::Adopted => self.adopted(master),
            MasterAnswer::Applied(ran) => self.applied(master, ran),
            MasterAnswer::Refused(refusal) => self.refused(master, refusal),
        }
    }

    /// Records that a master refused the request under this ballot or was not sent it: it has not run it, and will not
    /// be sent it again. An attempt that no master has run has come to nothing.
    pub fn never_runs(&mut self, ballot: Ballot, master: MasterId) {
        self.attempts.never_runs(ballot, master, self.quorum.everybody());
    }

    /// Records that a master stopped the attempt under this ballot at a key that it was not sent for. Any other master
    /// that would run it stops as well, since it holds the same state.
    pub fn stops(&mut self, ballot: Ballot, master: MasterId) {
        self.attempts.stop(ballot);
        self.never_runs(ballot, master);
    }

    /// Whether the program was sent and some master may have run it, or may yet.
    pub fn may_have_run(&self) -> bool {
        self.attempts.may_have_run()
    }

    /// Records that no further master will answer the last request. A master that refused may agree to a higher ballot,
    /// and a result that depends on silent masters now may not depend on them next time.
    pub fn no_more_answers(&mut self) -> Step<P> {
        if let Some(step) = self.without_the_silent() {
            return step;
        }
        let may_be_better = match &self.phase {
            Phase::Preparing { promises, no, .. } => {
                !no.is_empty() || promises.len() >= self.quorum.needed()
            }
            Phase::Adopting(round, _) | Phase::Applying(round, ..) => !round.no.is_empty(),
            Phase::Pausing { .. } | Phase::Ended(..) => false,
        };
        if may_be_better { self.pause() } else { Step::Wait }
    }

    /// Records that all outstanding answers were lost. Masters may answer if asked again.
    pub fn all_others_are_lost(&mut self) -> Step<P> {
        match self.no_more_answers() {
            Step::Wait if self.ballot().is_some() => self.pause(),
            step => step,
        }
    }

    /// Returns the ballot of the open round.
    pub fn ballot(&self) -> Option<Ballot> {
        match &self.phase {
            Phase::Preparing { ballot, .. } => Some(*ballot),
            Phase::Adopting(round, _) | Phase::Applying(round, ..) => Some(round.ballot),
            Phase::Pausing { .. } | Phase::Ended(..) => None,
        }
    }

    fn promised(&mut self, master: MasterId, sights: Vec<Sight<P>>) -> Step<P> {
        let Phase::Preparing { promises, .. } = &mut self.phase else { return Step::Wait };
        if promises.iter().any(|(other, _)| *other == master) {
            return Step::Wait;
        }
        promises.push((master, sights));
        promises.sort_by_key(|(master, _)| *master);
        self.look_who_promised()
    }

    /// Examines promises once a quorum has given them and all masters that must be waited for have answered.
    fn look_who_promised(&mut self) -> Step<P> {
        let Phase::Preparing { promises, no, .. } = &self.phase else { return Step::Wait };
        let have_all_answered = promises.len() + no.len() == self.quorum.masters();
        match self.wish.needs_all() {
            _ if promises.len() < self.quorum.needed() => Step::Wait,
            true if !have_all_answered => Step::Wait,
            true if self.is_outbid(*no) => self.pause(),
            _ => self.look(have_all_answered),
        }
    }

    /// Derives what the keys hold from the promises of a quorum.
    fn look(&mut self, have_all_answered: bool) -> Step<P> {
        let Phase::Preparing { ballot, promises, .. } = &self.phase else { return Step::Wait };
        let sights: Vec<&[Sight<P>]> = promises.iter().map(|(_, sights)| &sights[..]).collect();
        let (ballot, asked) = (*ballot, self.wish.keys().len());
        for (key, flush) in self.keys.iter().zip(flush::highest(&sights)) {
            let met = self.flushes.entry(key.clone()).or_default();
            *met = flush.max(*met);
        }
        // The answer of a master that has missed a flush is void, and the master must do the flush before it counts.
        let met: Vec<u64> = self.keys.iter().map(|key| self.flushes[key]).collect();
        let promised = sights.len();
        let sights = flush::after(&sights, &met);
        let needs_all = self.wish.needs_all();
        if sights.len() < self.quorum.needed() || needs_all && sights.len() < promised {
            return Step::Send(self.again(0));
        }
        let minor = remains::minor(self.quorum, &self.keys, &sights);
        let (over, cleared) = match self.wish {
            Wish::Settle(_) => {
                let over = self.over.of(self.quorum, &self.keys, &sights);
                let cleared = self.over.without(&sights, &over);
                (over, cleared)
            }
            Wish::Run(_) | Wish::Read(_) => {
                let cleared = sights.iter().map(|sights| sights.to_vec()).collect();
                (vec![Vec::new(); self.keys.len()], cleared)
            }
        };
        let is_clear = over.iter().all(Vec::is_empty);
        let sights: Vec<&[Sight<P>]> = cleared.iter().map(Vec::as_slice).collect();
        let finding = settle(self.quorum, ballot, &self.keys, asked, &sights);
        let has_nothing_to_send = is_clear && self.has_nothing_to_send(&sights, ballot);
        if minor.is_some() {
            self.minor = minor;
        }
        match finding {
            Finding::Known(holdings) if has_nothing_to_send => self.decided(ballot, holdings),
            // An earlier attempt may still arrive somewhere. If the program now writes nothing, only a state accepted
            // later keeps that attempt from being taken for the newest.
            Finding::Known(holdings) => {
                let states = self.as_they_are(&holdings, ballot);
                self.adopt(ballot, self.without_remains(states, &over), holdings)
            }
            Finding::Adopt(states, holdings) => {
                self.adopt(ballot, self.without_remains(states, &over), holdings)
            }
            Finding::More(keys) => {
                self.keys.extend(keys);
                Step::Send(self.again(0))
            }
            Finding::Undecided if have_all_answered => self.pause(),
            Finding::Undecided => Step::Wait,
        }
    }

    /// Whether the operation can continue from what a quorum holds. If all masters must hold it, the others adopt it
    /// first.
    fn has_nothing_to_send(&self, sights: &[&[Sight<P>]], ballot: Ballot) -> bool {
        let are_alike = |members| {
            let mut places = 0..self.wish.keys().len();
            places.all(|place| alike(members, place, sights, ballot.counter).is_some())
        };
        match self.wish {
            Wish::Settle(_) => are_alike(self.quorum.masters()),
            // Nobody waits for a master that is away.
            _ if self.wish.needs_all() => self.attempts.is_empty() && are_alike(sights.len()),
            _ => self.attempts.is_empty(),
        }
    }

    /// Continues without the silent masters, once all those that answered hold what all masters must hold.
    pub fn without_the_silent(&mut self) -> Option<Step<P>> {
        if !self.wish.needs_all() {
            return None;
        }
        match &self.phase {
            Phase::Preparing { promises, no, .. } => {
                let is_enough = promises.len() >= self.quorum.needed() && !self.is_outbid(*no);
                is_enough.then(|| self.look(true))
            }
            Phase::Adopting(round, _) if self.quorum.reached_by(round.yes) => {
                Some(self.all_have_adopted())
            }
            _ => None,
        }
    }

    /// Whether a master that refused may agree to a higher ballot.
    fn is_outbid(&self, no: MasterSet) -> bool {
        !no.without(self.unable).is_empty()
    }

    /// Continues after a quorum has adopted the states.
    fn settled(&mut self) -> Step<P> {
        let Phase::Adopting(round, holdings) = &mut self.phase else { return Step::Wait };
        let (next, holdings) = (round.next, std::mem::take(holdings));
        self.decided(next, holdings)
    }

    fn as_they_are(&self, holdings: &[HeldBallot<P>], ballot: Ballot) -> Vec<slot::Adopted<P>> {
        let adopted = |(key, holding): (&P::Key, &HeldBallot<P>)| slot::Adopted {
            key: key.clone(),
            from: holding.state.accepted,
            state: slot::State { accepted: ballot, open: None, ..holding.state.clone() },
            over: Vec::new(),
            flush: holding.flush,
        };
        self.keys.iter().zip(holdings).map(adopted).collect()
    }

    /// Adds to each state the leases under its key that are over and must be removed.
    fn without_remains(
        &self,
        states: Vec<slot::Adopted<P>>,
        over: &[Vec<P::Lease>],
    ) -> Vec<slot::Adopted<P>> {
        let of = |adopted: slot::Adopted<P>| {
            let place = self.keys.iter().position(|key| *key == adopted.key);
            slot::Adopted { over: place.map(|at| over[at].clone()).unwrap_or_default(), ..adopted }
        };
        states.into_iter().map(of).collect()
    }

    fn adopt(
        &mut self,
        ballot: Ballot,
        states: Vec<slot::Adopted<P>>,
        mut holdings: Vec<HeldBallot<P>>,
    ) -> Step<P> {
        for holding in &mut holdings {
            holding.state.accepted = ballot;
        }
        let round = self.round(ballot, 0);
        self.phase = Phase::Adopting(round, holdings);
        Step::Send(Request::Adopt(Adopt { states, next: round.next }))
    }

    fn adopted(&mut self, master: MasterId) -> Step<P> {
        let Phase::Adopting(round, _) = &mut self.phase else { return Step::Wait };
        round.yes.insert(master);
        round.no.remove(master);
        self.look_who_adopted()
    }

    /// Continues once a quorum has adopted the states and all masters that must be waited for have answered.
    fn look_who_adopted(&mut self) -> Step<P> {
        let Phase::Adopting(round, _) = &self.phase else { return Step::Wait };
        let have_all_answered = round.yes.union(round.no).len() == self.quorum.masters();
        match self.quorum.reached_by(round.yes) {
            true if have_all_answered => self.all_have_adopted(),
            true if !self.wish.needs_all() => self.settled(),
            _ => Step::Wait,
        }
    }

    /// Continues after a quorum has adopted the states and no other master will answer. A program on several keys must
    /// not bypass a master that has promised to another worker: that master may lack what the program runs on.
    fn all_have_adopted(&mut self) -> Step<P> {
        let Phase::Adopting(round, _) = &self.phase else { return Step::Wait };
        let needs_all = matches!(&self.wish, Wish::Run(program) if program.needs_all());
        if needs_all && self.is_outbid(round.no) { self.pause() } else { self.settled() }
    }

    /// Continues once a quorum holds `holdings` and has promised `ballot`.
    fn decided(&mut self, ballot: Ballot, holdings: Vec<HeldBallot<P>>) -> Step<P> {
        let Wish::Run(program) = self.wish.clone() else {
            return self.end(Outcome::Read(holdings));
        };
        match self.attempts.fate(&holdings) {
            Fate::Ran((ballot, reply)) => {
                self.found = Some(ballot);
                self.end(Outcome::Ran(reply))
            }
            Fate::NotKnown => self.end(Outcome::NotKnown),
            Fate::DidNotRun if !program.may_run(&holdings, ballot.counter) => {
                self.end(Outcome::Unmet)
            }
            Fate::DidNotRun => {
                let basis = |holding: HeldBallot<P>| Basis {
                    accepted: holding.state.accepted,
                    lease: holding.lease,
                    ballot,
                    flush: holding.flush,
                };
                let basis = holdings.into_iter().map(basis).collect();
                Step::Send(self.apply(program, basis, ballot.counter))
            }
        }
    }

    fn apply(&mut self, program: P, basis: Vec<Basis<P>>, now_us: u64) -> Request<P> {
        let ballot = self.attempts.send(&program, &basis);
        let now_us = now_us.max(ballot.counter);
        let round = self.round(ballot, now_us);
        self.phase = Phase::Applying(round, basis.clone(), None);
        Request::Apply(Apply { program, basis, now_us, next: round.next })
    }

    fn applied(&mut self, master: MasterId, ran: Ran<P>) -> Step<P> {
        let Phase::Applying(round, basis, first) = &mut self.phase else { return Step::Wait };
        // A program writes on all masters that run it on one state, or on none. A master that says otherwise has not
        // run it.
        if first.get_or_insert_with(|| ran.clone()).wrote != ran.wrote {
            return self.refused(master, Refusal::UNTOLD);
        }
        round.yes.insert(master);
        let ran = first.clone().filter(|_| self.quorum.reached_by(round.yes));
        let Some(Ran { reply, wrote, is_promised }) = ran else {
            return Step::Wait;
        };
        let (next, yes) = (is_promised.then_some(round.next), round.yes);
        let held = basis.iter().map(|basis| basis.after(wrote, next)).collect();
        self.phase = Phase::Ended(held, yes);
        Step::Done(Outcome::Ran(reply))
    }

    /// Returns the basis for this worker's next program with [`Proposer::with_promises`], once this one ran.
    pub fn held(&self) -> Option<&[Basis<P>]> {
        match &self.phase {
            Phase::Ended(held, _) => held.as_deref(),
            _ => None,
        }
    }

    /// Returns the ballot of the attempt that turned out to have run, if too few masters had confirmed it.
    pub fn found(&self) -> Option<Ballot> {
        self.found
    }

    /// Returns the masters known to hold the outcome.
    pub fn holders(&self) -> MasterSet {
        match &self.phase {
            Phase::Ended(_, holders) => *holders,
            _ => MasterSet::EMPTY,
        }
    }

    /// Waits for the others as long as they can still make a quorum.
    fn refused(&mut self, master: MasterId, refusal: Refusal) -> Step<P> {
        self.highest = self.highest.max(refusal.promised);
        Early::hear(&mut self.early, refusal);
        let is_outbid = self.ballot().is_some_and(|ballot| ballot <= refusal.promised);
        match !is_outbid && refusal.latest_us.is_none() {
            true => self.unable.insert(master),
            false => self.unable.remove(master),
        };
        let no = match &mut self.phase {
            Phase::Preparing { no, .. } => no,
            Phase::Adopting(round, _) | Phase::Applying(round, ..) => &mut round.no,
            Phase::Pausing { .. } | Phase::Ended(..) => return Step::Wait,
        };
        no.insert(master);
        if no.len() > self.quorum.tolerates() {
            return self.pause();
        }
        match &self.phase {
            Phase::Adopting(..) => self.look_who_adopted(),
            Phase::Preparing { .. } if self.wish.needs_all() => self.look_who_promised(),
            _ => Step::Wait,
        }
    }

    fn pause(&mut self) -> Step<P> {
        let is_split = match &self.phase {
            Phase::Preparing { promises, .. } => promises.len() >= self.quorum.needed(),
            _ => false,
        };
        self.phase = Phase::Pausing { is_split };
        Step::Pause
    }

    /// Whether a quorum's promises left open what the keys hold, and the program was never sent.
    pub fn is_split(&self) -> bool {
        self.phase == Phase::Pausing { is_split: true } && self.attempts.is_empty()
    }

    fn end(&mut self, outcome: Outcome<P>) -> Step<P> {
        self.phase = Phase::Ended(None, MasterSet::EMPTY);
        Step::Done(outcome)
    }

    fn round(&mut self, ballot: Ballot, now_us: u64) -> Round {
        let next = Ballot::above(ballot, now_us, self.worker);
        self.highest = self.highest.max(next);
        Round { ballot, next, yes: MasterSet::EMPTY, no: MasterSet::EMPTY }
    }
}

impl<P: Program> Basis<P> {
    /// Returns the basis of the same key after the program, unless a lease was in between.
    fn after(&self, wrote: bool, next: Option<Ballot>) -> Option<Self> {
        let accepted = if wrote { self.ballot } else { self.accepted };
        let ballot = next.unwrap_or(self.ballot);
        let flush = self.flush;
        self.lease.is_none().then_some(Self { accepted, lease: None, ballot, flush })
    }
}
