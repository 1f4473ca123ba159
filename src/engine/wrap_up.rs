//! What follows the reply to a client, and the end of a flight.

use std::time::Duration;

use super::Engine;
use super::flight::Flight;
use crate::lua::program::ProgramText as Text;
use crate::operation::debts::Note;
use crate::operation::program::Message;
use crate::operation::register::Place;
use crate::operation::verdict;
use crate::resp::reply::Reply;
use crate::time::clock;

/// What follows a reply.
pub(super) struct Aftermath {
    /// What masters without a link have missed.
    pub(super) note: Option<Note>,
    /// Its client's patience has passed, and nothing was decided.
    pub(super) was_in_vain: bool,
    /// Keys whose turns it held.
    turns: Vec<u64>,
    changed: Vec<(u32, Vec<u8>)>,
    messages: Vec<Message>,
}

/// Least time between two warnings that masters answer differently.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);

impl Engine {
    /// Reads off the operation what follows `reply`, which its client is about to get. Most have nothing of it.
    pub(super) fn aftermath(&self, flight: &mut Flight, reply: &Reply) -> Aftermath {
        let turns = std::mem::take(&mut flight.turns);
        let operation = &flight.operation;
        let is_undecided = matches!(reply, Reply::Error(error) if verdict::is_undecided(error));
        Aftermath {
            note: self.missed(operation),
            was_in_vain: is_undecided && flight.is_over(clock::now()),
            turns: operation.kind.turns()[..turns].to_vec(),
            changed: self.changed_keys(operation),
            messages: operation.kind.messages(),
        }
    }

    /// Does what follows an answer.
    pub(super) fn follow_up(&self, flight: &mut Flight, aftermath: Aftermath) {
        let Aftermath { note, was_in_vain, turns, changed, messages } = aftermath;
        if let Some(note) = note {
            self.note_over(flight, note);
        }
        self.leave_turns(turns, was_in_vain);
        self.tell_changes(changed);
        self.announce(messages);
    }

    /// Does what is left to do at the end of a flight.
    pub(super) fn wrap_up(&self, flight: &mut Flight) {
        if let Some(owed) = flight.operation.owed(&self.rules) {
            self.settle_owed(flight, owed);
        }
        let operation = &flight.operation;
        if let Some((places, masters)) = operation.kind.behind() {
            let behind = &self.rules.registers.behind;
            places.into_iter().for_each(|place| behind.note(place, masters));
        }
        if let Some(keys) = operation.kind.decided() {
            self.rules.registers.decided.note(keys);
        }
        if let Some((program, places)) = operation.kind.differing() {
            self.metrics.replies_differing.one();
            self.warn_of_differing(&program, &places);
        }
    }

    /// At most one in [`BETWEEN_WARNINGS`].
    fn warn_of_differing(&self, program: &Text, places: &[Place]) {
        let (now, last) = (clock::now(), &self.rules.registers.warned);
        if last.get().is_some_and(|last| now < last + BETWEEN_WARNINGS) {
            return;
        }
        last.set(Some(now));
        let key = places.first().map(|place| place.key.escape_ascii().to_string());
        tracing::warn!(
            "masters answered differently although they held the same: script {} on key `{}`; see docs/scripts.md about what \
             differs from master to master",
            program.name(),
            key.unwrap_or_default(),
        );
    }
}
