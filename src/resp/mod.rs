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

/// Read size for data that only passes through. Larger reads mean fewer wake-ups between the three processes involved.
pub const PASS_BUFFER: usize = 512 << 10;
