//! What a worker does to run a program, or to read.
//!
//! A [`Proposer`] is one operation. Its owner sends every request to all masters, hands in the answers, and calls
//! [`Proposer::again`] after a refusal, when too little was answered in time, or when the roster's version changed.

use super::settle::{Finding, Holding, settle};
use super::slot::{Adopt, Apply, Basis, Ran, Refusal, Sight, Slots};
use super::{Program, Runs, slot};
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;
use crate::quorum::{MasterId, MasterSet, Quorum};

/// A request to every master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request<P: Program> {
    /// Promise this ballot for these keys, and tell what they hold.
    Prepare(Vec<P::Key>, Ballot),
    /// Accept states.
    Adopt(Adopt<P>),
    /// Run a program.
    Apply(Apply<P>),
}

/// What a master answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer<P: Program> {
    /// The ballot is promised; the keys hold this.
    Promised(Vec<Sight<P>>),
    /// The states are accepted.
    Adopted,
    /// The program ran, and replied.
    Applied(Ran<P>),
    /// Nothing was changed.
    Refused(Refusal),
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step<P: Program> {
    /// Nothing, until the next answer or the deadline.
    Wait,
    /// Send this to every master.
    Send(Request<P>),
    /// Somebody else is at work, or a master is behind: pause at random, then call [`Proposer::again`].
    Pause,
    /// The operation has ended.
    Done(Outcome<P>),
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<P: Program> {
    /// The program ran, exactly once.
    Ran(P::Reply),
    /// What the keys hold, for an operation that only reads.
    Read(Vec<Holding<P>>),
    /// It may have run or not, and nobody can tell any more. It must not run again.
    NotKnown,
}

/// What an operation wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wish<P: Program> {
    /// To run this.
    Run(P),
    /// To know what these keys hold.
    Read(Vec<P::Key>),
}

/// One operation on its way through the masters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposer<P: Program> {
    quorum: Quorum,
    worker: u64,
    /// The roster version under which everything is sent. Answers under another one do not count.
    version: u64,
    wish: Wish<P>,
    /// The keys that are looked at: those of the wish first.
    keys: Vec<P::Key>,
    /// What the program was sent under, by key. At most one of them can take effect.
    attempts: Vec<Vec<(P::Key, Ballot)>>,
    /// The highest ballot met.
    highest: Ballot,
    phase: Phase<P>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase<P: Program> {
    Preparing {
        ballot: Ballot,
        promises: Vec<(MasterId, Vec<Sight<P>>)>,
        no: MasterSet,
    },
    Adopting(Round, Vec<Holding<P>>),
    Applying(Round, Vec<Basis<P>>, Option<Ran<P>>),
    /// A round is lost: the next one has a higher ballot.
    Pausing,
    /// With what the keys hold now, if this worker may go on with them.
    Ended(Option<Vec<Basis<P>>>),
}

/// Votes on what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Round {
    /// The ballot that answers to it are known by.
    ballot: Ballot,
    next: Ballot,
    yes: MasterSet,
    no: MasterSet,
}

impl<P: Program> Proposer<P> {
    /// Begins with a prepare.
    pub fn new(
        quorum: Quorum,
        worker: u64,
        version: u64,
        wish: Wish<P>,
        now_us: u64,
    ) -> (Self, Request<P>) {
        let keys = wish.keys();
        let (attempts, phase, highest) = (Vec::new(), Phase::Pausing, Ballot::NONE);
        let mut it = Self { quorum, worker, version, wish, keys, attempts, highest, phase };
        let request = it.again(now_us);
        (it, request)
    }

    /// Begins to run `program` on what this worker's last one left: `basis` of each of its keys, under a version that has
    /// not changed. It takes one round trip.
    pub fn with_promises(
        quorum: Quorum,
        worker: u64,
        version: u64,
        program: P,
        basis: Vec<Basis<P>>,
        now_us: u64,
    ) -> (Self, Request<P>) {
        let (wish, keys) = (Wish::Run(program.clone()), program.keys());
        let highest = basis.iter().map(|basis| basis.ballot).max().unwrap_or_default();
        let (attempts, phase) = (Vec::new(), Phase::Pausing);
        let mut it = Self { quorum, worker, version, wish, keys, attempts, highest, phase };
        let request = it.apply(program, basis, now_us);
        (it, request)
    }

    /// Begins a round with a higher ballot. Whatever the rounds before may still bring does not count any more.
    pub fn again(&mut self, now_us: u64) -> Request<P> {
        let ballot = Ballot::above(self.highest, now_us, self.worker);
        self.highest = ballot;
        self.phase = Phase::Preparing { ballot, promises: Vec::new(), no: MasterSet::EMPTY };
        Request::Prepare(self.keys.clone(), ballot)
    }

    /// Goes on with a program that turned out to use more keys: those that it was sent with come first, in their order.
    /// What became of it under those is still told from them.
    pub fn with_keys(&mut self, program: P, now_us: u64) -> Request<P> {
        self.wish = Wish::Run(program);
        self.keys = self.wish.keys();
        self.again(now_us)
    }

