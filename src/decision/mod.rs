//! Decisions: what ballots and proofs make certain, and the next step.
//!
//! Nothing here depends on a socket, a runtime or a clock, so model checkers can explore it exhaustively.
//!
//! * [`lease`]: acquires, extends and releases a lock with a TTL, by a quorum of votes;
//! * [`register`]: one key as a replicated register; [`keyspace`]: several keys, alongside leases;
//! * [`roster`]: the masters that vote, and the admission of a master that has forgotten its data;
//! * [`quorum`]: majorities, tallies, and turns inside one worker.

pub mod keyspace;
pub mod lease;
pub mod quorum;
pub mod register;
pub mod roster;
