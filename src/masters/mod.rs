//! The masters: their roster, their probes, and their votes.
//!
//! * [`roster`]: the list of members that all proxies agree on, and the admission of a master that has forgotten;
//! * [`electorate`]: the current voters and their [`Term`](crate::decision::roster::term::Term); [`standing`]: a
//!   master's standing in words;
//! * [`watch`]: probes one master every second for its marks, [`facts`] and clock; [`probe_signal`] lets others wait
//!   for the next probe;
//! * [`probe`]: checks a master's identity before a link to it carries votes;
//! * [`dial`]: opens connections; the seam for tests and simulations;
//! * [`side_connection`]: a connection for work off the hot path; [`kill`]: `SCRIPT KILL`;
//! * [`older_versions`]: keeps out proxies that do not know marks.

pub mod dial;
pub mod electorate;
pub mod facts;
pub mod kill;
pub mod older_versions;
pub mod probe;
pub mod probe_signal;
pub mod roster;
pub mod side_connection;
pub mod standing;
pub mod watch;
