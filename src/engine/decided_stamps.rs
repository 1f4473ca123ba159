//! Tells masters which states are decided, so that stamps need no longer list their dependencies.

use std::rc::Rc;

use futures_util::future::join_all;

use super::Engine;
use crate::decision::register::ballot::Ballot;
use crate::operation::register::{Place, ask};

/// Maximum stamps closed at once: a few milliseconds of a master's time at their maximum length.
const AT_ONCE: usize = 32;

impl Engine {
    /// Continuously closes the results of programs on many keys. Until then the stamp of each key names all of them, so
    /// masters would store the square of their number.
    pub async fn keep_closing(self: Rc<Self>) {
        loop {
            let keys = self.rules().registers.decided.next().await;
            // Keys of one database are adjacent.
            for some in keys.chunk_by(|(one, _), (other, _)| one.db == other.db) {
                for some in some.chunks(AT_ONCE) {
                    self.close(some[0].0.db.into(), some).await;
                }
            }
        }
    }

    /// Tells masters that these states of keys in one database are decided.
    pub(super) async fn close(&self, db: u32, keys: &[(Place, Ballot)]) {
        if keys.is_empty() {
            return;
        }
        let words = ask::close(keys);
        let masters = self.rules().quorum.everybody();
        join_all(masters.iter().map(|master| self.ask_words(master, db, &words))).await;
    }
}
