//! Keys whose states are decided, and whose stamps are long because each names all keys of its program.

use std::cell::RefCell;

use tokio::sync::Notify;

use super::Place;
use crate::decision::register::ballot::Ballot;

/// Maximum length of the names of one program's keys, in bytes, for which the sweep is enough. A stamp of that length
/// is no burden.
pub(super) const SHORT: usize = 1_000;

/// Queue of those keys.
#[derive(Debug, Default)]
pub struct Decided {
    keys: RefCell<Vec<(Place, Ballot)>>,
    added: Notify,
}

impl Decided {
    /// Notes that all masters hold the states of these keys that were accepted under these ballots.
    pub fn note(&self, keys: Vec<(Place, Ballot)>) {
        self.keys.borrow_mut().extend(keys);
        self.added.notify_one();
    }

    /// Waits until there are some, and takes them.
    pub async fn next(&self) -> Vec<(Place, Ballot)> {
        loop {
            let keys = std::mem::take(&mut *self.keys.borrow_mut());
            if !keys.is_empty() {
                return keys;
            }
            self.added.notified().await;
        }
    }
}
