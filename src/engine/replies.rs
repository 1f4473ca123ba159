//! Replies to clients, with metrics.

use super::Engine;
use super::flight::Flight;
use crate::catalogue::table;
use crate::client::outbox::Target;
use crate::decision::quorum::turn;
use crate::metrics::{QuestionKind, VerdictKind};
use crate::operation::{Behaviour, Operation, verdict};
use crate::resp::reply::Reply;

impl Engine {
    /// Answers the client and ends the turn, once.
    pub(super) fn reply(&self, flight: &mut Flight, reply: Reply, end: turn::End) {
        let Some(target) = flight.target.take() else { return };
        self.count_verdict(&flight.operation, &reply);
        self.count_time(flight, &target);
        self.remember_lease(&flight.operation);
        let turn = flight.turn.take();
        let aftermath = self.aftermath(flight, &reply);
        if target.is_watched() && self.has_changed_its_key_alone(&flight.operation) {
            target.has_changed();
        }
        let (is_noted, was_in_vain) = (aftermath.note.is_some(), aftermath.was_in_vain);
        self.follow_up(flight, aftermath);
        if let Some(key) = turn {
            self.note_poll(&flight.operation, key, &reply, end);
            let concerned = self.turns.borrow_mut().leave(key, end);
            for waiting in concerned.sharing {
                if reply.is_error() || !self.goes_on_waiting(waiting) {
                    self.share(waiting, &reply);
                }
            }
            self.hand_over(concerned.next, was_in_vain);
            self.end_waits(key, &reply, end);
        }
        if is_noted {
            return self.deliver_behind_notes(target, reply);
        }
        target.deliver(reply);
    }

    /// Whether an operation has certainly changed its key, and no other.
    fn has_changed_its_key_alone(&self, operation: &Operation) -> bool {
        let changed = operation.changed_keys(&self.rules());
        matches!(&changed[..], [(_, key)] if key[..] == operation.key[..])
    }

    pub(super) fn count_time(&self, flight: &Flight, target: &Target) {
        if let Some(started_us) = flight.started_us {
            self.took(target, &flight.operation.key, started_us);
        }
    }

    /// Counts the time since `started_us` as that of the client's command.
    pub(super) fn took(&self, target: &Target, key: &[u8], started_us: u64) {
        let Some(command) = target.command() else { return };
        let us = self.stopwatch.since(started_us);
        self.metrics.took(command, us);
        if self.slowlog.is_slow(us)
            && let (Some(spec), Some(client)) = (table::at(command), target.client())
        {
            let seconds = self.rules().unix_time.ms() / 1000;
            self.slowlog.note((spec.name, key), &client, us, seconds);
        }
    }

    pub(super) fn count_verdict(&self, operation: &Operation, reply: &Reply) {
        if operation.kind.is_only_a_part() {
            return;
        }
        let question = operation.kind.question();
        let outcome = match reply {
            Reply::Error(error) if verdict::is_undecided(error) => VerdictKind::Undecided,
            Reply::Error(_) => VerdictKind::Refused,
            _ if question.is_about_a_change() && !operation.kind.has_changed() => {
                VerdictKind::Refused
            }
            _ => VerdictKind::Granted,
        };
        if (question, outcome) == (QuestionKind::Claim, VerdictKind::Refused) {
            self.metrics.contention.met(&operation.key);
        }
        self.metrics.verdict(question, outcome);
    }
}
