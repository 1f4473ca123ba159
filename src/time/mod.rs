//! The one clock, and the time of day according to the masters.

pub mod clock;
pub mod clocks;
pub mod unix_time;
