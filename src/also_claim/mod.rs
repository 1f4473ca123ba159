//! Locks that old instances of the application still take on the data Redis itself (`--also-claim-on-data`).
//!
//! As long as there are such instances, a lock needs the data Redis in addition to a quorum of masters. The data Redis
//! is asked first: the client that holds the lock there has it. A lock lasts longer there than its lease, by enough for
//! the masters' answer to arrive in time. After that answer it is made to end with the lease.
//!
//! * [`claim`]: the next step after the answer of either place;
//! * [`job`]: one request for a lock, there and on the masters;
//! * [`gate`]: the connection of a worker, which keeps requests in order;
//! * [`pending`]: unfinished work that a worker waits for before it ends.

pub mod claim;
pub mod gate;
pub mod job;
pub mod pending;
pub mod script;