    /// Goes on under another version of the roster. Promises and votes of the one before are dropped.
    pub fn under(&mut self, version: u64, now_us: u64) -> Request<P> {
        self.version = version;
        self.again(now_us)
    }

    /// Takes the answer of `master`, which showed `version`, to what was sent under `ballot`.
    pub fn answer(
        &mut self,
        ballot: Ballot,
        master: MasterId,
        version: u64,
        answer: Answer<P>,
    ) -> Step<P> {
        if self.ballot() != Some(ballot) || self.version != version {
            return Step::Wait;
        }
        match answer {
            Answer::Promised(sights) => self.promised(master, sights),
            Answer::Adopted => self.adopted(master),
            Answer::Applied(ran) => self.applied(master, ran),
            Answer::Refused(Refusal(promised)) => self.refused(master, promised),
        }
    }

    /// Nobody else answers what was sent last. Whoever has refused may agree to a higher ballot, and what hung on who is
    /// silent may hang on nobody the next time.
    pub fn no_more_answers(&mut self) -> Step<P> {
        let may_be_better = match &self.phase {
            Phase::Preparing { promises, no, .. } => {
                !no.is_empty() || promises.len() >= self.quorum.needed()
            }
            Phase::Adopting(round, _) | Phase::Applying(round, ..) => !round.no.is_empty(),
            Phase::Pausing | Phase::Ended(_) => false,
        };
        if may_be_better { self.pause() } else { Step::Wait }
    }

    /// The ballot of the round that is open.
    pub fn ballot(&self) -> Option<Ballot> {
        match &self.phase {
            Phase::Preparing { ballot, .. } => Some(*ballot),
            Phase::Adopting(round, _) | Phase::Applying(round, ..) => Some(round.ballot),
            Phase::Pausing | Phase::Ended(_) => None,
        }
    }

    fn promised(&mut self, master: MasterId, sights: Vec<Sight<P>>) -> Step<P> {
        let Phase::Preparing { ballot, promises, no } = &mut self.phase else { return Step::Wait };
        if promises.iter().any(|(other, _)| *other == master) {
            return Step::Wait;
        }
        promises.push((master, sights));
        promises.sort_by_key(|(master, _)| *master);
        if promises.len() < self.quorum.needed() {
            return Step::Wait;
        }
        let have_all_answered = promises.len() + no.len() == self.quorum.everybody().len();
        let sights: Vec<&[Sight<P>]> = promises.iter().map(|(_, sights)| &sights[..]).collect();
        let (ballot, asked) = (*ballot, self.wish.keys().len());
        match settle(self.quorum, ballot, &self.keys, asked, &sights) {
            Finding::Known(holdings) if self.attempts.is_empty() => self.decided(ballot, holdings),
            // An earlier attempt may still arrive somewhere. If the program now writes nothing, only a state that was
            // accepted later keeps it from being taken for the newest.
            Finding::Known(holdings) => {
                self.adopt(ballot, self.as_they_are(&holdings, ballot), holdings)
            }
            Finding::Adopt(states, holdings) => self.adopt(ballot, states, holdings),
            Finding::More(keys) => {
                self.keys.extend(keys);
                Step::Send(self.again(0))
            }
            Finding::Undecided if have_all_answered => self.pause(),
            Finding::Undecided => Step::Wait,
        }
    }

    fn as_they_are(&self, holdings: &[Holding<P>], ballot: Ballot) -> Vec<slot::Adopted<P>> {
        let adopted = |(key, holding): (&P::Key, &Holding<P>)| slot::Adopted {
            key: key.clone(),
            from: holding.state.accepted,
            state: slot::State { accepted: ballot, open: None, ..holding.state.clone() },
        };
        self.keys.iter().zip(holdings).map(adopted).collect()
    }

    fn adopt(
        &mut self,
        ballot: Ballot,
        states: Vec<slot::Adopted<P>>,
        mut holdings: Vec<Holding<P>>,
    ) -> Step<P> {
        for holding in &mut holdings {
            holding.state.accepted = ballot;
        }
        let round = self.round(ballot, 0);
        self.phase = Phase::Adopting(round, holdings);
        Step::Send(Request::Adopt(Adopt { states, next: round.next }))
    }

    fn adopted(&mut self, master: MasterId) -> Step<P> {
        let Phase::Adopting(round, holdings) = &mut self.phase else { return Step::Wait };
        round.yes.insert(master);
        if !self.quorum.reached_by(round.yes) {
            return Step::Wait;
        }
        let (next, holdings) = (round.next, std::mem::take(holdings));
        self.decided(next, holdings)
    }

