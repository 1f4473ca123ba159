//! The panel: the masters that are asked, and when. It is the same for everything that starts in one turn of the event
//! loop.

use std::cell::Cell;
use std::rc::Rc;

use super::Engine;
use crate::decision::quorum::MasterSet;
use crate::decision::roster::term::Term;
use crate::time::clock::{self, Instant};

/// Whom to ask now. It must not be kept beyond the current turn of the event loop.
pub(super) struct Panel {
    /// The current term.
    pub(super) term: Rc<Term>,
    /// All reachable masters, even those whose ballots do not count: they must learn of the change.
    pub(super) asked: MasterSet,
    /// Those whose ballots count.
    pub(super) voters: MasterSet,
    /// The time from which rounds are measured. It is not after the first request was sent.
    pub(super) now: Instant,
    /// The last flush of the database that was asked for last.
    flush: Cell<Option<(u32, u64)>>,
}

impl Engine {
    /// Returns the current panel.
    pub(super) fn panel(&self) -> Panel {
        let term = self.term();
        let asked = self.reachable().without(term.strangers());
        let voters = asked.and(term.voters());
        self.rules().registers.see_flushes(self.links.iter().map(|link| link.flushed()).sum());
        Panel { term, asked, voters, now: clock::now(), flush: Cell::default() }
    }

    /// Returns the last flush of a database that any master has shown.
    pub(super) fn last_flush(&self, panel: &Panel, db: u32) -> u64 {
        if let Some((known, flush)) = panel.flush.get()
            && known == db
        {
            return flush;
        }
        let flush = self.links.iter().map(|link| link.last_flush(db)).max().unwrap_or_default();
        panel.flush.set(Some((db, flush)));
        flush
    }
}
