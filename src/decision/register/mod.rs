//! One key as a register that a quorum of masters agrees on: CASPaxos (Rystsov 2018).
//!
//! Masters are acceptors, workers are proposers. Unlike in the paper, the program travels instead of the value: every
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
//! * [`acceptor`] is a master's record, with the requests that change it;
//! * [`electorate`] decides which answers count;
//! * [`proposer`] is the worker's side.

pub mod acceptor;
pub mod ballot;
pub mod electorate;
pub mod proposer;

use std::fmt::Debug;
use std::hash::Hash;

/// A change that every master runs in place.
///
/// A program must produce the same value and the same reply on every master that starts from the same value.
pub trait Program {
    /// Content of the key. The default is a key that was never written.
    type Value: Clone + Debug + Default + Eq + Hash;
    /// Reply to the client.
    type Reply: Clone + Debug + Eq + Hash;

    /// Returns the value after the change, and the reply.
    fn run(&self, value: &Self::Value) -> (Self::Value, Self::Reply);
}

/// States that a program leads to.
pub type StateOf<P> = acceptor::State<<P as Program>::Value, <P as Program>::Reply>;
