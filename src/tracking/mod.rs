//! `CLIENT TRACKING`: tells clients which of the values that they have cached are no longer current.
//!
//! ```text
//! change --> master 1..N --report--> invalidation feed 1..N --gathering--> table --> behind the replies of a client
//! ```
//!
//! A worker has one connection to each master that reports every changed key. It tells its clients once when all
//! masters have reported a key, or the rest is late.
//!
//! No client keeps an old value: a quorum has shown it, and each of its masters has a feed ([`is_complete`]). Whatever
//! a quorum agrees on next, one of these masters changes after its answer, and reports that. The read was noted before
//! the masters were asked, and the message comes behind its reply. `model` explores this exhaustively.
//!
//! * [`options`]: the words of `CLIENT TRACKING`; [`tracked`]: a client that is told;
//! * [`gathering`], [`table`], [`expiries`] and [`own_changes`]: whom to tell, and when; all of them are pure;
//! * [`tracker`]: the clients of one worker; [`invalidation_feed`]: the connections that report.

pub mod expiries;
pub mod gathering;
pub mod invalidation_feed;
pub mod options;
pub mod own_changes;
pub mod table;
pub mod tracked;
pub mod tracker;

#[cfg(test)]
#[path = "../../tests/support/exhaustive.rs"]
mod exhaustive;
#[cfg(test)]
mod model;

use crate::decision::quorum::MasterSet;

/// Whether a client may cache what it reads now: every master that may vote reports its changes.
///
/// N-Q+1 feeds would not be enough. A change may have reached the other masters before the read. Then the only master
/// that has yet to change is one that has shown the old value.
pub fn is_complete(voters: MasterSet, live: MasterSet) -> bool {
    !voters.is_empty() && voters.without(live).is_empty()
}
