//! An upgrade that no client notices: a new process takes over the listening sockets and the clients of the running
//! one.
//!
//! ```text
//! new process                                  running process
//!   hello, version        ------------------->
//!                         <-------------------   its listening sockets
//!   meets the masters
//!   ready                 ------------------->
//!                                                stops accepting clients
//!                         <-------------------   yours: its last client id, its scripts
//!   accepts
//!   serving               ------------------->
//!                         <-------------------   listen: its clients' subscriptions
//!   listening             ------------------->
//!                         <-------------------   a client: its socket, its state, its incomplete request
//!   taken                 ------------------->   ... for each, as soon as it waits for nothing
//!                         <-------------------   done
//! ```
//!
//! Both processes hold the same listening sockets, so no connection in their queues is lost. A client belongs to one
//! process at any time. The running one releases it before sending it, and takes it back if the new one does not accept
//! it. Until `done` any step can fail, or the new process can die: the running one then serves on.
//!
//! This room has two doors into a session: [`State`](crate::context::portable::SessionState) leaves one process, and
//! [`go_on_with`](crate::session::handover::go_on_with) resumes it in the other.
//!
//! * [`message`]: the messages between the two processes;
//! * [`worker_control`]: orders to workers, and their acknowledgements;
//! * [`successor`] takes over and `predecessor` hands over, each on a thread of its own.

pub mod message;
mod predecessor;
pub mod successor;
pub mod worker_control;

pub use successor::{CannotTakeOver, Handover};
pub use worker_control::Phase;

use std::time::Duration;

/// Maximum time for an answer that the other process can give at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for the other process to meet its masters.
const READY_TIMEOUT: Duration = Duration::from_secs(15);
