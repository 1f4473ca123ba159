//! The masters: one link per worker to each, and what could not be delivered to them yet.
//!
//! * [`roster`] is who the masters are, agreed on by all proxies, and how one that has forgotten is admitted again;
//! * [`electorate`] says who may vote, and in which [`Term`](crate::decision::roster::term::Term); [`standing`] says it in words;
//! * [`watch`] looks at one master, for its marks, [`facts`] and [`clocks`] ([`looks`] lets others wait for that);
//! * [`unix_time`] is the time of day by their clocks;
//! * `older` keeps versions apart that do not know marks;
//! * [`dial`] opens connections, the seam for tests and simulations;
//! * [`probe`] asks a master who it is before a link to it carries votes;
//! * [`link`] is the pipelined connection of the hot path, [`reply`] reads what comes back on it;
//! * [`lane`] is a second connection, for answers that may be large;
//! * [`errand`] is a connection for what is not hot, such as these two;
//! * [`feed`] listens for what is published;
//! * [`kill`] ends scripts that never end;
//! * [`deferred`] keeps what has to be delivered once the link is back.

pub mod clocks;
pub mod deferred;
pub mod dial;
pub mod electorate;
pub mod errand;
pub mod facts;
pub mod feed;
pub mod kill;
pub mod lane;
pub mod link;
pub mod looks;
mod older;
pub mod probe;
mod reader;
pub mod reply;
pub mod roster;
pub mod standing;
pub mod unix_time;
pub mod watch;
