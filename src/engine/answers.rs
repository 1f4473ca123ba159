//! Masters' answers, and deadlines for silent masters.

use std::rc::Rc;

use super::Engine;
use super::flight::{Flight, OperationId};
use super::link::Waiting;
use crate::decision::quorum::{MasterId, turn};
use crate::decision::roster::mark::Proven;
use crate::decision::roster::poll::Counting;
use crate::operation::{Behaviour, Heard, Next, Received, Then};
use crate::resp::answer::Answer;
use crate::time::clock::{self, Instant};

impl Engine {
    /// Counts the answer to `waiting` as a vote: the master has proved that it remembers.
    pub fn answered(self: &Rc<Self>, waiting: Waiting, vote: Proven<Heard<'_>>, now: Instant) {
        let (master, heard) = (vote.master(), *vote.answer());
        self.stopwatch.see(now);
        self.on_flight(waiting.operation, |flight| {
            if self.is_sent_again(flight, master, waiting.round, heard) {
                return;
            }
            let counting = match &mut flight.poll {
                Some(poll) => poll.count(&vote, || self.term()),
                None => Counting::Void,
            };
            let counting = match counting {
                Counting::Void if self.goes_on_without_gone(flight) => {
                    let poll = flight.poll.as_mut();
                    poll.map_or(Counting::Void, |poll| poll.count(&vote, || self.term()))
                }
                counting => counting,
            };
            match counting {
                Counting::Ahead => return self.wait_for_version(waiting, vote),
                Counting::Void
                    if self.is_asked_again_after_a_flush(flight, &vote, waiting.round) =>
                {
                    return;
                }
                _ => {}
            }
            let is_wanted =
                counting == Counting::Counts || self.is_wanted(flight, &vote, waiting.round);
            self.receive(flight, master, waiting.round, Some(heard).filter(|_| is_wanted), now);
        });
        self.start_ready();
    }

    /// Makes an operation go on without the votes of masters that have gone out since they were counted. Returns whether
    /// there were any, and it can.
    #[cold]
    pub(super) fn goes_on_without_gone(&self, flight: &mut Flight) -> bool {
        let Some(poll) = &mut flight.poll else { return false };
        let term = self.term();
        let gone = poll.gone_in(&term);
        let can = !gone.is_empty() && flight.operation.kind.forget(gone);
        if can {
            poll.leave_gone(term);
        }
        can
    }

    /// Whether the operation wants an answer that does not count because other members have gone.
    #[cold]
    fn is_wanted(&self, flight: &mut Flight, vote: &Proven<Heard<'_>>, round: u8) -> bool {
        let is_outdated =
            flight.poll.as_ref().is_some_and(|poll| poll.is_outdated_for(vote, &self.term()));
        let kind = &mut flight.operation.kind;
        is_outdated && kind.round() == round && kind.discount(vote.master())
    }

    /// Processes an answer that is no vote: the master has none, or has not proved that it remembers. The answer counts
    /// only if the master was not asked for a vote.
    pub fn overheard(
        self: &Rc<Self>,
        master: MasterId,
        waiting: Waiting,
        heard: Heard<'_>,
        now: Instant,
    ) {
        self.stopwatch.see(now);
        self.on_flight(waiting.operation, |flight| {
            if self.is_sent_again(flight, master, waiting.round, heard) {
                return;
            }
            let was_asked =
                flight.operation.kind.needs_quorum() && flight.term().voters().contains(master);
            self.receive(flight, master, waiting.round, Some(heard).filter(|_| !was_asked), now);
        });
        self.start_ready();
    }

    fn is_sent_again(
        &self,
        flight: &mut Flight,
        master: MasterId,
        round: u8,
        heard: Heard<'_>,
    ) -> bool {
        let Answer::Error(error) = heard.answer else { return false };
        error.starts_with(b"NOSCRIPT") && self.send_again(flight, master, round)
    }

    /// Notes that the link was lost before `waiting` was answered: whether the request took effect is unknown.
    pub fn lost(self: &Rc<Self>, master: MasterId, waiting: Waiting) {
        self.on_flight(waiting.operation, |flight| {
            self.receive(flight, master, waiting.round, None, clock::now());
        });
        self.start_ready();
    }

