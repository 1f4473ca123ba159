//! From words to operations.
//!
//! * [`number`]: integers as Redis reads them.

pub mod number;
