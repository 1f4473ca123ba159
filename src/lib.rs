//! A Redis-protocol proxy that makes N independent masters look like one.
//!
//! ```text
//! client --RESP--> session --command--> operation --frames--> link 1..N --RESP--> master 1..N
//!                     ^                     |  ballots: yes / no / unknown            |
//!                     +------ reply --------+<------------ tally <--------------------+
//! ```
//!
//! The directories are rooms in layers, in the order of a request's journey. A room imports only rooms below it;
//! `tests/layers.rs` reads the order from this list and fails on an import that points up.
//!
//! * [`cli`]: the subcommands of the executable (`check`, `settle`, `dev`, `upgrade`, `health`), its log and its signals
//! * [`learn`]: `redlock-proxy learn`: watches the clients of one Redis, before there are masters
//! * [`admin`]: the operators' port: metrics, status page, health
//! * [`worker`]: one thread with one event loop: starts the parts, does chores, drains
//! * [`handover`]: an upgrade that no client notices: sockets and clients move to another process
//! * [`session`]: one client connection: reads requests, starts operations, writes replies in order
//! * [`command`]: from the words of a request to an operation, one file per family of commands
//! * [`context`]: the caller of a command, and the worker that serves it, as commands see them
//! * [`also_claim`]: locks that old instances still take on the data Redis (`--also-claim-on-data`)
//! * [`data`]: the Redis that holds data other than locks, and a connection to it for each client
//! * [`pubsub`]: messages, from every master to every subscriber once
//! * [`tracking`]: `CLIENT TRACKING`: tells clients what to drop from their caches
//! * [`engine`]: operations in flight, taking turns on keys, and the links that carry them to masters
//! * [`masters`]: which masters vote: roster, admission, probes, clocks
//! * [`operation`]: one client command on its way: a decision joined with the bytes that masters exchange
//! * [`client`]: a connected client: replies in order, memory, login, its entry in `CLIENT LIST`
//! * [`lua`]: the scripts that masters run, and the recognition of everybody else's
//! * [`config`]: flags, environment and settings file, and their meaning
//! * [`acl`]: users, and what each may do
//! * [`names`]: names of keys and channels, and which of them are locks
//! * [`metrics`]: counters and histograms of one worker
//! * [`catalogue`]: the command table, the errors of Redis, and the names that are the proxy's own
//! * [`time`]: the one clock, and the time of day as the masters tell it
//! * [`decision`]: leases, registers, rosters and quorums: pure, and explored exhaustively
//! * [`resp`]: every byte of the Redis protocol: requests, replies, numbers, patterns
//! * [`net`]: addresses, sockets and TLS

pub mod acl;
pub mod admin;
pub mod also_claim;
pub mod catalogue;
pub mod cli;
pub mod client;
pub mod command;
pub mod config;
pub mod context;
pub mod data;
pub mod decision;
pub mod engine;
pub mod handover;
pub mod learn;
pub mod lua;
pub mod masters;
pub mod metrics;
pub mod names;
pub mod net;
pub mod operation;
pub mod pubsub;
pub mod resp;
pub mod session;
pub mod time;
pub mod tracking;
pub mod worker;

// The models' masters serve the unit tests as well, and name this crate from outside.
#[cfg(test)]
extern crate self as redlock_proxy;
#[cfg(test)]
#[path = "../tests/specification/mod.rs"]
mod specification;