    /// Passes an answer, or its loss, to the operation, and takes its next step.
    pub(super) fn receive(
        self: &Rc<Self>,
        flight: &mut Flight,
        master: MasterId,
        round: u8,
        heard: Option<Heard<'_>>,
        now: Instant,
    ) {
        let (answer, raw) = heard.map_or((None, &b""[..]), |heard| (Some(heard.answer), heard.raw));
        let is_trusted = !matches!(answer, None | Some(Answer::Error(_)));
        flight.outstanding -= 1;
        flight.awaited.remove(master);
        let asked_us = (flight.asked_round == round).then_some(flight.asked_us);
        // A late event loop may read answers before it notices that their deadline has passed.
        let is_late = flight.deadline.is_some_and(|due| now > due);
        let received = Received { master, round, answer, raw, now };
        let next = flight.operation.received(&flight.rules, received);
        self.count_ballot(master, is_trusted, asked_us);
        if is_trusted && asked_us.is_some() && !is_late {
            self.rules().registers.is_heard(master);
        }
        self.act(flight, next);
        if is_late {
            self.end_round(flight, round);
        }
    }

    /// Counts a ballot. `asked_us` is the beginning of its round, if that is still the current one.
    fn count_ballot(&self, master: MasterId, is_trusted: bool, asked_us: Option<u64>) {
        let metrics = self.metrics.master(master);
        if !is_trusted {
            return metrics.unknown.one();
        }
        match asked_us {
            Some(asked_us) => {
                let us = self.stopwatch.since(asked_us);
                self.rules().leases.took(us);
                metrics.round_trip.observe(us);
            }
            None => metrics.behind.one(),
        }
    }

    /// Takes an operation's next step.
    pub(super) fn act(self: &Rc<Self>, flight: &mut Flight, next: Next) {
        for master in next.undo.iter() {
            self.undo(flight, master);
        }
        match next.then {
            Then::Wait => {}
            then @ (Then::Ask | Then::TakeOn) => match (self.widened_for_too_long(flight), then) {
                (Some(reply), _) => self.reply(flight, reply, turn::End::Lost),
                (None, Then::TakeOn) => self.take_on(flight),
                (None, _) => self.ask(flight, &self.panel()),
            },
            Then::Become(kind) => {
                flight.operation.kind = *kind;
                self.ask(flight, &self.panel());
            }
            Then::Tell(masters) => self.tell(flight, masters),
            Then::Pause => self.pause(flight),
            Then::Otherwise => self.go_on_as_program(flight),
            Then::Reply(reply, turn::End::Granted) if flight.is_too_early() => {
                self.grant_in_turn(flight.id, reply);
            }
            Then::Reply(reply, end) => self.reply(flight, reply, end),
        }
    }

    /// Ends every round whose deadline had come at `due`, and sends masters the requests postponed until then.
    pub fn expire(self: &Rc<Self>, due: Instant) {
        self.stopwatch.see(clock::now());
        while let Some((id, round)) = self.deadlines.due(due) {
            self.on_flight(id, |flight| self.end_round(flight, round));
            self.start_ready();
        }
        self.tell_once_more(due);
    }

    /// Returns the deadline of the next undecided round.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadline = self.deadlines.next(|id, round| self.is_open(id, round));
        [deadline, self.next_to_tell()].into_iter().flatten().min()
    }

    /// Resolves when a deadline has been set while there was none.
    pub async fn deadline_set(&self) {
        self.deadlines.set.notified().await;
    }

    fn is_open(&self, id: OperationId, round: u8) -> bool {
        self.flights.look(id, |flight| self.is_round_open(flight, round)) == Some(true)
    }

    /// Returns whether this round still waits for ballots, or a silent master may not know of an end that was reported
    /// to the client.
    fn is_round_open(&self, flight: &Flight, round: u8) -> bool {
        let is_awaited = flight.target.is_some() || self.owes_a_note(flight);
        flight.operation.kind.round() == round && !flight.pausing && is_awaited
    }

    /// Ends a round whose vote timeout, or whose client's patience, has passed. A round that still waits for a silent
    /// quorum is ended again when the patience has passed.
    fn end_round(self: &Rc<Self>, flight: &mut Flight, round: u8) {
        if !self.is_round_open(flight, round) {
            return;
        }
        if flight.target.is_none() {
            return self.note_silence(flight);
        }
        let (rules, now) = (Rc::clone(&flight.rules), clock::now());
        if flight.awaited.len() <= rules.quorum.tolerates() {
            rules.registers.miss(flight.awaited);
        }
        let last = flight.last.unwrap_or(now);
        let next = flight.operation.deadline(&rules, now, now >= last);
        self.act(flight, next);
        if now < last && self.is_round_open(flight, round) {
            self.deadlines.push_last(last, flight.id, round);
        }
    }
}
