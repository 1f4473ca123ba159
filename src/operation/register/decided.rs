//! Keys whose states are decided, and whose stamps are long as each names all keys of its program.

use std::cell::RefCell;

use tokio::sync::Notify;

use super::Place;
use crate::decision::register::ballot::Ballot;

/// Names of the keys of one program that are left to the sweep, in bytes: a stamp as long as that is no burden.
pub(super) const SHORT: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Decided {
    keys: RefCell<Vec<(Place, Ballot)>>,
    added: Notify,
}

impl Decided {
    /// All masters hold the states of these keys that were accepted under these ballots.
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
