//! A session and its worker, as commands see them.
//!
//! * [`caller`]: the client that sent the request; [`users`]: its login; [`transaction`]: its queue since `MULTI`;
//!   [`subscriptions`]: its topics; [`held_message`]: its message that waits for those of others;
//! * [`worker`]: the worker that serves it; [`shared`]: the state that all workers share; [`statistics`]: their counts;
//! * [`waiting`]: clients blocked in `BLPOP` and similar commands;
//! * [`tracking`]: the client's cache;
//! * [`portable`]: the state of a session at rest, for another process.

pub mod caller;
pub mod held_message;
pub mod portable;
pub mod shared;
pub mod statistics;
pub mod subscriptions;
pub mod tracking;
pub mod transaction;
pub mod users;
pub mod waiting;
pub mod worker;
