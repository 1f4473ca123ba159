//! Locks that old instances of the application still take on the data Redis itself (`--also-claim-on-data`).
//!
//! As long as there is one, a lock needs the data Redis beside a quorum of masters. It is asked first, and whoever holds the
//! lock there has it. What it was given stays there for so much longer than the lease that the masters' answer comes
//! within that, and is then let end with the lease.
//!
//! * [`copy`]: what the data Redis does with each request, as the scripts do it;
//! * [`claim`]: what is to be done when one place has answered;
//! * [`job`]: one request for a lock, there and on the masters;
//! * [`gate`]: the connection of a worker, in the order in which it is asked;
//! * [`pending`]: what a worker that ends has to wait for.

pub mod claim;
pub mod copy;
pub mod gate;
pub mod job;
pub mod pending;
pub mod script;
