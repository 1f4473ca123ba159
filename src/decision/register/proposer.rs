//! The worker's side of changing or reading a register.
//!
//! A [`Proposer`] is one operation on one key. Its owner sends every request to all masters and passes in the answers.
//! It calls [`Proposer::again`] after a refusal, when too few masters answered in time, or when the electorate changed.

use super::acceptor::{Adopt, Apply, Fate, Refusal};
use super::ballot::Ballot;
use super::electorate::RegisterElectorate;
use super::{Program, StateOf};
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// A request to every master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request<P: Program> {
    /// Promise this ballot, and show the state.
    Prepare(Ballot),
    /// Accept a state.
    Adopt(Adopt<P::Value, P::Reply>),
    /// Run a program.
    Apply(Apply<P>),
}

/// One master's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MasterAnswer<P: Program> {
    /// The master promised the ballot, and holds this state.
    Promised(StateOf<P>),
    /// The master accepted the state.
    Adopted,
    /// The program ran, with this reply.
    Applied(P::Reply),
    /// The master changed nothing.
    Refused(Refusal),
}

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step<P: Program> {
    /// Wait for the next answer or the deadline.
    Wait,
    /// Send this to every master.
    Send(Request<P>),
    /// Another worker is active, or a master is behind: pause for a random time, then call [`Proposer::again`].
    Pause,
    /// The operation has ended.
    Done(Outcome<P>),
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<P: Program> {
    /// The program ran exactly once.
    Ran(P::Reply),
    /// Value, for an operation that only reads.
    Read(P::Value),
    /// The program may have run or not, and it is too late to find out. It must not run again.
    NotKnown,
}

/// State of one operation in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposer<P: Program, E: RegisterElectorate<P::Value>> {
    quorum: Quorum,
    worker: u64,
    electorate: E,
    /// Program to run; `None` to only read.
    program: Option<P>,
    /// Ballots under which the program was sent. At most one of them can take effect.
    attempts: Vec<Ballot>,
    /// Highest ballot seen.
    highest: Ballot,
    phase: Phase<P, E::Credential>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase<P: Program, C> {
    Preparing {
        ballot: Ballot,
        promises: Vec<Promise<P, C>>,
        no: MasterSet,
    },
    Adopting(Accepting<StateOf<P>>),
    /// With the value by which the electorate judges, and the reply of the masters that applied.
    Applying(Accepting<P::Value>, Option<P::Reply>),
    /// The round is lost: the next one has a higher ballot.
    Pausing,
    Ended,
}

/// One master's promise, with the state that it is about.
type Promise<P, C> = (MasterId, C, StateOf<P>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Accepting<S> {
    ballot: Ballot,
    next: Ballot,
    /// State or value that the round is built on.
    basis: S,
    yes: MasterSet,
    no: MasterSet,
}

impl<P, E> Proposer<P, E>
where
    P: Program + Clone,
    E: RegisterElectorate<P::Value> + Clone + PartialEq,
{
    /// Starts to run `program`, or to read if there is none, with its own prepare.
    pub fn new(
        quorum: Quorum,
        worker: u64,
        electorate: E,
        program: Option<P>,
        now_us: u64,
    ) -> (Self, Request<P>) {
        let (attempts, phase) = (Vec::new(), Phase::Pausing);
        let highest = Ballot { epoch: electorate.epoch(), ..Ballot::NONE };
        let mut proposer = Self { quorum, worker, electorate, program, attempts, highest, phase };
        let request = proposer.again(now_us);
        (proposer, request)
    }

    /// Starts a round with a higher ballot. Answers to earlier rounds no longer count.
    pub fn again(&mut self, now_us: u64) -> Request<P> {
        let ballot = Ballot::above(self.highest, now_us, self.worker);
        self.highest = ballot;
        self.phase = Phase::Preparing { ballot, promises: Vec::new(), no: MasterSet::EMPTY };
        Request::Prepare(ballot)
    }

    /// Continues under another electorate. Promises and votes of the previous one are dropped.
    pub fn under(&mut self, electorate: E, now_us: u64) -> Request<P> {
        self.electorate = electorate;
        self.again(now_us)
    }

    /// Records the answer of `master` to the request sent under `ballot`.
    pub fn answer(
        &mut self,
        ballot: Ballot,
        master: MasterId,
        credential: E::Credential,
        answer: MasterAnswer<P>,
    ) -> Step<P> {
        if self.ballot() != Some(ballot) {
            return Step::Wait;
        }
        match answer {
            MasterAnswer::Promised(state) => self.promised(master, credential, state),
            MasterAnswer::Adopted => self.adopted(master, credential),
            MasterAnswer::Applied(reply) => self.applied(master, credential, reply),
            MasterAnswer::Refused(refusal) => self.refused(master, refusal),
        }
    }

    /// Records that no further master will answer the last request. Masters that refused may agree to a higher ballot.
    pub fn no_more_answers(&mut self) -> Step<P> {
        let was_refused = match &self.phase {
            Phase::Preparing { no, .. } => !no.is_empty(),
            Phase::Adopting(round) => !round.no.is_empty(),
            Phase::Applying(round, _) => !round.no.is_empty(),
            Phase::Pausing | Phase::Ended => false,
        };
        if was_refused { self.pause() } else { Step::Wait }
    }

    /// Returns the ballot of the open round.
    pub fn ballot(&self) -> Option<Ballot> {
        match &self.phase {
            Phase::Preparing { ballot, .. } => Some(*ballot),
            Phase::Adopting(round) => Some(round.ballot),
            Phase::Applying(round, _) => Some(round.ballot),
            Phase::Pausing | Phase::Ended => None,
        }
    }

    fn promised(&mut self, master: MasterId, shown: E::Credential, state: StateOf<P>) -> Step<P> {
        let Phase::Preparing { ballot, promises, .. } = &mut self.phase else { return Step::Wait };
        if promises.iter().any(|(other, ..)| *other == master) {
            return Step::Wait;
        }
        self.highest = self.highest.max(state.accepted);
        promises.push((master, shown, state));
        promises.sort_by_key(|(master, ..)| *master);
        let (ballot, promises) = (*ballot, promises.clone());
        match self.promised_by_a_quorum(&promises) {
            None => Step::Wait,
            Some((newest, true)) => self.decided(ballot, newest.clone()),
            Some((newest, false)) => self.adopt(ballot, newest.clone()),
        }
    }

    /// Returns the newest state such that a quorum of its own electorate showed nothing newer, and whether a quorum
    /// holds it.
    ///
    /// Newer states that others showed can never be decided: their own electorates deny them a quorum.
    fn promised_by_a_quorum<'a>(
        &self,
        promises: &'a [Promise<P, E::Credential>],
    ) -> Option<(&'a StateOf<P>, bool)> {
        let mut states: Vec<&StateOf<P>> = promises.iter().map(|(.., state)| state).collect();
        states.sort_by_key(|state| std::cmp::Reverse(state.accepted));
        let newest = states.first()?.accepted;
        states.into_iter().find_map(|state| {
            let needed = self.quorum_of(&state.value).needed();
            let counts = |(master, shown, its): &&Promise<P, _>| {
                its.accepted <= state.accepted
                    && self.electorate.counts(&state.value, *master, shown)
            };
            let counted: Vec<_> = promises.iter().filter(counts).collect();
            let alike = counted.iter().filter(|(.., its)| its.accepted == state.accepted).count();
            let is_held = alike >= needed && state.accepted == newest;
            (counted.len() >= needed).then_some((state, is_held))
        })
    }

    fn quorum_of(&self, value: &P::Value) -> Quorum {
        self.electorate.quorum(value).unwrap_or(self.quorum)
    }

    /// Has a quorum adopt the newest state that a quorum showed.
    fn adopt(&mut self, ballot: Ballot, newest: StateOf<P>) -> Step<P> {
        let basis = newest.under(ballot);
        let round = self.round(ballot, basis.clone());
        let next = round.next;
        self.phase = Phase::Adopting(round);
        Step::Send(Request::Adopt(Adopt { state: basis, next }))
    }

    fn adopted(&mut self, master: MasterId, shown: E::Credential) -> Step<P> {
        let Phase::Adopting(round) = &mut self.phase else { return Step::Wait };
        if self.electorate.counts(&round.basis.value, master, &shown) {
            round.yes.insert(master);
        }
        let quorum = self.electorate.quorum(&round.basis.value).unwrap_or(self.quorum);
        if !quorum.reached_by(round.yes) {
            return Step::Wait;
        }
        let (next, basis) = (round.next, round.basis.clone());
        self.decided(next, basis)
    }

    /// Continues once a quorum holds `state` and has promised `ballot`.
    fn decided(&mut self, ballot: Ballot, state: StateOf<P>) -> Step<P> {
        let Some(program) = self.program.clone() else {
            self.phase = Phase::Ended;
            return Step::Done(Outcome::Read(state.value));
        };
        let fates = self.attempts.iter().map(|attempt| state.recent.fate(*attempt));
        match fates.reduce(Fate::of_any).unwrap_or(Fate::DidNotRun) {
            Fate::Ran(reply) => self.end(Outcome::Ran(reply)),
            Fate::NotKnown => self.end(Outcome::NotKnown),
            Fate::DidNotRun => Step::Send(self.apply(program, ballot, state.accepted, state.value)),
        }
    }

    fn apply(
        &mut self,
        program: P,
        ballot: Ballot,
        expected: Ballot,
        value: P::Value,
    ) -> Request<P> {
        self.attempts.push(ballot);
        let round = self.round(ballot, value);
        let next = round.next;
        self.phase = Phase::Applying(round, None);
        Request::Apply(Apply { program, expected, ballot, next })
    }

    fn applied(&mut self, master: MasterId, shown: E::Credential, reply: P::Reply) -> Step<P> {
        let Phase::Applying(round, first) = &mut self.phase else { return Step::Wait };
        if self.electorate.counts(&round.basis, master, &shown) {
            first.get_or_insert(reply);
            round.yes.insert(master);
        }
        let quorum = self.electorate.quorum(&round.basis).unwrap_or(self.quorum);
        let (true, Some(reply)) = (quorum.reached_by(round.yes), first.clone()) else {
            return Step::Wait;
        };
        self.end(Outcome::Ran(reply))
    }

    /// Waits for the others as long as they can still make a quorum.
    fn refused(&mut self, master: MasterId, refusal: Refusal) -> Step<P> {
        self.highest = self.highest.max(refusal.promised);
        let no = match &mut self.phase {
            Phase::Preparing { no, .. } => no,
            Phase::Adopting(round) => &mut round.no,
            Phase::Applying(round, _) => &mut round.no,
            Phase::Pausing | Phase::Ended => return Step::Wait,
        };
        no.insert(master);
        if no.len() > self.quorum.tolerates() { self.pause() } else { Step::Wait }
    }

    fn pause(&mut self) -> Step<P> {
        self.phase = Phase::Pausing;
        Step::Pause
    }

    fn end(&mut self, outcome: Outcome<P>) -> Step<P> {
        self.phase = Phase::Ended;
        Step::Done(outcome)
    }

    fn round<S>(&mut self, ballot: Ballot, basis: S) -> Accepting<S> {
        let next = Ballot::above(ballot, 0, self.worker);
        self.highest = self.highest.max(next);
        Accepting { ballot, next, basis, yes: MasterSet::EMPTY, no: MasterSet::EMPTY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::register::acceptor::{self};
    use crate::specification::one_version::OneVersion;
    use crate::specification::stamp::{self, Stamp};

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Increment;

    impl Program for Increment {
        type Value = u8;
        type Reply = u8;

        fn run(&self, value: &u8) -> (u8, u8) {
            (value + 1, value + 1)
        }
    }

    /// Lets only the last master's answer count for a value of 100 or more.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Alone;

    impl RegisterElectorate<u8> for Alone {
        type Credential = ();

        fn epoch(&self) -> u64 {
            3
        }

        fn counts(&self, highest: &u8, master: MasterId, (): &()) -> bool {
            *highest < 100 || master == MasterId::new(2)
        }
    }

    #[test]
    fn a_newer_state_whose_own_electorate_lacks_a_quorum_is_replaced() {
        let state = |value, counter| {
            let accepted = Ballot { epoch: 0, counter, worker: 8 };
            acceptor::State { accepted, value, recent: acceptor::Recent::default() }
        };
        let quorum = Quorum::of(3);
        let (mut worker, request) =
            Proposer::<Increment, Alone>::new(quorum, 7, Alone, Some(Increment), 100);
        let ballot = Ballot { epoch: 3, counter: 100, worker: 7 };
        assert_eq!(request, Request::Prepare(ballot), "it outbids what was promised before");
        let mut promise = |master, state| {
            worker.answer(ballot, MasterId::new(master), (), MasterAnswer::Promised(state))
        };
        assert_eq!(promise(2, state(200, 900)), Step::Wait);
        assert_eq!(promise(0, state(1, 5)), Step::Wait, "it does not count for the newer one");
        let Step::Send(Request::Adopt(adopt)) = promise(1, state(1, 5)) else {
            panic!("the masters differ");
        };
        assert_eq!((adopt.state.value, adopt.state.accepted), (1, ballot));
    }

    type Masters = [Stamp<u8, u8>; 3];
    type Worker = Proposer<Increment, OneVersion>;

    const VERSION: OneVersion = OneVersion(1);

    fn start(program: Option<Increment>) -> (Worker, Request<Increment>) {
        Worker::new(Quorum::of(3), 7, VERSION, program, 100)
    }

    fn execute(stamp: &mut Stamp<u8, u8>, request: &Request<Increment>) -> MasterAnswer<Increment> {
        let answer = match request {
            Request::Prepare(ballot) => stamp.prepare(*ballot).map(MasterAnswer::Promised),
            Request::Adopt(adopt) => stamp.adopt(adopt).map(|()| MasterAnswer::Adopted),
            Request::Apply(apply) => stamp::apply(stamp, apply, 2).map(MasterAnswer::Applied),
        };
        answer.unwrap_or_else(MasterAnswer::Refused)
    }

    /// Sends a request to some masters, and returns the last step.
    fn ask(
        worker: &mut Worker,
        masters: &mut Masters,
        asked: &[usize],
        request: &Request<Increment>,
    ) -> Step<Increment> {
        let ballot = worker.ballot().unwrap_or_default();
        let mut last = Step::Wait;
        for at in asked {
            let answer = execute(&mut masters[*at], request);
            let step = worker.answer(ballot, MasterId::new(*at), 1, answer);
            last = if step == Step::Wait { last } else { step };
        }
        last
    }

    /// A proxy whose clock is behind must outbid another proxy's promise.
    #[test]
    fn one_that_refuses_while_another_is_silent_is_asked_again_with_a_higher_ballot() {
        let mut masters = Masters::default();
        let ahead = Ballot { epoch: 0, counter: 1_000_000, worker: 9 };
        assert!(masters[1].prepare(ahead).is_ok());
        let (mut worker, request) = start(Some(Increment));
        assert_eq!(ask(&mut worker, &mut masters, &[0, 1], &request), Step::Wait);
        assert_eq!(worker.no_more_answers(), Step::Pause);
        let mut request = worker.again(101);
        let step = loop {
            match ask(&mut worker, &mut masters, &[0, 1], &request) {
                Step::Send(next) => request = next,
                step => break step,
            }
        };
        assert_eq!(step, Step::Done(Outcome::Ran(1)));
    }

    #[test]
    fn who_was_only_silent_is_not_asked_again() {
        let (mut worker, request) = start(Some(Increment));
        ask(&mut worker, &mut Masters::default(), &[0], &request);
        assert_eq!(worker.no_more_answers(), Step::Wait);
    }

    #[test]
    fn answers_of_another_version_do_not_count() {
        let (mut worker, request) = start(None);
        let Request::Prepare(ballot) = request else { panic!("a prepare comes first") };
        for at in 0..3 {
            let promise = MasterAnswer::Promised(StateOf::<Increment>::default());
            assert_eq!(worker.answer(ballot, MasterId::new(at), 2, promise), Step::Wait);
        }
    }

    #[test]
    fn who_is_refused_by_too_many_pauses_and_comes_back_with_a_higher_ballot() {
        let mut masters = Masters::default();
        let high = Ballot { epoch: 0, counter: 900, worker: 8 };
        for master in &mut masters[..2] {
            assert!(master.prepare(high).is_ok());
        }
        let (mut worker, request) = start(None);
        assert_eq!(ask(&mut worker, &mut masters, &[0], &request), Step::Wait);
        assert_eq!(ask(&mut worker, &mut masters, &[1], &request), Step::Pause);
        let Request::Prepare(ballot) = worker.again(200) else { panic!("a prepare") };
        assert!(ballot > high);
    }

    #[test]
    fn a_program_whose_answer_was_lost_is_answered_from_the_list() {
        let mut masters = Masters::default();
        let (mut worker, request) = start(Some(Increment));
        let Step::Send(apply) = ask(&mut worker, &mut masters, &[0, 1], &request) else {
            panic!("both show the same");
        };
        for master in &mut masters {
            execute(master, &apply);
        }
        let look = worker.again(200);
        let step = ask(&mut worker, &mut masters, &[1, 2], &look);
        assert_eq!(step, Step::Done(Outcome::Ran(1)));
        assert_eq!(masters.each_ref().map(|master| master.state.value), [1; 3]);
    }

    #[test]
    fn a_program_that_the_list_does_not_reach_is_not_run_again() {
        let mut masters = Masters::default();
        let (mut worker, request) = start(Some(Increment));
        let Step::Send(_) = ask(&mut worker, &mut masters, &[0, 1], &request) else {
            panic!("both show the same");
        };
        for counter in [1_000, 2_000, 3_000] {
            let ballot = Ballot { epoch: 0, counter, worker: 8 };
            for master in &mut masters {
                assert!(master.prepare(ballot).is_ok());
                let expected = master.state.accepted;
                let next = Ballot::above(ballot, 0, 8);
                let apply = Apply { program: Increment, expected, ballot, next };
                assert!(stamp::apply(master, &apply, 2).is_ok());
            }
        }
        let look = worker.again(4_000);
        let step = ask(&mut worker, &mut masters, &[0, 1], &look);
        assert_eq!(step, Step::Done(Outcome::NotKnown));
    }

    #[test]
    fn a_state_of_a_minority_is_adopted_under_the_readers_ballot() {
        let mut masters = Masters::default();
        let old = Apply {
            program: Increment,
            expected: Ballot::NONE,
            ballot: Ballot { epoch: 0, counter: 5, worker: 8 },
            next: Ballot { epoch: 0, counter: 6, worker: 8 },
        };
        assert!(stamp::apply(&mut masters[0], &old, 2).is_ok());
        let (mut worker, request) = start(None);
        let Step::Send(adopt) = ask(&mut worker, &mut masters, &[0, 1], &request) else {
            panic!("they differ");
        };
        let step = ask(&mut worker, &mut masters, &[1, 2], &adopt);
        assert_eq!(step, Step::Done(Outcome::Read(1)));
        assert_eq!(masters[1].state.accepted, Ballot { epoch: 0, counter: 100, worker: 7 });
    }
}
