//! What is left to do about an operation that is answered, and about one of which nothing is on its way any more.
//!
//! Each is read off the operation in one go: most have nothing of it.

use super::{Engine, Flight, OperationId};
use crate::master::deferred::Note;
use crate::operation::Owed;
use crate::operation::program::Message;
use crate::quorum::MasterSet;

/// What follows an answer.
pub(super) struct Aftermath {
    /// Masters that were lost before they answered, and may hold what the client is told is not there.
    lost: MasterSet,
    /// What masters without a link have missed.
    pub(super) note: Option<Note>,
    /// Keys where others stay behind it.
    open: Vec<u64>,
    /// Keys whose turns it held.
    turns: Vec<u64>,
    changed: Vec<(u32, Vec<u8>)>,
    messages: Vec<Message>,
}

/// What is left of an operation at its end.
pub(super) struct Left {
    owed: Option<(u32, Box<[u8]>, Owed)>,
    /// Keys where others stayed behind it.
    open: Vec<u64>,
}

impl Engine {
    /// What follows the answer that an operation is about to be given.
    pub(super) fn aftermath(&self, flight: &mut Flight) -> Aftermath {
        let turns = std::mem::take(&mut flight.turns);
        let open = self.open_keys(flight);
        let operation = &flight.operation;
        Aftermath {
            lost: if operation.leaves_behind() { flight.unsure } else { MasterSet::EMPTY },
            note: self.missed(operation),
            open,
            turns: operation.turns()[..turns].to_vec(),
            changed: self.changed_keys(operation),
            messages: operation.messages(),
        }
    }

    /// Does it.
    pub(super) fn follow_up(&self, id: OperationId, aftermath: Aftermath) {
        let Aftermath { lost, note, open, turns, changed, messages } = aftermath;
        lost.iter().for_each(|master| self.undo(id, master));
        if let Some(note) = note {
            self.note_over(id, note);
        }
        self.keep_others_behind(id, open);
        self.leave_turns(turns);
        self.tell_changes(changed);
        self.announce(messages);
    }

    /// What is left of an operation of which nothing is on its way any more.
    pub(super) fn left(&self, flight: &Flight) -> Left {
        Left { owed: self.last_owed(&flight.operation), open: self.keys_to_leave(flight) }
    }

    /// Does it.
    pub(super) fn leave(&self, id: OperationId, left: Left) {
        if let Some(owed) = left.owed {
            self.settle_owed(id, owed);
        }
        self.is_behind_nobody(id, left.open);
    }
}
