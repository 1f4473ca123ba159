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
    /// Adds an instance.
    Add {
        /// Its address.
        new: String,
    },
    /// Removes a member.
    Remove {
        /// Its address.
        old: String,
    },
}

impl MemberOrder {
    /// Returns the address of the member that goes.
    pub fn old(&self) -> Option<&str> {
        match self {
            Self::Replace { old, .. } | Self::Remove { old } => Some(old),
            Self::Add { .. } => None,
        }
    }

    /// Returns the address of the instance that comes.
    pub fn new_address(&self) -> Option<&str> {
        match self {
            Self::Replace { new, .. } | Self::Add { new } => Some(new),
            Self::Remove { .. } => None,
        }
    }
}

/// Outcome of an order: what was done, or why nothing was, in one sentence.
pub type Obeyed = Result<ChangeMade, String>;

/// A change that the roster holds, also as the admin port answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeMade {
    /// Address of the new instance, as the roster names it: in lower case and with a port. Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Address of the member that is removed. Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gone: String,
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

    /// Whether no order waits.
    pub(super) fn are_none(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes the next order. Orders whose giver has gone are dropped.
    pub(super) fn next(&self) -> Option<(MemberOrder, oneshot::Sender<Obeyed>)> {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| orders.pop_front()).find(|(_, done)| !done.is_closed())
    }
}
