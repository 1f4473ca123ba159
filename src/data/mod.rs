//! The application's existing Redis, next to the masters that hold its locks.
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
//! * [`upstream`]: the way to the data Redis. [`sentinels`] and [`whereabouts`]: its address, where sentinels choose
//!   it.
//! * [`connection`]: one client's own connection. `answers`: replies to requests that the connection itself sends.
//! * [`shared`]: a connection for short requests of many clients. [`spare`]: a ready one for the next client.
//! * [`side`]: a session's view of the data Redis. [`setup`]: the state a connection needs before its first request.
//! * [`watch`]: a probe every second. [`health`]: its result. [`description`]: the result in words.
//! * [`advice`]: hints about the configured patterns, from the traffic.

pub mod advice;
pub mod answers;
pub mod connection;
pub mod description;
pub mod health;
pub mod sentinels;
pub mod setup;
pub mod shared;
pub mod side;
pub mod spare;
pub mod upstream;
pub mod watch;
pub mod whereabouts;
