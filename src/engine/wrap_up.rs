//! Consequences of a reply to a client, and the end of a flight.

use std::time::Duration;

use super::Engine;
use super::flight::Flight;
use crate::lua::program::ProgramText as Text;
use crate::operation::debts::Note;
use crate::operation::program::Message;
use crate::operation::register::Place;
use crate::operation::verdict;
use crate::operation::{Behaviour, Operation};
use crate::resp::reply::Reply;
use crate::time::clock;

/// Consequences of a reply.
pub(super) struct Aftermath {
    /// The note for masters without a link.
    pub(super) note: Option<Note>,
    /// Whether the client's patience has passed without a decision.
    pub(super) was_in_vain: bool,
    /// Keys on which it held turns.
    turns: Vec<u64>,
    changed: Vec<(u32, Vec<u8>)>,
    messages: Vec<Message>,
}

/// Minimum time between two warnings about differing answers.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);

impl Engine {
    /// Collects the consequences of `reply`, which the client is about to get. Most operations have none.
    pub(super) fn aftermath(&self, flight: &mut Flight, reply: &Reply) -> Aftermath {
        let turns = std::mem::take(&mut flight.turns);
        let operation = &flight.operation;
        let mut messages = operation.kind.messages();
        messages.extend(self.told(operation, reply));
        let is_undecided = matches!(reply, Reply::Error(error) if verdict::is_undecided(error));
        Aftermath {
            note: self.missed(operation),
            was_in_vain: is_undecided && flight.is_over(clock::now()),
            turns: operation.kind.turns()[..turns].to_vec(),
            changed: self.changed_keys(operation),
            messages,
        }
    }

    /// Returns what onlookers are told of an operation on a lease, now that its client gets `reply`.
    #[inline]
    pub(super) fn told(&self, operation: &Operation, reply: &Reply) -> Vec<Message> {
        let tells = self.rules().onlookers.want();
        if tells.is_any() { operation.told(&self.rules(), reply, tells) } else { Vec::new() }
    }

    /// Carries out the consequences of a reply.
    pub(super) fn follow_up(&self, flight: &mut Flight, aftermath: Aftermath) {
        let Aftermath { note, was_in_vain, turns, changed, messages } = aftermath;
        if let Some(note) = note {
            self.note_over(flight, note);
        }
        self.leave_turns(turns, was_in_vain);
        self.tell_changes(&flight.operation, changed);
        self.announce(messages);
    }

    /// Does the remaining work at the end of a flight.
    pub(super) fn wrap_up(&self, flight: &mut Flight) {
        if let Some(owed) = flight.operation.owed(&flight.rules) {
            self.settle_owed(flight, owed);
        }
        let operation = &flight.operation;
        if let Some((places, masters)) = operation.kind.behind() {
            let behind = &flight.rules.registers.behind;
            places.into_iter().for_each(|place| behind.note(place, masters));
        }
        if let Some(keys) = operation.kind.decided() {
            flight.rules.registers.decided.note(keys);
        }
        if let Some((program, places)) = operation.kind.differing() {
            self.metrics.replies_differing.one();
            self.warn_of_differing(&program, &places);
        }
    }

    /// Logs at most one warning per [`BETWEEN_WARNINGS`].
    fn warn_of_differing(&self, program: &Text, places: &[Place]) {
        let registers = std::rc::Rc::clone(&self.rules().registers);
        let (now, last) = (clock::now(), &registers.warned);
        if last.get().is_some_and(|last| now < last + BETWEEN_WARNINGS) {
            return;
        }
        last.set(Some(now));
        let key = places.first().map(|place| place.key.escape_ascii().to_string());
        tracing::warn!(
            "masters gave different answers although they held the same data: script {} on key `{}`; see docs/scripts.md for what can differ between masters",
            program.name(),
            key.unwrap_or_default(),
        );
    }
}
