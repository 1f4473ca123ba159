//! The subcommands of the executable, its log, and its signal handling.

pub mod check;
pub mod dev;
pub mod health;
pub mod logging;
pub mod members;
pub mod reload;
pub mod settle;
pub mod signals;
mod table;
pub mod upgrade;
