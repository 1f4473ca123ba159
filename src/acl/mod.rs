//! Users, and what they may do: the words of Redis's ACL (`acl.c`).
//!
//! * [`Users`]: everybody whom the settings name, and how they log in; [`User`]: one of them;
//! * `rules`: one word of a rule and what it changes; [`Commands`], [`Patterns`]: what it comes to;
//! * [`catalogue`]: all commands and subcommands; [`Categories`]: the groups that rules give and take;
//! * `password`: passwords, of which only digests are kept;
//! * [`guard`]: the same rules in Lua, for what scripts call on the masters.
//!
//! Nothing here knows a connection: who asks and what becomes of a refusal is the business of `command`.

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
