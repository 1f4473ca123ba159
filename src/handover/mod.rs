//! An upgrade that no client notices: a new process takes over from the one that runs, its listening sockets as
//! well as the clients that are connected.
//!
//! ```text
//! new process                                  running process
//!   hello, version        ------------------->
//!                         <-------------------   its listening sockets
//!   meets the masters
//!   ready                 ------------------->
//!                                                accepts nobody any more
//!                         <-------------------   yours: its last client id, its scripts
//!   accepts
//!   serving               ------------------->
//!                         <-------------------   listen: what its clients have subscribed to
//!   listening             ------------------->
//!                         <-------------------   a client: its socket, its state, what it has half sent
//!   taken                 ------------------->   ... for each, as soon as it waits for nothing
//!                         <-------------------   done
//! ```
//!
//! Both hold the very same listening sockets, so that nobody in their queues is lost. A client belongs to one
//! process at any time: the running one lets go of it before it is sent, and takes it back if it was not taken.
//! Until `done` each step can fail, or the new process die: then the running one serves on.
//!
//! * [`message`]: what the two tell each other;
//! * [`connection`]: a client on its way, [`sockets`]: the places where clients arrive;
//! * [`helm`]: how the workers are told;
//! * [`successor`] takes over, `predecessor` hands over, both on a thread of their own.

pub mod connection;
pub mod helm;
pub mod message;
mod predecessor;
pub mod sockets;
pub mod successor;

pub use helm::Phase;
pub use successor::{CannotTakeOver, Handover};

use std::time::Duration;

/// How long the other process may take for what it can do at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long it may take to meet its masters.
const READY_TIMEOUT: Duration = Duration::from_secs(15);
