//! Telling masters that states are decided, so that their stamps need not say any more what they depend on.

use std::rc::Rc;

use futures_util::future::join_all;

use super::Engine;
use crate::decision::register::ballot::Ballot;
use crate::operation::register::{Place, ask};

/// Stamps that are closed at once: some milliseconds for a master if they are as long as they may be.
const AT_ONCE: usize = 32;

impl Engine {
    /// Closes what programs of many keys have left, for ever: the stamp of each names all of them until then, and masters would
    /// keep the square of that.
    pub async fn keep_closing(self: Rc<Self>) {
        loop {
            let keys = self.rules.registers.decided.next().await;
            // Those of one database stand together.
            for some in keys.chunk_by(|(one, _), (other, _)| one.db == other.db) {
                for some in some.chunks(AT_ONCE) {
                    self.close(some[0].0.db.into(), some).await;
                }
            }
        }
    }

    /// These states are decided, under these keys of one database.
    pub(super) async fn close(&self, db: u32, keys: &[(Place, Ballot)]) {
        if keys.is_empty() {
            return;
        }
        let words = ask::close(keys);
        let masters = self.rules.quorum.everybody();
        join_all(masters.iter().map(|master| self.ask_words(master, db, &words))).await;
    }
}
