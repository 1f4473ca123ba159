//! The Redis that the application already has, beside the masters that hold its locks.
//!
//! ```text
//!                            keys of locks
//! client --RESP--> session -----------------> operation --frames--> link 1..N --> masters
//!                     |
//!                     +--------------------> connection of this client alone --> data Redis
//!                     |      everything else, byte for byte                       ^
//!                     +--------------------> connection that clients share -------+
//!                            short requests of clients that have none of their own
//! ```
//!
//! * [`names`] says which keys and channels are locks;
//! * [`upstream`] is the way to the data Redis, [`connection`] a client's own connection to it, which has questions of
//!   its own (`answers`), and [`shared`] one for short requests of many;
//! * [`spare`] has a client's own one ready for the next client;
//! * [`side`] is what a session knows of it all, [`setup`] what such a connection is brought to before its first request;
//! * [`sentinels`] asks where it is, should sentinels choose it, and [`whereabouts`] is what they tell;
//! * [`watch`] looks after it, [`health`] is what it has seen, and [`description`] what is shown of that;
//! * [`advice`] is what the traffic says of the patterns;
//! * [`replies`] finds where one reply ends and the next one begins, without keeping either.

pub mod advice;
pub mod answers;
pub mod connection;
pub mod description;
pub mod health;
pub mod names;
pub mod replies;
pub mod sentinels;
pub mod setup;
pub mod shared;
pub mod side;
pub mod spare;
pub mod upstream;
pub mod watch;
pub mod whereabouts;
