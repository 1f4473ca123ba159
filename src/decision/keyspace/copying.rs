//! Giving a master that has forgotten what the others hold, before it votes again.
//!
//! It has forgotten what it accepted, and what it promised. Both may have been one of the votes that something was decided
//! by, or is about to be, under the version before it was put out. So each key of which any of enough sources has a stamp
//! is copied:
//!
//! * a quorum holds the same: that is decided, and is given as it is ([`known`]);
//! * nobody has accepted anything: then nothing was decided either, and the promise is all that there is;
//! * else a higher ballot is promised, and [`copy`](super::settle::copy) tells what the sources have to adopt first.
//!
//! With it goes the highest promise that any of them has given. Whoever had the forgotten one's promise had that of a
//! source, too, so what is late is refused as if the master remembered. A key without a stamp is late up to the floor. What
//! is decided meanwhile has a quorum without this master: the sources, read after it was put out, never count its old votes.
//!
//! What is sent to the master meanwhile it refuses. What it had run would count as soon as it is in, as if it had been
//! counted when it ran: a lease that was deleted there, and whose claim comes late, would stand on it again beside the
//! deletion that it has helped to decide.

use super::Program;
use super::settle::{Contested, newest};
use super::slot::{Sight, Slot, Slots, State, lease_without};
use crate::decision::quorum::Quorum;
use crate::decision::register::ballot::Ballot;

/// What a master is given under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<P: Program> {
    /// What was accepted.
    pub state: State<P>,
    /// The highest ballot that any source has promised.
    pub promised: Ballot,
    /// The lease beside it, if there is no register.
    pub lease: Option<P::Lease>,
}

/// The state of a key that a quorum of sources, of which this is all that was read, holds at `now_us`: it is decided. Or that
/// nobody has accepted anything. `None`: it has to be settled first.
pub fn known<P: Program>(quorum: Quorum, sights: &[&Sight<P>], now_us: u64) -> Option<State<P>> {
    let newest = sights.iter().max_by_key(|sight| sight.state.accepted)?;
    let State { accepted, .. } = newest.state;
    let holds = |sight: &&&Sight<P>| sight.state.accepted == accepted && !sight.is_lost(now_us);
    // Who was admitted without knowing does not tell that nothing was.
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

/// What is given where nothing else can be told in time, by what the sources have shown: nothing that they have accepted is
/// denied, nothing is told of it, and no claim passes where any of them holds something at `now_us`.
pub fn unknown<P: Program>(sights: &[&Sight<P>], now_us: u64) -> Contested<P> {
    let newest = newest(sights);
    let from = newest.accepted;
    let state = match newest.stays(now_us) {
        true => newest.as_unknown(None, now_us),
        false => State::unknown_up_to(from),
    };
    Contested { from, state, lease: None }
}

impl<P: Program> Slots<P> {
    /// Keeps what was copied at `now_us`, `own_us` by this master's own clock, unless it has accepted something newer
    /// meanwhile.
    pub fn give(&mut self, key: &P::Key, given: &Given<P>, now_us: u64, own_us: u64) {
        let slot = self.of(key);
        slot.promised = slot.promised.max(given.promised);
        if slot.state.accepted < given.state.accepted || slot.state.accepted == Ballot::NONE {
            let kept = lease_without(&slot.state, slot.lease.as_ref(), &given.state).cloned();
            slot.lease = given.lease.clone().or(kept);
            slot.is_gone = !given.state.stays(now_us);
            slot.state = State { stays_us: given.state.stays_from(own_us), ..given.state.clone() };
            slot.floor = Ballot::NONE;
        }
        slot.lease.take_if(|_| P::is_present(&slot.state.value) && !slot.is_gone);
        self.of(key);
    }

    /// No source has a stamp of `key`. What this master has accepted there up to the floor came too late.
    pub fn clear_late(&mut self, key: &P::Key) {
        // The mark has room for a counter only.
        let floor = Ballot { worker: u64::MAX, ..self.floor };
        let slot = self.of(key);
        if slot.state.accepted <= floor {
            let lease = lease_without(&slot.state, slot.lease.as_ref(), &State::default()).cloned();
            *slot = Slot { lease, ..Slot::default() };
            self.of(key);
        }
    }
}
