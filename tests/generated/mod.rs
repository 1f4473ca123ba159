//! Random programs, and how their effects are compared: for `programs_random`.

pub(crate) mod commands;
pub(crate) mod likeness;
pub(crate) mod programs;
