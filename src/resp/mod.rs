//! The bytes of the Redis protocol: requests, replies, numbers and patterns.

pub mod answer;
pub mod extent;
pub mod flat;
pub mod glob;
pub mod inline;
pub mod number;
pub mod output;
pub mod reply;
pub mod requests;
pub mod word;

/// How much is read at once of what only passes through: the more, the fewer times three processes wake each other.
pub const PASS_BUFFER: usize = 512 << 10;
