//! What is left to do about an operation that is answered, and about one of which nothing is on its way any more.
//!
//! Each is read off the operation in one go: most have nothing of it.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Flight, OperationId};
use crate::decision::quorum::MasterSet;
use crate::decision::register::ballot::Ballot;
use crate::lua::program::Program as Text;
use crate::operation::debts::Note;
use crate::operation::program::Message;
use crate::operation::register::Place;
use crate::operation::{Owed, verdict};
use crate::resp::reply::Reply;
use crate::time::clock;

/// What follows an answer.
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

/// What is left of an operation at its end.
pub(super) struct Left {
    owed: Option<(u32, Box<[u8]>, Owed)>,
    behind: Option<(Vec<Place>, MasterSet)>,
    decided: Option<Vec<(Place, Ballot)>>,
    differing: Option<(Arc<Text>, Vec<Place>)>,
}

/// How long nobody is warned again that masters answer differently.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(10);

impl Engine {
    /// What follows `reply`, which an operation is about to be given.
    pub(super) fn aftermath(&self, flight: &mut Flight, reply: &Reply) -> Aftermath {
        let turns = std::mem::take(&mut flight.turns);
        let operation = &flight.operation;
        let is_undecided = matches!(reply, Reply::Error(error) if verdict::is_undecided(error));
        Aftermath {
            note: self.missed(operation),
            was_in_vain: is_undecided && flight.is_over(clock::now()),
            turns: operation.turns()[..turns].to_vec(),
            changed: self.changed_keys(operation),
            messages: operation.messages(),
        }
    }

    /// Does it.
    pub(super) fn follow_up(&self, id: OperationId, aftermath: Aftermath) {
        let Aftermath { note, was_in_vain, turns, changed, messages } = aftermath;
        if let Some(note) = note {
            self.note_over(id, note);
        }
        self.leave_turns(turns, was_in_vain);
        self.tell_changes(changed);
        self.announce(messages);
    }

    /// What is left of an operation of which nothing is on its way any more.
    pub(super) fn left(&self, flight: &Flight) -> Left {
        let operation = &flight.operation;
        Left {
            owed: self.last_owed(operation),
            behind: operation.behind(),
            decided: operation.decided(),
            differing: operation.differing(),
        }
    }

    /// Does it.
    pub(super) fn leave(&self, id: OperationId, left: Left) {
        if let Some(owed) = left.owed {
            self.settle_owed(id, owed);
        }
        if let Some((places, masters)) = left.behind {
            let behind = &self.rules.registers.behind;
            places.into_iter().for_each(|place| behind.note(place, masters));
        }
        if let Some(keys) = left.decided {
            self.rules.registers.decided.note(keys);
        }
        if let Some((program, places)) = left.differing {
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
