//! The roster, on the masters themselves.
//!
//! * [`acceptor`]: the register that all proxies agree on; `register`: access to it;
//! * [`marks`]: reads and replaces the proofs of a master's memory;
//! * [`copy`]: gives a master what it has forgotten;
//! * [`youth`]: decides which masters are trusted when a cluster is founded;
//! * [`together`]: the rosters of all shards;
//! * [`orders`]: what the operator wants changed;
//! * [`keeper`]: decides what needs doing, and does it.

pub mod acceptor;
pub mod copy;
pub mod keeper;
pub mod marks;
pub mod orders;
mod register;
pub mod together;
pub mod youth;
