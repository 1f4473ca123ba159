//! Decisions: what ballots and proofs make certain, and the next step.
//!
//! Nothing in here knows a socket, a runtime or a clock, so models explore it exhaustively.
//!
//! * [`lease`]: takes, prolongs and gives back a lock with a TTL, by a quorum of votes;
//! * [`register`]: one key as a replicated register; [`keyspace`]: several keys, beside leases;
//! * [`roster`]: the masters that vote, and the admission of one that has forgotten;
//! * [`quorum`]: majorities, tallies, and turns inside one worker.

pub mod keyspace;
pub mod lease;
pub mod quorum;
pub mod register;
pub mod roster;
