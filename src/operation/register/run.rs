//! One operation on its way through the masters: the decisions of [`Proposer`], in words, with what they leave to its owner.
//!
//! Equal ballots mean equal states, so a state is adopted without what it holds by every master that has it. Only who
//! lacks that gets it, from one that has adopted the state.

use bytes::Bytes;

use super::ask::{self, Words};
use super::said::{self, Said};
use super::{Job, Place};
use crate::decision::keyspace::proposer::{self, Answer, Outcome, Proposer, Request, Wish};
use crate::decision::keyspace::slot::{Basis, Refusal};
use crate::decision::register::ballot::Ballot;
use crate::quorum::{MasterId, MasterSet, Quorum};

/// Who runs operations.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// How many masters agree.
    pub quorum: Quorum,
    /// Its id, drawn at its start.
    pub id: u64,
    /// The version of the roster.
    pub version: u64,
}

/// One operation.
#[derive(Debug)]
pub struct Run {
    worker: Worker,
    proposer: Proposer<Job>,
    /// What was sent last, to all masters.
    request: Request<Job>,
    /// How many requests there were.
    round: u32,
    copying: Copying,
    /// Masters that could not run what was sent last, and why.
    failed: Vec<(MasterId, Bytes)>,
}

/// What masters lack that are to adopt states.
#[derive(Debug, Default)]
struct Copying {
    lacking: MasterSet,
    adopted: MasterSet,
    /// Who was asked for it.
    source: Option<MasterId>,
}

/// What an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    round: u32,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Request,
    Fetch,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until the next answer or the deadline.
    Wait,
    /// Send this to these masters.
    Send(MasterSet, Token, Words),
    /// Pause at random, then call [`Run::again`].
    Pause,
    /// The operation has ended.
    Done(Outcome<Job>),
    /// A quorum of masters could not run it, and this is why: an error frame.
    Failed(Bytes),
}

impl Run {
    /// Begins to run `job`, on what this worker's last program has left if that is known.
    pub fn new(
        worker: Worker,
        job: Job,
        held: Option<Vec<Basis<Job>>>,
        now_us: u64,
    ) -> (Self, Step) {
        let Worker { quorum, id, version } = worker;
        let (proposer, request) = match held {
            Some(basis) => Proposer::with_promises(quorum, id, version, job, basis, now_us),
            None => Proposer::new(quorum, id, version, Wish::Run(job), now_us),
        };
        let copying = Copying::default();
        let mut it = Self { worker, proposer, request, round: 0, copying, failed: Vec::new() };
        let step = it.send();
        (it, step)
    }

    /// Takes the answer of a master, a RESP3 frame.
    pub fn answered(&mut self, master: MasterId, token: Token, frame: &[u8], now_us: u64) -> Step {
        if token.round != self.round {
            return Step::Wait;
        }
        if token.part == Part::Fetch {
            return self.fetched(frame);
        }
        let answer = match said::said(&self.request, frame) {
            Some(Said::Answer(answer)) => answer,
            Some(Said::Lacking(_)) => {
                self.copying.lacking.insert(master);
                return self.fetch();
            }
            Some(Said::Missing(place)) => return self.with_key(place, now_us),
            Some(Said::Failed(error)) => return self.has_failed(master, error),
            None => return Step::Wait,
        };
        if answer == Answer::Adopted {
            self.copying.adopted.insert(master);
        }
        match self.tell(master, answer) {
            Step::Wait => self.fetch(),
            step => step,
        }
    }

    /// Nobody else answers what was sent last.
    pub fn no_more_answers(&mut self) -> Step {
        let step = self.proposer.no_more_answers();
        self.step(step)
    }

    /// Begins a round with a higher ballot.
    pub fn again(&mut self, now_us: u64) -> Step {
        self.request = self.proposer.again(now_us);
        self.send()
    }

    /// What this worker's next program may be built on, once this one ran.
    pub fn held(&self) -> Option<&[Basis<Job>]> {
        self.proposer.held()
    }

    fn tell(&mut self, master: MasterId, answer: Answer<Job>) -> Step {
        let Some(ballot) = self.proposer.ballot() else { return Step::Wait };
        let step = self.proposer.answer(ballot, master, self.worker.version, answer);
        self.step(step)
    }

    fn step(&mut self, step: proposer::Step<Job>) -> Step {
        match step {
            proposer::Step::Wait => Step::Wait,
            proposer::Step::Send(request) => {
                self.request = request;
                self.send()
            }
            proposer::Step::Pause => Step::Pause,
            proposer::Step::Done(outcome) => Step::Done(outcome),
        }
    }

    fn send(&mut self) -> Step {
        self.round += 1;
        (self.copying, self.failed) = (Copying::default(), Vec::new());
        let words = match &self.request {
            Request::Prepare(keys, ballot) => ask::prepare(keys, *ballot, 0),
            Request::Adopt(adopt) => ask::adopt(adopt, &vec![None; adopt.states.len()], 0),
            Request::Apply(apply) => ask::apply(apply),
        };
        Step::Send(self.worker.quorum.everybody(), self.token(Part::Request), words)
    }

    fn token(&self, part: Part) -> Token {
        Token { round: self.round, part }
    }

    /// Asks a master that has the states for what they hold, once somebody lacks it.
    fn fetch(&mut self) -> Step {
        let Request::Adopt(adopt) = &self.request else { return Step::Wait };
        let Copying { lacking, adopted, source } = &mut self.copying;
        let Some(from) = adopted.iter().next().filter(|_| !lacking.is_empty() && source.is_none())
        else {
            return Step::Wait;
        };
        *source = Some(from);
        let words = ask::fetch(adopt, 0);
        Step::Send([from].into_iter().collect(), self.token(Part::Fetch), words)
    }

    /// Passes on what was fetched.
    fn fetched(&mut self, frame: &[u8]) -> Step {
        let (Request::Adopt(adopt), Some(held)) = (&self.request, said::fetched(frame)) else {
            return Step::Wait;
        };
        let words = ask::adopt(adopt, &held, 0);
        self.copying.source = None;
        let lacking = std::mem::take(&mut self.copying.lacking);
        Step::Send(lacking, self.token(Part::Request), words)
    }

    /// The program needs another key. No master has run it: the others have the same state, and stop at the same key.
    fn with_key(&mut self, place: Place, now_us: u64) -> Step {
        let Request::Apply(apply) = &self.request else { return Step::Wait };
        let mut job = apply.program.clone();
        job.places.push(place);
        self.request = self.proposer.with_keys(job, now_us);
        self.send()
    }

    fn has_failed(&mut self, master: MasterId, error: Bytes) -> Step {
        self.failed.push((master, error));
        if let Some((_, error)) = self.failed.get(self.worker.quorum.tolerates()) {
            return Step::Failed(error.clone());
        }
        self.tell(master, Answer::Refused(Refusal(Ballot::NONE)))
    }
}
