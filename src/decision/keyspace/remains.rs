//! Remains of leases that no quorum holds.
//!
//! A claim that was given up takes its copies back, and copies that it cannot reach expire by themselves. Until then
//! such a copy keeps its master from adopting a register, and several of them keep a key from being read at all. A
//! person may also have written a string by hand, or deleted the stamp next to one, and such a value may have no end.
//!
//! A copy on fewer than a quorum proves nothing: the claim may have counted it, while its other votes are still on
//! their way. If the copy were removed and the claim then granted with it, two clients would hold one lock. But votes
//! count for a short time only. So:
//!
//! * a copy must first have been seen so long ago that no claim or extension sent before then still counts votes. The
//!   owner, which has a clock, decides this ([`Over::These`]);
//! * **all** masters show what they hold, and fewer than a quorum hold it: the lease was not granted, or is over since.
//!   A silent master may hold it, too;
//! * copies of one attempt count together, whatever extended them. A value given to a master in place of all that it
//!   forgot may be any lease ([`Program::may_stand_for`]);
//! * a lock of another system, which counts votes by its own rules, is left to its end ([`Program::is_over_in_time`]).
//!
//! It is removed by its name, along with the state that is adopted, under the ballot of the promises.

use super::Program;
use super::slot::Sight;
use crate::decision::quorum::Quorum;

/// Leases to treat as remains.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Over<P: Program> {
    /// These leases, if fewer than a quorum hold them. They have been seen for long enough.
    These(Vec<(P::Key, P::Lease)>),
    /// All leases, whoever holds or held them, at an operator's request. Then the last accepted state counts, whatever
    /// lease it took over.
    All,
}

impl<P: Program> Default for Over<P> {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

impl<P: Program> Over<P> {
    /// Returns the leases under each key that are over.
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

    /// Returns the masters' sights without the leases that are over.
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

/// Returns leases that fewer than a quorum hold, with their keys; `None` unless all masters have shown theirs.
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

/// Returns the leases of one key that fewer than a quorum of all masters hold, and whose votes count for a known time.
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

/// Returns leases taken over by programs that are not known to be decided.
fn taken<'a, P: Program>(
    place: usize,
    sights: &'a [&[Sight<P>]],
) -> impl Iterator<Item = &'a P::Lease> {
    let open = sights.iter().filter_map(move |sights| sights[place].state.open.as_ref());
    open.filter_map(|open| open.found.as_ref())
}

/// A lease taken over by an undecided program may come back.
fn may_hold<P: Program>(sight: &Sight<P>, lease: &P::Lease) -> bool {
    let found = sight.state.open.as_ref().and_then(|open| open.found.as_ref());
    sight.lease.iter().chain(found).any(|shown| P::may_stand_for(shown, lease))
}
