//! Which masters vote, and how one that has forgotten comes to vote again.
//!
//! A master that was restarted without its data, flushed or replaced must not go on voting: it would say "free" about
//! locks that it has forgotten. The Redlock text asks it to stay away for as long as the longest lock. Here it proves
//! with every vote that it remembers, and is admitted again once it was told what it forgot.
//!
//! * [`roster`] is the list of members that all proxies agree on, kept as a register on the masters themselves;
//! * [`mark`] is what a master shows to prove that it remembers, and [`mark::Proven`] what only the proof can make;
//! * [`poll`] says which votes may be counted together, by the [`term`] that each proxy knows; [`votes`] counts them;
//! * [`learning`] says what a proxy learns from the rosters that masters hold;
//! * [`clock`] tells a master whose clock was set, and [`noted`] does so for a proxy that was not there;
//! * [`admission`] says what a proxy does next for a master that has forgotten;
//! * [`anew`] says what it does when a quorum has forgotten;
//! * [`copying`] says what that master is given under one key;
//! * [`seats`] finds the members among the masters of a list;
//! * [`founding`] says what a proxy does with masters that have no roster.

pub mod admission;
pub mod anew;
pub mod clock;
pub mod copying;
pub mod founding;
pub mod learning;
pub mod mark;
pub mod noted;
pub mod poll;
#[expect(clippy::module_inception, reason = "the roster is the value that this room is about")]
pub mod roster;
pub mod seats;
pub mod term;
pub mod votes;
