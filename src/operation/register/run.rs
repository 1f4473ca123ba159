//! One operation in progress: the decisions of [`Proposer`] as requests to masters, with their results for its owner.
//!
//! Equal ballots mean equal states, so a master that already has a state adopts it without receiving the content. Only
//! a master that lacks the content gets it, from a master that has adopted the state.

use bytes::Bytes;

use super::answer::{self, Said};
use super::ask::{self, RequestWords};
use super::replies::{self, Replies};
use super::{Job, Lease, Place, RegisterReply, are_too_many, decided};
use crate::decision::keyspace::proposer::{self, MasterAnswer, Outcome, Proposer, Request, Wish};
use crate::decision::keyspace::remains::Over;
use crate::decision::keyspace::slot::{Basis, Refusal};
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::register::ballot::Ballot;
use crate::names::slot::Share;

/// Worker that runs operations.
#[derive(Clone, Copy, Debug)]
pub struct RunWorker {
    /// Number of masters that must agree.
    pub quorum: Quorum,
    /// Id of the worker, drawn at its start.
    pub id: u64,
    /// Version of the roster.
    pub version: u64,
    /// Keys that its masters serve.
    pub share: Share,
}

/// One operation.
#[derive(Debug)]
pub struct Run {
    worker: RunWorker,
    proposer: Proposer<Job>,
    /// Last request, sent to all masters.
    request: Request<Job>,
    /// Number of requests so far.
    round: u32,
    /// Rounds in which the program was sent, with the ballots that identify the answers.
    applied: Vec<(u32, Ballot)>,
    /// Replies of single masters in rounds that were given up, by ballot. Stamps keep less than these.
    heard: Vec<(Ballot, RegisterReply)>,
    copying: Copying,
    wrote: bool,
    /// Replies of masters to the last request.
    replies: Replies,
    /// Masters that have run the last request.
    ran_on: MasterSet,
    /// Those of them that have written.
    wrote_on: MasterSet,
    /// Masters that have refused the last request.
    refused: MasterSet,
    /// Masters that could not run the last request, with their errors.
    failed: Vec<(MasterId, Bytes)>,
    /// Whether its owner has [given up](Run::give_up).
    is_over: bool,
    /// Start of the round by this proxy's clock, in microseconds since the epoch.
    began_us: u64,
    /// Moment at which the program was first sent.
    first: Option<RunMoment>,
    /// Time at which a program first ran that is sent again with another key, in microseconds and by the time of
    /// programs. It may have derived the key from the time or from random numbers, so it sees the same time again.
    begun_us: Option<u64>,
}

/// Moment at which a program ran, in microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMoment {
    /// Time at which it ran. Promised ballots may be ahead of this proxy's clock, and masters may be behind it.
    pub ran_us: u64,
    /// Time by this proxy's clock at which that time was chosen.
    pub chosen_us: u64,
}

/// Content that masters lack while they are to adopt states.
#[derive(Debug, Default)]
struct Copying {
    lacking: MasterSet,
    adopted: MasterSet,
    /// Master that was asked for the content.
    source: Option<MasterId>,
    /// If no master has all of it: the content of each state, from the masters that have shown it. Also the masters
    /// that have yet to answer.
    gathered: Option<(Vec<Option<Bytes>>, MasterSet)>,
}

/// Request that an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    round: u32,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Request,
    Fetch,
    Gather,
}

/// Next step for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStep {
    /// Wait for the next answer or the deadline.
    Wait,
    /// Send this to these masters.
    Send(MasterSet, Token, RequestWords),
    /// Pause for a random time, then call [`Run::again`].
    Pause,
    /// The operation has ended.
    Done(Outcome<Job>),
    /// Too many masters could not run it, so no quorum is left. This is the reason, an error frame. Other masters may
    /// have run it.
    Failed(Bytes),
    /// It uses too many keys, and no master has run it.
    TooManyKeys,
    /// It uses a key of another shard, and no master has run it.
    OfAnotherShard,
}

/// Database of the connection in requests for keys of several databases. No key is in it, so a master selects each
/// key's database.
const NOT_KNOWN: u16 = u16::MAX;

impl Run {
    /// Starts to run `job`, on the promises of this worker's last program if they are known.
    pub fn new(
        worker: RunWorker,
        job: Job,
        held: Option<Vec<Basis<Job>>>,
        now_us: u64,
    ) -> (Self, RunStep) {
        let RunWorker { quorum, id, version, .. } = worker;
        let (proposer, request) = match held {
            Some(basis) => Proposer::with_promises(quorum, id, version, job, basis, now_us),
            None => Proposer::new(quorum, id, version, Wish::Run(job), now_us),
        };
        Self::begun(worker, proposer, request, now_us)
    }

