//! The names of Redis: its commands, which of their words are keys, its errors, and the names that are the proxy's own.

pub mod channel;
pub mod error;
pub mod key_flags;
pub mod keys;
pub mod names;
pub mod reserved;
pub mod table;
pub mod zero;
