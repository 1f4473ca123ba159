//! Copying the state of the other masters to a master that has forgotten its own, before it votes again.
//!
//! The master has forgotten its accepted states and its promises. Either may have been a vote that decided something,
//! or is about to, under the roster version before its exclusion. So every key with a stamp on any of enough sources is
//! copied:
//!
//! * a quorum holds the same state: it is decided, and is given unchanged ([`known`]);
//! * no source has accepted anything: then nothing was decided either, and only the promise is left;
//! * otherwise a higher ballot is promised, and [`copy`](super::settle::copy) returns the states that the sources must
//!   adopt first.
//!
//! The copy includes the highest promise of any source. A worker that had the forgotten promise also had one of a
//! source, so late requests are refused as if the master remembered. For a key without a stamp, everything up to the
//! floor is late. Until the master is in, decisions have a quorum without it: the sources are read after its exclusion,
//! and never count its old votes.
//!
//! Until then the master refuses requests. Anything it ran would count as soon as it is in, as if it had counted when
//! it ran. A lease that was deleted there, and whose claim arrives late, would then be on it again, despite the
//! deletion that it helped to decide.

use super::Program;
use super::settle::{Contested, newest};
use super::slot::{Sight, State};
use crate::decision::quorum::Quorum;
use crate::decision::register::ballot::Ballot;

/// Copy of one key for a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<P: Program> {
    /// Accepted state.
    pub state: State<P>,
    /// Highest ballot that any source has promised.
    pub promised: Ballot,
    /// Lease under the key, if there is no register.
    pub lease: Option<P::Lease>,
}

/// Returns the state of a key if a quorum of sources holds it at `now_us`, so that it is decided, or if no source has
/// accepted anything. `sights` must be everything that was read. `None` if the key must be settled first.
pub fn known<P: Program>(quorum: Quorum, sights: &[&Sight<P>], now_us: u64) -> Option<State<P>> {
    let newest = sights.iter().max_by_key(|sight| sight.state.accepted)?;
    let State { accepted, .. } = newest.state;
    let holds = |sight: &&&Sight<P>| sight.state.accepted == accepted && !sight.is_lost(now_us);
    // A master that was admitted without knowing does not prove that nothing was accepted.
    let tells = |sight: &&Sight<P>| sight.state.knows_what_followed(Ballot::NONE);
    let holders = sights.iter().filter(holds).count();
    let is_known = match accepted {
        Ballot::NONE => {
            holders == sights.len() && sights.len() > quorum.tolerates() && sights.iter().all(tells)
        }
        _ => holders >= quorum.needed(),
    };
    is_known.then(|| State { open: None, ..newest.state.clone() })
}

/// Returns what to give if nothing else can be found out in time, from what the sources have shown. It denies nothing
/// that they have accepted and reports no outcome. No claim passes if any source holds something at `now_us`.
pub fn unknown<P: Program>(sights: &[&Sight<P>], now_us: u64) -> Contested<P> {
    let newest = newest(sights);
    let from = newest.accepted;
    let state = match newest.stays(now_us) {
        true => newest.as_unknown(None, now_us),
        false => State::unknown_up_to(from),
    };
    Contested { from, state, lease: None }
}
