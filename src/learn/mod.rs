//! `redlock-proxy learn`: passes everything through to one Redis, and reports which keys are used there as locks.
//!
//! ```text
//! client --bytes--> pump --the same bytes--> data Redis
//!                    |
//!                    +--> requests --> conversation --> observer --> report
//! ```
//!
//! * [`serve`] listens, `opening` opens a client's connection, `pump` passes the bytes, `page` shows the growing
//!   report;
//! * [`requests`] finds the requests among the bytes;
//! * [`conversation`]: the requests of one client; [`observer`]: those of all clients, in the bounded memory of a
//!   [`ledger`];
//! * [`scripts`]: the meaning of scripts; [`usage`]: the use of a name;
//! * [`report`]: the result; [`text`]: the result for people.
//!
//! Only `serve`, `opening`, `pump` and `page` use sockets.

pub mod conversation;
pub mod ledger;
pub mod observer;
mod opening;
mod page;
mod pump;
pub mod report;
pub mod requests;
pub mod scripts;
pub mod serve;
pub mod text;
pub mod usage;

#[cfg(test)]
mod tests;
