//! What is left of leases that no quorum holds.
//!
//! A claim that was given up takes its copies back, and what it leaves where it cannot reach ends by itself. Until then such
//! a copy keeps its master from adopting a register, and several of them a key from being told at all. Somebody may also
//! have written a string by hand, or deleted a stamp beside one, and that may have no end.
//!
//! A copy on fewer than a quorum is no proof: the claim may have been counted there, and its other votes be on their way. If
//! it went, and the claim was granted with it, two would hold one lock. But votes count for a short time only. So:
//!
//! * a copy has to have been seen for longer than any claim or extension counts votes that was sent before it was seen. That
//!   is told by its owner ([`Over::These`]), who has a clock;
//! * **all** masters show what they hold, and fewer than a quorum hold it: the lease was not granted, or is over since. Who
//!   is silent may hold it, too;
//! * copies of one attempt count together, whatever extended them, and what a master was given instead of all that it had
//!   forgotten may be any lease ([`Program::may_stand_for`]);
//! * a lock of somebody else, who counts votes by rules of his own, is left to its end ([`Program::is_over_in_time`]).
//!
//! It is removed by its name, along with the state that is adopted, under the ballot of the promises.

use super::Program;
use super::slot::Sight;
use crate::decision::quorum::Quorum;

/// What is taken for remains.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Over<P: Program> {
    /// These leases, if fewer than a quorum hold them. They have been seen for long enough.
    These(Vec<(P::Key, P::Lease)>),
    /// All, whoever holds them, or has held them: somebody has said so. What was accepted last counts then, whatever was
    /// taken over for it.
    All,
}

impl<P: Program> Default for Over<P> {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

impl<P: Program> Over<P> {
    /// The leases under each key that are over.
    pub(super) fn of(
        &self,
        quorum: Quorum,
        keys: &[P::Key],
        sights: &[&[Sight<P>]],
    ) -> Vec<Vec<P::Lease>> {
        let over = |(place, key): (usize, &P::Key)| match self {
            Self::All => shown(place, sights).chain(taken(place, sights)).cloned().collect(),
            Self::These(these) => {
                let mut leases = of_a_minority(quorum, place, sights);
                leases.retain(|lease| {
                    these.iter().any(|(other, seen)| other == key && seen == lease)
                });
                leases
            }
        };
        keys.iter().enumerate().map(over).collect()
    }

    /// What masters show, without what is over under each key.
    pub(super) fn without(
        &self,
        sights: &[&[Sight<P>]],
        over: &[Vec<P::Lease>],
    ) -> Vec<Vec<Sight<P>>> {
        let cleared = |sights: &&[Sight<P>]| {
            let mut sights = sights.to_vec();
            for (sight, over) in sights.iter_mut().zip(over) {
                sight.lease.take_if(|lease| over.contains(lease));
                if let (Self::All, Some(open)) = (self, &mut sight.state.open) {
                    (open.found, open.until_us) = (None, None);
                }
            }
            sights
        };
        sights.iter().map(cleared).collect()
    }
}

/// Leases that fewer than a quorum hold, with their keys; `None`: not all masters have shown theirs.
pub(super) fn minor<P: Program>(
    quorum: Quorum,
    keys: &[P::Key],
    sights: &[&[Sight<P>]],
) -> Option<Vec<(P::Key, P::Lease)>> {
    let of = |(place, key): (usize, &P::Key)| {
        let key = key.clone();
        of_a_minority(quorum, place, sights).into_iter().map(move |lease| (key.clone(), lease))
    };
    let are_all = sights.len() == quorum.masters();
    are_all.then(|| keys.iter().enumerate().flat_map(of).collect())
}

/// The leases of one key that fewer than a quorum of all masters hold, and of which it is known how long votes count.
fn of_a_minority<P: Program>(
    quorum: Quorum,
    place: usize,
    sights: &[&[Sight<P>]],
) -> Vec<P::Lease> {
    if sights.len() != quorum.masters() {
        return Vec::new();
    }
    let mut leases: Vec<P::Lease> = Vec::new();
    for lease in shown(place, sights) {
        let holds = |sights: &&&[Sight<P>]| may_hold(&sights[place], lease);
        let is_known = |sights: &&[Sight<P>]| P::is_over_in_time(lease, &sights[place].state.value);
        let is_minor = sights.iter().filter(holds).count() < quorum.needed();
        if is_minor && sights.iter().any(is_known) && !leases.contains(lease) {
            leases.push(lease.clone());
        }
    }
    leases
}

fn shown<'a, P: Program>(
    place: usize,
    sights: &'a [&[Sight<P>]],
) -> impl Iterator<Item = &'a P::Lease> {
    sights.iter().filter_map(move |sights| sights[place].lease.as_ref())
}

/// What programs have taken over that are not known to be decided.
fn taken<'a, P: Program>(
    place: usize,
    sights: &'a [&[Sight<P>]],
) -> impl Iterator<Item = &'a P::Lease> {
    let open = sights.iter().filter_map(move |sights| sights[place].state.open.as_ref());
    open.filter_map(|open| open.found.as_ref())
}

/// What a program has taken over that is not decided may stand there again.
fn may_hold<P: Program>(sight: &Sight<P>, lease: &P::Lease) -> bool {
    let found = sight.state.open.as_ref().and_then(|open| open.found.as_ref());
    sight.lease.iter().chain(found).any(|shown| P::may_stand_for(shown, lease))
}
