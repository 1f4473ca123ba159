//! Orders of the operator about the members, on their way from the admin port to the keeper.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// An order about the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOrder {
    /// Gives a member's place to another instance. Addresses are `host:port`.
    Replace {
        /// Address of the member.
        old: String,
        /// Address of the new instance.
        new: String,
    },
}

/// Outcome of an order: what was done, or why nothing was, in one sentence.
pub type Obeyed = Result<Replaced, String>;

/// A replacement that the roster holds, also as the admin port answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// Address of the new instance, as the roster names it: in lower case and with a port.
    pub by: String,
    /// What happens now, in one sentence.
    pub told: String,
}

/// Orders that the keeper has not carried out yet.
#[derive(Debug, Default)]
pub(crate) struct Orders(Mutex<VecDeque<(MemberOrder, oneshot::Sender<Obeyed>)>>);

impl Orders {
    /// Adds an order. The receiver gets its outcome.
    pub(crate) fn give(&self, order: MemberOrder) -> oneshot::Receiver<Obeyed> {
        let (done, outcome) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((order, done));
        outcome
    }

    /// Takes the next order. Orders whose giver has gone are dropped.
    pub(super) fn next(&self) -> Option<(MemberOrder, oneshot::Sender<Obeyed>)> {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| orders.pop_front()).find(|(_, done)| !done.is_closed())
    }
}