    /// Starts to make all masters hold the same state under these keys, without the leases that are over.
    pub fn settle(
        worker: RunWorker,
        places: Vec<Place>,
        over: Over<Job>,
        now_us: u64,
    ) -> (Self, RunStep) {
        let RunWorker { quorum, id, version, .. } = worker;
        let wish = Wish::Settle(places);
        let (mut proposer, request) = Proposer::new(quorum, id, version, wish, now_us);
        proposer.take_for_remains(over);
        Self::begun(worker, proposer, request, now_us)
    }

    fn begun(
        worker: RunWorker,
        proposer: Proposer<Job>,
        request: Request<Job>,
        now_us: u64,
    ) -> (Self, RunStep) {
        let (ran_on, refused) = (MasterSet::EMPTY, MasterSet::EMPTY);
        let mut it = Self {
            worker,
            proposer,
            request,
            round: 0,
            applied: Vec::new(),
            heard: Vec::new(),
            copying: Copying::default(),
            wrote: false,
            replies: Replies::default(),
            ran_on,
            wrote_on: MasterSet::EMPTY,
            refused,
            failed: Vec::new(),
            is_over: false,
            began_us: now_us,
            first: None,
            begun_us: None,
        };
        let step = it.send();
        (it, step)
    }

    /// Handles the answer of a master, a RESP3 frame. Its clock is `ahead_ms` ahead of the one that `now_us` was
    /// read from.
    pub fn answered(
        &mut self,
        (master, ahead_ms): (MasterId, i64),
        token: Token,
        frame: &[u8],
        now_us: u64,
    ) -> RunStep {
        if token.round != self.round {
            return RunStep::Wait;
        }
        match token.part {
            Part::Fetch | Part::Gather if self.is_over => return RunStep::Wait,
            Part::Fetch => return self.fetched(frame),
            Part::Gather => return self.gather(master, frame),
            Part::Request => {}
        }
        let said = answer::said(&self.request, frame);
        if let Some(Said::Answer(answer)) = &said {
            self.note(master, answer);
        }
        if self.is_over {
            return RunStep::Wait;
        }
        if self.is_failing() {
            return self.still_fails(master, said);
        }
        let answer = match said {
            Some(Said::Answer(answer)) => by_our_clock(answer, ahead_ms),
            Some(Said::Lacking(_)) => {
                self.copying.lacking.insert(master);
                return self.fetch();
            }
            Some(Said::Missing(place)) => {
                self.stops(master);
                // A paused operation asks again by itself, and reaches the key then.
                let is_open = self.proposer.ballot().is_some();
                return if is_open { self.with_key(place, now_us) } else { RunStep::Wait };
            }
            Some(Said::Failed(error)) => return self.has_failed(master, error),
            None => return RunStep::Wait,
        };
        let step = self.tell(master, answer);
        match self.agreed(step) {
            RunStep::Wait => self.fetch(),
            step => step,
        }
    }

    /// Notes what a master has done. That holds whether or not it still affects the decision.
    fn note(&mut self, master: MasterId, answer: &MasterAnswer<Job>) {
        match answer {
            MasterAnswer::Applied(ran) => {
                self.wrote |= ran.wrote;
                self.ran_on.insert(master);
                if ran.wrote {
                    self.wrote_on.insert(master);
                }
                self.replies.add(&ran.reply);
            }
            MasterAnswer::Refused(_) => self.refused.insert(master),
            MasterAnswer::Adopted => self.copying.adopted.insert(master),
            MasterAnswer::Promised(_) => {}
        }
    }

    /// Returns whether its program was sent, and some master may have run it or may still run it.
    pub fn may_have_run(&self) -> bool {
        self.proposer.may_have_run()
    }

    /// Returns whether it continues because its program needed a key that it had not declared.
    pub fn is_widened(&self) -> bool {
        self.begun_us.is_some() && matches!(self.request, Request::Prepare(..))
    }

    /// Gives up: the client gets an error. From then on nothing may start that could let the program run, and late
    /// answers only show which masters are behind.
    pub fn give_up(&mut self) {
        self.is_over = true;
    }

