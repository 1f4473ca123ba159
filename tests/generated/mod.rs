//! Random programs, and the comparison of their effects, for `programs_random`.

pub(crate) mod commands;
pub(crate) mod likeness;
pub(crate) mod programs;
