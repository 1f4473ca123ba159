//! What a client sees: requests decoded, replies encoded.
//!
//! * [`reply`]: one reply, in RESP2 or RESP3.

pub mod reply;