    /// Handles the answer of a master to an earlier round, given by the low bits of its number. It only shows whether
    /// the program may have run there, and its reply if it has.
    pub fn answered_late(&mut self, master: MasterId, round: u8, frame: &[u8]) {
        let sent = self.applied.iter().find(|(applied, _)| *applied as u8 == round);
        let Some((_, ballot)) = sent else { return };
        if answer::is_missing(frame) {
            self.proposer.stops(*ballot, master);
        } else if let Some(refusal) = answer::refused(frame) {
            let refused = MasterAnswer::Refused(refusal);
            self.proposer.answer(*ballot, master, self.worker.version, refused);
        } else if let Some(reply) = answer::replied(frame) {
            self.heard.push((*ballot, reply));
        }
    }

    /// Handles the answer of a master to the last request after the decision. It only shows which masters hold the
    /// result.
    pub fn answered_at_last(&mut self, master: MasterId, frame: &[u8]) {
        if let Some(Said::Answer(answer)) = answer::said(&self.request, frame) {
            self.note(master, &answer);
        }
    }

    /// Notes that the last request is not sent to these masters.
    pub fn not_sent_to(&mut self, masters: MasterSet) {
        masters.iter().for_each(|master| self.never_runs(master));
    }

    /// Notes that no other master will answer the last request.
    pub fn no_more_answers(&mut self) -> RunStep {
        self.ended_by(Proposer::no_more_answers)
    }

    /// Like [`Run::no_more_answers`], when the outstanding answers were lost with their connections.
    pub fn all_others_are_lost(&mut self) -> RunStep {
        self.ended_by(Proposer::all_others_are_lost)
    }

    /// Returns whether all masters that answer must hold a certain state.
    pub fn needs_all(&self) -> bool {
        self.proposer.needs_all()
    }

    /// Treats masters that have not answered as silent. An operation that needs all masters continues without them.
    pub fn without_the_silent(&mut self) -> RunStep {
        if self.is_over || self.is_failing() {
            return RunStep::Wait;
        }
        let step = self.proposer.without_the_silent();
        self.step(step.unwrap_or(proposer::Step::Wait))
    }

    fn ended_by(&mut self, end: fn(&mut Proposer<Job>) -> proposer::Step<Job>) -> RunStep {
        if self.is_over {
            return RunStep::Wait;
        }
        if self.is_failing() {
            return self.fail_now();
        }
        if std::mem::take(&mut self.replies.is_open) {
            return RunStep::Done(Outcome::Ran(replies::differing()));
        }
        let step = end(&mut self.proposer);
        self.step(step)
    }

    /// Like [`Run::again`], without the leases that are over.
    pub fn again_without(&mut self, over: Over<Job>, now_us: u64) -> RunStep {
        self.proposer.take_for_remains(over);
        self.again(now_us)
    }

    /// Takes the leases that fewer than a quorum hold, if all masters have shown theirs.
    pub fn minor(&mut self) -> Option<Vec<(Place, Lease)>> {
        self.proposer.minor()
    }

    /// Returns all keys that are examined.
    pub fn looked_at(&self) -> &[Place] {
        self.proposer.keys()
    }

    /// Starts a round with a higher ballot.
    pub fn again(&mut self, now_us: u64) -> RunStep {
        self.began_us = now_us;
        self.request = self.proposer.again(now_us);
        self.send()
    }

    /// Returns whether a quorum has answered without showing what the keys hold, and the program was never sent.
    pub fn is_split(&self) -> bool {
        self.proposer.is_split()
    }

    /// Returns the number of the last request.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Returns when the program ran, or the earliest possible moment if that was found out later. `None` if it did
    /// not run.
    pub fn ran_at(&self) -> Option<RunMoment> {
        match &self.request {
            Request::Apply(apply) => {
                Some(RunMoment { ran_us: apply.now_us, chosen_us: self.began_us })
            }
            _ => self.first,
        }
    }

    /// Returns the keys of the last request.
    pub fn keys(&self) -> Vec<Place> {
        match &self.request {
            Request::Apply(apply) => apply.program.places.clone(),
            Request::Adopt(adopt) => {
                adopt.states.iter().map(|adopted| adopted.key.clone()).collect()
            }
            Request::Prepare(keys, _) => keys.iter().map(|(key, _)| key.clone()).collect(),
        }
    }

    /// Returns all keys that the program uses.
    pub fn places(&self) -> &[Place] {
        match &self.request {
            Request::Apply(apply) => &apply.program.places,
            _ => &[],
        }
    }

    /// Returns whether the program has written, as far as answers to this attempt show.
    pub fn has_written(&self) -> bool {
        matches!(self.request, Request::Apply(_)) && self.wrote
    }

