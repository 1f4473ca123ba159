//! What a client sees: requests decoded, replies encoded.
//!
//! * [`decoder`]: the bytes of a connection cut into requests; [`inline`]: those typed by hand;
//! * [`reply`]: one reply, in RESP2 or RESP3; [`outbox`]: a session's replies, in order;
//! * [`waiting`]: clients that `BLPOP`; [`monitor`]: clients that watch;
//! * [`listener`] accepts connections, [`session`] serves one, [`login`] says who it is, [`registry`] knows
//!   them all.

pub mod decoder;
pub mod inline;
pub mod listener;
pub mod login;
pub mod monitor;
pub mod outbox;
pub mod registry;
pub mod reply;
pub mod session;
pub mod waiting;
