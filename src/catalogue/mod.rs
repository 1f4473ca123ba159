//! Names in Redis: commands and their keys, errors, and the names reserved for the proxy.

pub mod channel;
pub mod error;
pub mod events;
pub mod key_flags;
pub mod keys;
pub mod reserved;
pub mod table;
pub mod words;
