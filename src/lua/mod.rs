//! Lua: our canonical scripts, and the recognition of everybody else's.

pub mod canonical;
