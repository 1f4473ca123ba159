//! The one clock, and the time of day as the masters tell it.

pub mod clock;
pub mod clocks;
pub mod unix_time;
