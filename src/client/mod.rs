//! A connected client, apart from its socket: its replies, its memory and its entry in `CLIENT LIST`.
//!
//! * [`registry`]: all connected clients; [`login`]: the user of each; [`failed_logins`]: the delay after wrong
//!   passwords;
//! * [`outbox`]: the replies of one session, in order; [`slices`]: replies that take several turns of the event loop;
//! * [`timeslice`]: the time that one task may take before the other tasks get their turn;
//! * [`memory`]: the memory budget of all clients; [`handshakes`]: the limit on unfinished TLS handshakes;
//! * [`monitor`]: `MONITOR`; [`onlookers`]: who wants to know what commands do; [`slowlog`]: `SLOWLOG`; [`refusals`]:
//!   protocol errors in the log;
//! * [`subscriber_counts`]: the number of subscribers to each topic; [`unconfirmed`]: subscriptions on their way.

pub mod failed_logins;
pub mod handshakes;
pub mod invalidation;
mod line_pace;
pub mod login;
pub mod memory;
pub mod monitor;
pub mod onlookers;
pub mod outbox;
pub mod refusals;
pub mod registry;
pub mod slices;
pub mod slowlog;
pub mod subscriber_counts;
pub mod timeslice;
pub mod unconfirmed;
