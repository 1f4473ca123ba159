//! The masters that vote, and the return of a master that has forgotten.
//!
//! A master that was restarted without its data, flushed or replaced must not continue to vote: it would report
//! forgotten locks as free. The Redlock text asks it to stay away for as long as the longest lock. Here each vote of a
//! master proves that it remembers, and the master is admitted again once it has received what it forgot.
//!
//! * [`roster`] is the list of members that all proxies agree on, kept as a register on the masters themselves;
//! * [`mark`] is a master's proof that it remembers, and [`mark::Proven`] is an answer that only the proof can create;
//! * [`poll`] decides which votes may be counted together, by the [`term`] that each proxy knows;
//! * [`learning`] decides what a proxy learns from the rosters that masters hold;
//! * [`clock`] detects a master whose clock was set, and [`noted`] does so for a proxy that was not running;
//! * [`admission`] decides the next step of a proxy for a master that has forgotten;
//! * [`anew`] decides the next step when a quorum has forgotten;
//! * [`copying`] decides what that master receives under one key;
//! * [`seats`] finds the members among the masters of a list;
//! * [`seating`] decides how members join and leave, so that the number of votes that make a quorum changes;
//! * [`level`] decides what the members that stay are given before others leave;
//! * [`founding`] founds a cluster on masters that have no roster;
//! * [`shards`] decides whether several clusters serve together, each its share of the keys.

pub mod admission;
pub mod anew;
pub mod clock;
pub mod copying;
pub mod founding;
pub mod learning;
pub mod level;
pub mod mark;
pub mod noted;
pub mod poll;
#[expect(clippy::module_inception, reason = "the roster is the value that this room is about")]
pub mod roster;
pub mod seating;
pub mod seats;
pub mod shards;
pub mod term;