    /// A quorum holds this, and has promised `ballot`.
    fn decided(&mut self, ballot: Ballot, holdings: Vec<Holding<P>>) -> Step<P> {
        let Wish::Run(program) = self.wish.clone() else {
            return self.end(Outcome::Read(holdings));
        };
        match self.fate(&holdings) {
            Fate::Ran(reply) => self.end(Outcome::Ran(reply)),
            Fate::NotKnown => self.end(Outcome::NotKnown),
            Fate::DidNotRun => {
                let basis = |holding: Holding<P>| Basis {
                    accepted: holding.state.accepted,
                    lease: holding.lease,
                    ballot,
                };
                Step::Send(self.apply(program, holdings.into_iter().map(basis).collect(), 0))
            }
        }
    }

    /// What became of the attempts so far. What one key tells is true of all: they were accepted together.
    fn fate(&self, holdings: &[Holding<P>]) -> Fate<P::Reply> {
        let attempts = self.attempts.iter().map(|attempt| {
            let fates = attempt.iter().zip(holdings);
            let fates = fates.map(|((_, ballot), holding)| holding.state.recent.fate(*ballot));
            fates.reduce(Fate::of_one).unwrap_or(Fate::DidNotRun)
        });
        attempts.reduce(Fate::of_any).unwrap_or(Fate::DidNotRun)
    }

    fn apply(&mut self, program: P, basis: Vec<Basis<P>>, now_us: u64) -> Request<P> {
        let ballots = basis.iter().map(|basis| basis.ballot);
        self.attempts.push(program.keys().into_iter().zip(ballots.clone()).collect());
        let highest = ballots.max().unwrap_or_default();
        let now_us = now_us.max(highest.counter);
        let round = self.round(highest, now_us);
        self.phase = Phase::Applying(round, basis.clone(), None);
        Request::Apply(Apply { program, basis, now_us, next: round.next })
    }

    fn applied(&mut self, master: MasterId, ran: Ran<P>) -> Step<P> {
        let Phase::Applying(round, basis, first) = &mut self.phase else { return Step::Wait };
        first.get_or_insert(ran);
        round.yes.insert(master);
        let ran = first.clone().filter(|_| self.quorum.reached_by(round.yes));
        let Some(Ran { reply, wrote, is_promised }) = ran else {
            return Step::Wait;
        };
        let next = is_promised.then_some(round.next);
        let held = basis.iter().map(|basis| basis.after(wrote, next)).collect();
        self.phase = Phase::Ended(held);
        Step::Done(Outcome::Ran(reply))
    }

    /// What this worker's next program may be built on with [`Proposer::with_promises`], once this one ran.
    pub fn held(&self) -> Option<&[Basis<P>]> {
        match &self.phase {
            Phase::Ended(held) => held.as_deref(),
            _ => None,
        }
    }

    /// Waits for the others as long as they can still make a quorum.
    fn refused(&mut self, master: MasterId, promised: Ballot) -> Step<P> {
        self.highest = self.highest.max(promised);
        let no = match &mut self.phase {
            Phase::Preparing { no, .. } => no,
            Phase::Adopting(round, _) | Phase::Applying(round, ..) => &mut round.no,
            Phase::Pausing | Phase::Ended(_) => return Step::Wait,
        };
        no.insert(master);
        if no.len() > self.quorum.tolerates() { self.pause() } else { Step::Wait }
    }

    fn pause(&mut self) -> Step<P> {
        self.phase = Phase::Pausing;
        Step::Pause
    }

    fn end(&mut self, outcome: Outcome<P>) -> Step<P> {
        self.phase = Phase::Ended(None);
        Step::Done(outcome)
    }

    fn round(&mut self, ballot: Ballot, now_us: u64) -> Round {
        let next = Ballot::above(ballot, now_us, self.worker);
        self.highest = self.highest.max(next);
        Round { ballot, next, yes: MasterSet::EMPTY, no: MasterSet::EMPTY }
    }
}

impl<P: Runs> Request<P> {
    /// What a master does that remembers `keep` programs of each key.
    pub fn execute(&self, slots: &mut Slots<P>, keep: usize) -> Answer<P> {
        let answer = match self {
            Self::Prepare(keys, ballot) => slots.prepare(keys, *ballot).map(Answer::Promised),
            Self::Adopt(adopt) => slots.adopt(adopt).map(|()| Answer::Adopted),
            Self::Apply(apply) => slots.apply(apply, keep).map(Answer::Applied),
        };
        answer.unwrap_or_else(Answer::Refused)
    }
}

impl<P: Program> Basis<P> {
    /// The same key after the program, if no lease stands in between.
    fn after(&self, wrote: bool, next: Option<Ballot>) -> Option<Self> {
        let accepted = if wrote { self.ballot } else { self.accepted };
        let ballot = next.unwrap_or(self.ballot);
        self.lease.is_none().then_some(Self { accepted, lease: None, ballot })
    }
}

impl<P: Program> Wish<P> {
    /// The keys.
    pub fn keys(&self) -> Vec<P::Key> {
        match self {
            Self::Run(program) => program.keys(),
            Self::Read(keys) => keys.clone(),
        }
    }
}
