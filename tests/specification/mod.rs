//! One master's side of each request: the specification of the scripts.
//!
//! Each function is one atomic step on a master. Models let masters take these steps, and property tests compare them
//! with the scripts on a real `redis-server`.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses its own part of this module")]

pub mod data_copy;
pub mod lease;
pub mod one_version;
pub mod slots;
pub mod stamp;
pub mod upkeep;
pub mod votes;
