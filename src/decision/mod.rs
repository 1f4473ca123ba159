//! Decisions that proofs and ballots make exact: what is certain, and what to do next.
//!
//! Nothing in here knows a socket, a runtime or a clock: they are explored exhaustively. What is no lease still decides
//! by [`quorum`](crate::quorum).
//!
//! * [`lease`] takes, prolongs and gives back a lock with a TTL, by a quorum of votes;
//! * [`register`] is one key as a replicated register: what a master keeps, and how a worker changes it;
//! * [`roster`] is which masters vote, and how one that has forgotten is admitted again.

pub mod keyspace;
pub mod lease;
pub mod register;
pub mod roster;
