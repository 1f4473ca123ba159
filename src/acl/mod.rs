//! Users and their permissions, in the words of Redis's ACL (`acl.c`).
//!
//! * [`Users`]: all users in the settings, and their logins; [`User`]: one of them;
//! * `rules`: one word of a rule and the change it makes; [`Commands`], [`Patterns`]: the resulting permissions;
//! * [`catalogue`]: all commands and subcommands; [`Categories`]: the groups that rules add and remove;
//! * `password`: passwords, of which only digests are kept;
//! * [`guard`]: the same rules in Lua, for calls by scripts on the masters.
//!
//! Nothing here knows about connections. `command` knows who sends a request, and handles refusals.

pub mod catalogue;
mod categories;
mod commands;
pub mod guard;
mod password;
mod patterns;
mod rules;
mod user;
mod users;

pub use categories::Categories;
pub use commands::Commands;
pub use patterns::Patterns;
pub use user::User;
pub use users::{DEFAULT_USER, InvalidUser, Users};
