//! What a client sees: requests decoded, replies encoded.
//!
//! * [`decoder`]: the bytes of a connection cut into requests; [`inline`]: those typed by hand;
//! * [`reply`]: one reply, in RESP2 or RESP3.

pub mod decoder;
pub mod inline;
pub mod reply;
