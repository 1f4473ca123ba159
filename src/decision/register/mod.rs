//! One key as a register that a quorum of masters agrees on: CASPaxos (Rystsov 2018).
//!
//! Masters are acceptors, workers are proposers. Unlike in the paper, the program travels and not the value: every
//! master runs it in place, on exactly the state that the worker expects there.
//!
//! ```text
//!             quorum, one state                  quorum applied
//!  Preparing -------------------> Applying -------------------> done
//!   ^     |                         ^  |
//!   |     | quorum, several states  |  | refused, or unanswered
//!   |     +-----> Adopting ---------+  |
//!   +----------------------------------+
//! ```
//!
//! * [`ballot`] orders attempts;
//! * [`acceptor`] is what a master keeps and does: the specification of its scripts;
//! * [`electorate`] says whose answers count;
//! * [`proposer`] is what a worker does.

pub mod acceptor;
pub mod ballot;
pub mod electorate;
pub mod proposer;

use std::fmt::Debug;
use std::hash::Hash;

/// A change that every master runs in place.
///
/// The same program on the same value must give the same value and the same reply on every master.
pub trait Program {
    /// What the key holds. The default is a key that was never written.
    type Value: Clone + Debug + Default + Eq + Hash;
    /// What the client is answered.
    type Reply: Clone + Debug + Eq + Hash;

    /// Returns the value after the change, and the reply.
    fn run(&self, value: &Self::Value) -> (Self::Value, Self::Reply);
}

/// The states that a program leads to.
pub type StateOf<P> = acceptor::State<<P as Program>::Value, <P as Program>::Reply>;

/// The stamps of the keys that a program changes.
pub type StampOf<P> = acceptor::Stamp<<P as Program>::Value, <P as Program>::Reply>;
