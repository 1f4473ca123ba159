//! The roster, on the masters themselves.
//!
//! * [`acceptor`] is the register that all proxies agree on, `register` the way to it;
//! * [`marks`] reads and replaces what a master proves its memory by;
//! * [`copy`] gives a master what it has forgotten;
//! * [`youth`] says who is trusted when a cluster is founded;
//! * [`keeper`] decides what has to be done, and does it.

pub mod acceptor;
pub mod copy;
pub mod keeper;
pub mod marks;
mod register;
pub mod youth;
