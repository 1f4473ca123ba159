//! From words to operations.
//!
//! * [`table`]: the commands; [`error`]: what is said when one cannot be done;
//! * [`number`]: integers as Redis reads them.

pub mod error;
pub mod number;
pub mod table;