    /// Returns the lease that this attempt has taken over, if any: the key, the lease, and the masters that may still
    /// hold it. For a program of several keys, this cannot distinguish reads from writes, so it returns none.
    pub fn taken_over(&self) -> Option<(&Place, &Lease, MasterSet)> {
        let Request::Apply(apply) = &self.request else { return None };
        let ([place], [basis]) = (&apply.program.places[..], &apply.basis[..]) else { return None };
        let lease = basis.lease.as_ref().filter(|_| self.wrote)?;
        Some((place, lease, self.worker.quorum.everybody().without(self.ran_on)))
    }

    /// Returns what this worker's next program on these keys may be built on.
    pub fn left(&self) -> Option<(&[Place], &[Basis<Job>])> {
        self.held().map(|held| (self.places(), held))
    }

    /// Returns the masters that are known to hold it.
    pub fn left_on(&self) -> MasterSet {
        if self.wrote { self.wrote_on } else { self.ran_on }
    }

    /// Returns the masters that hold the same content after settling.
    pub fn holders(&self) -> MasterSet {
        match &self.request {
            Request::Adopt(_) => self.copying.adopted,
            Request::Prepare(..) | Request::Apply(_) => self.worker.quorum.everybody(),
        }
    }

    /// Returns the keys of a program with long stamps that all masters hold, with the ballots under which they were
    /// accepted.
    pub fn decided(&self) -> Option<Vec<(Place, Ballot)>> {
        let Request::Apply(apply) = &self.request else { return None };
        let places = &apply.program.places;
        let names: usize = places.iter().map(|place| place.key.len()).sum();
        let is_long = places.len() > 1 && names > decided::SHORT;
        let is_everywhere = self.wrote_on == self.worker.quorum.everybody();
        let ballots = apply.basis.iter().map(|basis| basis.ballot);
        (is_long && is_everywhere).then(|| places.iter().cloned().zip(ballots).collect())
    }

    /// Returns keys for which some masters may lack what the others hold, along with those masters. Meaningful once no
    /// request is in flight any more.
    pub fn behind(&self) -> Option<(Vec<Place>, MasterSet)> {
        let others = |done| self.worker.quorum.everybody().without(done);
        let (keys, masters): (Vec<Place>, _) = match &self.request {
            // Remains of leases may block every master.
            Request::Prepare(..) if self.proposer.has_minor() => {
                (self.keys(), self.worker.quorum.everybody())
            }
            Request::Prepare(..) => return None,
            Request::Adopt(adopt) => {
                let masters = others(self.copying.adopted);
                (adopt.states.iter().map(|adopted| adopted.key.clone()).collect(), masters)
            }
            // If nothing was written, only masters that refused may hold something else.
            Request::Apply(apply) if self.quorum_has_only_read() => {
                (apply.program.places.clone(), self.refused)
            }
            Request::Apply(apply) => (apply.program.places.clone(), others(self.ran_on)),
        };
        Some((keys, masters)).filter(|(keys, masters)| !keys.is_empty() && !masters.is_empty())
    }

    fn quorum_has_only_read(&self) -> bool {
        !self.wrote && self.worker.quorum.reached_by(self.ran_on)
    }

    /// Returns what this worker's next program may be built on, once this one has run.
    pub fn held(&self) -> Option<&[Basis<Job>]> {
        self.proposer.held()
    }

    /// Returns the program if it has written, and masters that held the same state have replied differently.
    pub fn differing(&self) -> Option<&Job> {
        let Request::Apply(apply) = &self.request else { return None };
        (self.wrote && self.replies.differ()).then_some(&apply.program)
    }

    /// Answers a program that wrote with the reply of a quorum, whatever other masters replied.
    fn agreed(&mut self, step: RunStep) -> RunStep {
        let has_just_run =
            matches!(step, RunStep::Done(Outcome::Ran(_))) && self.differing().is_some();
        let is_waited_for = self.replies.is_open && step == RunStep::Wait;
        if !(has_just_run || is_waited_for) {
            return step;
        }
        let agreed = self.replies.agreed(self.worker.quorum).cloned();
        self.replies.is_open = agreed.is_none();
        agreed.map_or(RunStep::Wait, |reply| RunStep::Done(Outcome::Ran(reply)))
    }

    fn tell(&mut self, master: MasterId, answer: MasterAnswer<Job>) -> RunStep {
        let Some(ballot) = self.proposer.ballot() else { return RunStep::Wait };
        let step = self.proposer.answer(ballot, master, self.worker.version, answer);
        self.step(step)
    }

