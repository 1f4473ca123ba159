//! `redlock-proxy learn`: passes everything through to one Redis, and tells which keys are used there as locks.
//!
//! ```text
//! client --bytes--> pump --the same bytes--> data Redis
//!                    |
//!                    +--> requests --> conversation --> observer --> report
//! ```
//!
//! * [`serve`] listens, `opening` makes a client's connection, `pump` passes the bytes, `page` shows the report while it grows;
//! * [`requests`] finds the requests among the bytes;
//! * [`conversation`] is what one client does, [`observer`] what all of them did, in the bounded memory of a [`ledger`];
//! * [`kind`] is by what a lock is seen, [`scripts`] what scripts mean, [`usage`] how a name was used;
//! * [`skeleton`] and [`patterns`] make patterns of names, [`kinship`] finds names that belong to a lock;
//! * [`report`] is what comes out, [`text`] its form for people.
//!
//! All but `serve`, `opening`, `pump` and `page` know no sockets.

pub mod conversation;
pub mod kind;
pub mod kinship;
pub mod ledger;
pub mod observer;
mod opening;
mod page;
pub mod patterns;
mod pump;
pub mod report;
pub mod requests;
pub mod scripts;
pub mod serve;
pub mod skeleton;
pub mod text;
pub mod usage;

#[cfg(test)]
mod tests;

/// The longest name of a key or channel that is looked at, in bytes.
pub const LONGEST_NAME: usize = 512;
