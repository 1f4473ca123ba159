//! What a client sees: requests decoded, replies encoded.
//!
//! * [`decoder`]: the bytes of a connection cut into requests; [`inline`]: those typed by hand;
//! * [`reply`]: one reply, in RESP2 or RESP3; [`outbox`]: a session's replies, in order; [`output`]: their bytes;
//! * [`slices`]: replies that are long to make; [`timeslice`]: how long a session may work at once;
//! * [`waiting`]: clients that `BLPOP`; [`monitor`]: clients that watch;
//! * [`listener`] accepts connections, [`handshakes`] bounds those by TLS, [`session`] serves one, [`login`] says who
//!   it is, [`guesses`] makes wrong passwords wait, [`registry`] knows them all, and [`memory`] what they take.

pub mod decoder;
pub mod guesses;
pub mod handshakes;
pub mod inline;
pub mod listener;
pub mod login;
pub mod memory;
pub mod monitor;
pub mod outbox;
pub mod output;
pub mod registry;
pub mod reply;
pub mod session;
pub mod slices;
pub mod timeslice;
pub mod waiting;