    fn step(&mut self, step: proposer::Step<Job>) -> RunStep {
        match step {
            proposer::Step::Wait => RunStep::Wait,
            proposer::Step::Send(request) => {
                self.request = request;
                self.send()
            }
            proposer::Step::Pause => RunStep::Pause,
            proposer::Step::Done(Outcome::Ran(kept)) => {
                RunStep::Done(Outcome::Ran(self.in_full(kept)))
            }
            proposer::Step::Done(outcome) => RunStep::Done(outcome),
        }
    }

    /// Returns the full reply, of which a stamp has kept only this part. A master may have sent the full one, with all
    /// published messages, before the program turned out to have run.
    fn in_full(&self, kept: RegisterReply) -> RegisterReply {
        let found = self.proposer.found();
        let heard = self.heard.iter().find(|(ballot, _)| Some(*ballot) == found);
        heard.map_or(kept, |(_, reply)| reply.clone())
    }

    fn send(&mut self) -> RunStep {
        if let (Some(ballot), Some(reply)) = (self.sent_under(), self.replies.first()) {
            self.heard.push((ballot, reply.clone()));
        }
        self.round += 1;
        (self.copying, self.failed) = (Copying::default(), Vec::new());
        if let (Request::Apply(_), Some(ballot)) = (&self.request, self.proposer.ballot()) {
            self.applied.push((self.round, ballot));
        }
        if let Request::Apply(apply) = &self.request {
            let chosen_us = self.began_us;
            self.first.get_or_insert(RunMoment { ran_us: apply.now_us, chosen_us });
        }
        self.begun_us = self.begun_us.filter(|begun_us| self.is_last_since(*begun_us));
        (self.ran_on, self.refused) = (MasterSet::EMPTY, MasterSet::EMPTY);
        self.wrote_on = MasterSet::EMPTY;
        self.replies = Replies::default();
        let words = match &self.request {
            Request::Prepare(keys, ballot) => ask::prepare(keys, *ballot, NOT_KNOWN),
            Request::Adopt(adopt) => ask::adopt(adopt, &vec![None; adopt.states.len()], NOT_KNOWN),
            Request::Apply(apply) => ask::apply(apply, self.begun_us),
        };
        RunStep::Send(self.worker.quorum.everybody(), self.token(Part::Request), words)
    }

    fn token(&self, part: Part) -> Token {
        Token { round: self.round, part }
    }

    /// Asks a master that has the states for their content, once another master lacks it.
    fn fetch(&mut self) -> RunStep {
        let Request::Adopt(adopt) = &self.request else { return RunStep::Wait };
        let Copying { lacking, adopted, source, gathered } = &mut self.copying;
        let nobody_has_all = adopted.is_empty() && self.worker.quorum.reached_by(*lacking);
        if nobody_has_all && gathered.is_none() {
            *gathered = Some((vec![None; adopt.states.len()], *lacking));
            let (to, words) = (*lacking, ask::fetch_as_found(adopt, NOT_KNOWN));
            return RunStep::Send(to, self.token(Part::Gather), words);
        }
        let Some(from) = adopted.iter().next().filter(|_| !lacking.is_empty() && source.is_none())
        else {
            return RunStep::Wait;
        };
        *source = Some(from);
        let words = ask::fetch(adopt, NOT_KNOWN);
        RunStep::Send([from].into_iter().collect(), self.token(Part::Fetch), words)
    }

    /// Sends on the content that was fetched.
    fn fetched(&mut self, frame: &[u8]) -> RunStep {
        let (Request::Adopt(adopt), Some(held)) = (&self.request, answer::fetched(frame)) else {
            return RunStep::Wait;
        };
        let words = ask::adopt(adopt, &held, NOT_KNOWN);
        self.copying.source = None;
        let lacking = std::mem::take(&mut self.copying.lacking);
        RunStep::Send(lacking, self.token(Part::Request), words)
    }

    /// Collects a master's content of the states as they were found. Once all masters have answered, sends it on to
    /// those that lack it.
    fn gather(&mut self, master: MasterId, frame: &[u8]) -> RunStep {
        let (Request::Adopt(adopt), Some((held, silent))) =
            (&self.request, &mut self.copying.gathered)
        else {
            return RunStep::Wait;
        };
        let theirs = answer::fetched(frame).unwrap_or_default();
        held.iter_mut().zip(theirs).for_each(|(held, theirs)| *held = held.take().or(theirs));
        silent.remove(master);
        if !silent.is_empty() {
            return RunStep::Wait;
        }
        let words = ask::adopt(adopt, held, NOT_KNOWN);
        let lacking = std::mem::take(&mut self.copying.lacking);
        RunStep::Send(lacking, self.token(Part::Request), words)
    }

