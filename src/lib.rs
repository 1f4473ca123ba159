//! A Redis-protocol proxy that makes N independent masters look like one.
//!
//! ```text
//! client --RESP--> session --command--> operation --frames--> link 1..N --RESP--> master 1..N
//!                     ^                     |  ballots: yes / no / unknown            |
//!                     +------ reply --------+<------------ tally <--------------------+
//! ```
//!
//! The directories follow a request's journey:
//!
//! * [`client`]: what a client sees: the request decoder, the reply encoder, the session;
//! * [`command`]: the command table and one file per family, from words to operations;
//! * [`acl`]: users, and what they may do;
//! * [`operation`]: one client command on its way through the masters;
//! * [`decision`]: what is a lease, and which masters vote on it: pure, and explored exhaustively;
//! * [`quorum`]: how everything that is no lease is decided, just as pure;
//! * [`data`]: the Redis that holds what is no lock, and a connection to it for each client;
//! * [`master`]: the links to the masters, and what could not be delivered to them yet;
//! * [`pubsub`]: messages, from every master to every subscriber once;
//! * [`tls`]: whose certificates are shown and trusted, on both sides;
//! * [`handover`]: an upgrade that no client notices: sockets and clients go to another process;
//! * [`lua`]: our canonical scripts, and the recognition of everybody else's.
//!
//! [`learn`] watches the clients of one Redis, before there are masters.
//! [`worker`] ties them together on one thread; [`check`] asks the masters once, without serving, and [`settle`] about one key; [`cli`] and [`config`] say what was typed and what it means.

pub mod acl;
mod address;
pub mod admin;
pub mod check;
pub mod cli;
pub mod client;
pub mod clock;
pub mod command;
pub mod config;
pub mod data;
pub mod decision;
pub mod dev;
mod flush;
pub mod handover;
pub mod learn;
pub mod lua;
pub mod master;
pub mod metrics;
pub mod moving;
pub mod operation;
pub mod pubsub;
pub mod quorum;
pub mod reserved;
pub mod resp3;
pub mod settle;
mod socket_file;
pub mod tls;
pub mod worker;
