//! Making all masters hold the same state under one key: for masters that have missed changes, and on an operator's
//! request.

use super::Asked;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::lock_request::LockRequest;
use super::register::ask::RequestWords;
use super::register::awaited::Awaited;
use super::register::remains::Remains;
use super::register::run::{Run, RunStep, RunWorker};
use super::register::{Job, Place};
use super::request::Form;
use super::verdict::{self, Others, Trouble};
use super::{Next, Received, Rules, Then};
use crate::client::outbox::Order;
use crate::decision::keyspace::proposer::Outcome;
use crate::decision::keyspace::remains::Over;
use crate::decision::quorum::MasterSet;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock;
use crate::time::clock::Instant;

/// Maximum restarts of a round when others interfere. After that, the caller may retry.
const MOST_ROUNDS: u32 = 40;

/// Reads what a quorum holds and makes every responding master adopt it. The reply is the set of masters that hold it
/// then, as a number ([`MasterSet::bits`]).
#[derive(Debug)]
pub struct Settle {
    place: Place,
    /// The fingerprint of the key, for its turn.
    turn: [u64; 1],
    run: Option<Run>,
    /// The roster edition under which it was last sent.
    edition: u64,
    words: Option<RequestWords>,
    /// Masters that have yet to answer the latest request, with its token.
    awaited: Awaited,
    begins_again: bool,
    /// Whether leases are removed, whoever holds them.
    releases: bool,
    trouble: Trouble,
}

impl Settle {
    /// Creates a settlement that has not been sent yet.
    pub fn new(place: Place, fingerprint: u64) -> Self {
        Self {
            place,
            turn: [fingerprint],
            run: None,
            edition: 0,
            words: None,
            awaited: Awaited::default(),
            begins_again: false,
            releases: false,
            trouble: Trouble::default(),
        }
    }

    /// Removes all leases on the key, whoever holds them.
    pub fn releasing(self) -> Self {
        Self { releases: true, ..self }
    }

    /// Returns the leases that a minority has shown for so long that nobody can hold them.
    fn over(&self, rules: &Rules, places: &[Place]) -> Over<Job> {
        match self.releases {
            true => Over::All,
            false => {
                let wait = Remains::wait(rules.patience);
                rules.registers.remains.over(places, wait, clock::now())
            }
        }
    }

    fn next(&mut self, rules: &Rules, step: RunStep) -> Next {
        match step {
            RunStep::Wait => Next::WAIT,
            RunStep::Send(to, token, words) => {
                self.words = Some(words);
                if to != rules.quorum.everybody() {
                    self.awaited.ask(to, token);
                    return Next::then(Then::Tell(to));
                }
                self.awaited.ask_only(to, token);
                Next::then(Then::Ask)
            }
            RunStep::Pause if self.is_tired() => {
                Next::reply(self.trouble.undecided(rules, rules.quorum.needed()))
            }
            RunStep::Pause => {
                self.begins_again = true;
                Next::then(Then::Pause)
            }
            RunStep::Done(Outcome::Read(_)) => {
                let holders = self.run.as_ref().map(Run::holders).unwrap_or_default();
                Next::reply(Reply::Int(holders.bits().into()))
            }
            RunStep::Done(_) => Next::reply(self.trouble.undecided(rules, rules.quorum.needed())),
            RunStep::Failed(error) => Next::reply(Reply::Raw(error)),
            RunStep::TooManyKeys => Next::reply(verdict::too_many_keys()),
            RunStep::OfAnotherShard => Next::reply(verdict::of_another_shard()),
        }
    }

    fn is_tired(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.round() > MOST_ROUNDS)
    }
}

impl Behaviour for Settle {
    fn order(&self) -> Order {
        Order::Alone
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Read
    }

    fn is_only_a_part(&self) -> bool {
        true
    }

    fn wish(&self) -> LockRequest {
        LockRequest::Other
    }

    fn turns(&self) -> &[u64] {
        &self.turn
    }

    fn round(&self) -> u8 {
        self.run.as_ref().map_or(0, Run::round) as u8
    }

    /// Begins a round with the decided request or a new attempt. Promises end with the roster edition in which they
    /// were given.
    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, .. } = on;
        let asked = asked.voters;
        let now_us = rules.unix_time.micros() as u64;
        let edition = rules.registers.edition();
        let is_new = std::mem::replace(&mut self.edition, edition) != edition;
        let places = match &self.run {
            Some(run) => run.looked_at().to_vec(),
            None => vec![self.place.clone()],
        };
        let over = self.over(rules, &places);
        let step = match &mut self.run {
            None => {
                let worker = RunWorker {
                    quorum: rules.quorum,
                    id: rules.registers.worker,
                    version: 0,
                    share: rules.share,
                };
                // The promises about to be given end what this worker holds.
                rules.registers.held(&places, MasterSet::EMPTY);
                let (run, step) = Run::settle(worker, places, over, now_us);
                self.run = Some(run);
                Some(step)
            }
            Some(run) if self.begins_again || is_new => Some(run.again_without(over, now_us)),
            Some(_) => None,
        };
        self.begins_again = false;
        if let Some(RunStep::Send(to, token, words)) = step {
            self.words = Some(words);
            self.awaited.ask_only(to, token);
        }
        self.awaited.keep(asked);
    }

    fn encode(&self, _: On<'_>, form: Form, out: &mut Vec<u8>) {
        if let Some(words) = &self.words {
            words.encode(form, out);
        }
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        let Received { master, answer, raw, .. } = received;
        if received.round != self.round() {
            return Next::WAIT;
        }
        let Some(token) = self.awaited.answered(master) else { return Next::WAIT };
        let Some(run) = &mut self.run else { return Next::WAIT };
        if let Some(Answer::Error(error)) = answer {
            self.trouble.remember(error);
        }
        let now_us = rules.unix_time.micros() as u64;
        let ahead_ms = rules.unix_time.ahead_ms(master);
        let mut step = match answer {
            Some(_) => run.answered((master, ahead_ms), token, raw, now_us),
            None => RunStep::Wait,
        };
        if step == RunStep::Wait && self.awaited.is_empty() {
            step = run.all_others_are_lost();
        }
        if let Some(minor) = run.minor() {
            rules.registers.remains.see(run.looked_at(), minor, clock::now());
        }
        self.next(rules, step)
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        let On { rules, .. } = on;
        let Some(run) = &mut self.run else { return Next::WAIT };
        let answered = rules.quorum.everybody().without(self.awaited.masters()).len();
        match run.no_more_answers() {
            RunStep::Wait if is_last => {
                run.give_up();
                let others = Others::silent_if(true);
                Next::reply(self.trouble.unavailable(rules, answered, others))
            }
            step => self.next(rules, step),
        }
    }
}
