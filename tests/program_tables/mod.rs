//! The scripts, transactions and commands that `programs_same_as_redis` sends to a plain Redis and to the proxy.
//! `support::side_by_side` explains the marks.

pub(crate) mod blocking;
pub(crate) mod calls;
pub(crate) mod environment;
pub(crate) mod hashes;
pub(crate) mod libraries;
pub(crate) mod lists;
pub(crate) mod raised;
pub(crate) mod replies;
pub(crate) mod scripts;
pub(crate) mod sets;
pub(crate) mod sorted_sets;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod transactions;
pub(crate) mod types;
pub(crate) mod watch;