    /// Returns whether no other program has changed one of its keys since, as far as ballots show. Time only moves
    /// forward from one program on a key to the next.
    fn is_last_since(&self, begun_us: u64) -> bool {
        let is_older = |ballot: Ballot| ballot.counter < begun_us;
        match &self.request {
            Request::Prepare(..) => true,
            Request::Adopt(adopt) => {
                adopt.states.iter().all(|it| it.state.recent.last().is_none_or(is_older))
            }
            // States that this worker has adopted for the program were checked at that time.
            Request::Apply(apply) => apply
                .basis
                .iter()
                .all(|basis| is_older(basis.accepted) || basis.accepted.worker == self.worker.id),
        }
    }

    /// Continues with another key that the program needs. No master has run it: the others hold the same state, and
    /// stop at the same key.
    fn with_key(&mut self, place: Place, now_us: u64) -> RunStep {
        let Request::Apply(apply) = &self.request else { return RunStep::Wait };
        let mut job = apply.program.clone();
        if !self.worker.share.includes(&place.key) {
            self.give_up();
            return RunStep::OfAnotherShard;
        }
        job.places.push(place);
        if are_too_many(job.places.iter().map(|place| &place.key[..])) {
            self.give_up();
            return RunStep::TooManyKeys;
        }
        self.begun_us.get_or_insert(apply.now_us);
        self.began_us = now_us;
        self.request = self.proposer.with_keys(job, now_us);
        self.send()
    }

    fn has_failed(&mut self, master: MasterId, error: Bytes) -> RunStep {
        if answer::has_changed_nothing(&error) {
            self.never_runs(master);
        }
        self.failed.push((master, error));
        self.refused.insert(master);
        if self.is_failing() {
            return self.fail();
        }
        self.tell(master, MasterAnswer::Refused(Refusal::UNTOLD))
    }

    /// Handles an answer after the failure. The only reason to wait for it is that all masters may have refused.
    fn still_fails(&mut self, master: MasterId, said: Option<Said>) -> RunStep {
        match said {
            Some(Said::Failed(error)) => return self.has_failed(master, error),
            Some(Said::Missing(_)) => self.stops(master),
            Some(Said::Answer(MasterAnswer::Refused(refusal)))
                if refusal.promised != Ballot::NONE =>
            {
                self.never_runs(master);
            }
            _ => {}
        }
        self.fail()
    }

    fn never_runs(&mut self, master: MasterId) {
        if let Some(ballot) = self.sent_under() {
            self.proposer.never_runs(ballot, master);
        }
    }

    fn stops(&mut self, master: MasterId) {
        if let Some(ballot) = self.sent_under() {
            self.proposer.stops(ballot, master);
        }
    }

    /// Returns the ballot of the program, if that was the last request.
    fn sent_under(&self) -> Option<Ballot> {
        let (round, ballot) = self.applied.last()?;
        (*round == self.round).then_some(*ballot)
    }

    /// Returns whether no quorum is left for the last request.
    fn is_failing(&self) -> bool {
        self.failed.len() > self.worker.quorum.tolerates()
    }

    /// Fails, or waits first. All masters may adopt what a single master has run, so the remaining answers matter: all
    /// of them may be refusals.
    fn fail(&mut self) -> RunStep {
        let is_sent = matches!(self.request, Request::Apply(_));
        let is_open = is_sent && self.ran_on.is_empty() && self.may_have_run();
        if is_open { RunStep::Wait } else { self.fail_now() }
    }

    fn fail_now(&mut self) -> RunStep {
        self.give_up();
        let error = self.failed.last().map(|(_, error)| error.clone());
        RunStep::Failed(error.unwrap_or_default())
    }
}

/// Sets by how much a master's clock is ahead, so that leases next to stamps end by this proxy's clock.
fn by_our_clock(mut answer: MasterAnswer<Job>, ahead_ms: i64) -> MasterAnswer<Job> {
    if let MasterAnswer::Promised(sights) = &mut answer {
        let leases = sights.iter_mut().filter_map(|sight| sight.lease.as_mut());
        leases.for_each(|lease| lease.ahead_ms = ahead_ms);
    }
    answer
}
