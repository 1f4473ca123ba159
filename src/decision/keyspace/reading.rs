//! Reading keys without a promise: the answer is what a quorum shows, if that is certainly decided.
//!
//! Each master shows its stamps and its values at one moment of its own. Nothing is promised, so nothing is written.
//!
//! * **A quorum shows registers accepted under equal ballots,** all present and living, or absent without a lease: they
//!   are decided, as equal ballots mean equal states. Anything decided before the read began has a master of the quorum
//!   in common with the answer, and stamps never go back.
//! * **Several keys** that quorums show need not have been so at one moment. One may have been overwritten before
//!   another was written, and readers of single keys may see that. So they are read twice ([`Moment`]).
//! * **Living** depends on the reader's time and on the master's promise: a promise also guarantees that nothing is
//!   decided at an earlier time. An earlier reader that found the register ended left a promise with one master of the
//!   quorum, or a state that was accepted since.
//! * **Ended** is certain only for a state that was accepted after its end ([`Standing::Absent`]). A program that
//!   removed the end may still wait on another master to be adopted. So the first reader settles, which has the end
//!   accepted.
//! * **A lease** counts next to registers that are absent under equal ballots, or were never accepted: then no program
//!   has taken it over. Masters that show another register may have had that lease; they count as silent.
//! * **A stamp on some, none on a quorum:** either no client has received its outcome yet, or it is left over from a
//!   tombstone that all masters had. The quorum without it answers.
//! * **Everything else is settled.** This covers differing ballots without a quorum among them (the newest may be
//!   decided or not), and a lost value. It also covers a lease next to a register that lives or has ended since it was
//!   accepted.

mod moment;

use super::Program;
use super::slot::Sight;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::register::ballot::Ballot;
pub use moment::Moment;

/// One master's view of a key, for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing<L> {
    /// The register exists and lives.
    There,
    /// No register exists, whatever clocks show. The key may hold a lease.
    Absent(Option<L>),
    /// The state is known only after settling.
    Unclear,
}

impl<P: Program> Sight<P> {
    /// Returns the standing that a master with this promise shows to a reader at `now_us`.
    pub fn standing(&self, promised: Ballot, now_us: u64) -> Standing<P::Lease> {
        let Self { state, is_gone, lease, .. } = self;
        let now_us = now_us.max(promised.counter);
        match () {
            () if P::lives(&state.value, now_us) => match (is_gone, lease) {
                (false, None) => Standing::There,
                _ => Standing::Unclear,
            },
            () if P::lives(&state.value, state.accepted.counter) => Standing::Unclear,
            () => Standing::Absent(lease.clone()),
        }
    }
}

/// One master's view of all keys of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View<R, L> {
    /// Registers that live or are absent, without a lease: accepted under these ballots.
    Plain(R),
    /// A lease next to an absent register.
    Lease(R, L),
    /// The state is known only after settling.
    Unclear,
}

/// State of the keys across all masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These masters show registers that are decided.
    Plain(MasterSet),
    /// These masters show a lease that a quorum holds.
    Lease(MasterSet),
    /// Different leases, none with a quorum: some are on their way or were given up. If it stays like that, there is no
    /// lease for clients.
    Contested,
    /// A lease might have a quorum, but the masters that would decide it are silent.
    Undecided,
    /// A round with promises is necessary.
    Settle,
    /// Too few masters have answered.
    TooFew,
}

/// Answers to one read.
#[derive(Clone, Debug)]
pub struct Reading<R, L> {
    quorum: Quorum,
    pending: MasterSet,
    views: Vec<(MasterId, View<R, L>)>,
}

impl<R: PartialEq, L: PartialEq> Reading<R, L> {
    /// Creates a read that was just sent to `asked`.
    pub fn new(quorum: Quorum, asked: MasterSet) -> Self {
        Self { quorum, pending: asked, views: Vec::new() }
    }

    /// Records the answer of `master`; `None` if its answer does not count.
    pub fn answer(&mut self, master: MasterId, view: Option<View<R, L>>) -> Option<Verdict> {
        if self.pending.contains(master) {
            self.pending.remove(master);
            self.views.extend(view.map(|view| (master, view)));
        }
        self.verdict()
    }

    /// Returns the verdict so far; `None` if it depends on further answers.
    pub fn verdict(&self) -> Option<Verdict> {
        self.agreed().or_else(|| self.pending.is_empty().then(|| self.without_the_silent()))
    }

    /// Returns the verdict for the case that no other master answers.
    pub fn without_the_silent(&self) -> Verdict {
        match self.agreed() {
            Some(agreed) => agreed,
            None if self.answered() < self.quorum.needed() => Verdict::TooFew,
            None if !self.is_about_leases() => Verdict::Settle,
            None if self.may_be_held() => Verdict::Undecided,
            None => Verdict::Contested,
        }
    }

    /// Returns the registers that a master shows.
    pub fn shown_by(&self, master: MasterId) -> Option<&R> {
        let view = self.views.iter().find(|(other, _)| *other == master);
        view.and_then(|(_, view)| view.registers())
    }

    /// Returns the number of masters that answered.
    pub fn answered(&self) -> usize {
        self.views.len()
    }

    /// Whether no further answer is expected.
    pub fn is_complete(&self) -> bool {
        self.pending.is_empty()
    }

    fn agreed(&self) -> Option<Verdict> {
        self.views.iter().find_map(|(_, view)| {
            let alike = self.alike(view);
            match view {
                _ if !self.quorum.reached_by(alike) => None,
                View::Plain(_) => Some(Verdict::Plain(alike)),
                View::Lease(..) => Some(Verdict::Lease(alike)),
                View::Unclear => None,
            }
        })
    }

    fn alike(&self, view: &View<R, L>) -> MasterSet {
        let alike = self.views.iter().filter(|(_, other)| other == view);
        alike.map(|(master, _)| *master).collect()
    }

    /// Whether all answers show the same registers, so that only their leases differ.
    fn is_about_leases(&self) -> bool {
        let Some(first) = self.views.first().and_then(|(_, view)| view.registers()) else {
            return false;
        };
        self.views.iter().all(|(_, view)| view.registers() == Some(first))
    }

    /// Whether a lease has a quorum if all silent masters hold it.
    fn may_be_held(&self) -> bool {
        let leases = self.views.iter().filter(|(_, view)| matches!(view, View::Lease(..)));
        let most = leases.map(|(_, view)| self.alike(view).len()).max().unwrap_or(0);
        most + self.quorum.masters() - self.answered() >= self.quorum.needed()
    }
}

impl<R, L> View<R, L> {
    fn registers(&self) -> Option<&R> {
        match self {
            Self::Plain(registers) | Self::Lease(registers, _) => Some(registers),
            Self::Unclear => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Shown = View<u8, u8>;

    fn reading(masters: usize, views: &[Option<Shown>]) -> Reading<u8, u8> {
        let quorum = Quorum::of(masters);
        let mut reading = Reading::new(quorum, quorum.everybody());
        for (at, view) in views.iter().enumerate() {
            reading.answer(MasterId::new(at), view.clone());
        }
        reading
    }

    fn verdict(views: &[Option<Shown>]) -> Verdict {
        reading(3, views).without_the_silent()
    }

    const NONE: Option<Shown> = Some(View::Plain(0));

    #[test]
    fn a_quorum_of_equal_ballots_is_the_answer_and_others_are_not_waited_for() {
        let two = reading(3, &[Some(View::Plain(1)), Some(View::Plain(1))]);
        let masters = MasterSet::from_iter([MasterId::new(0), MasterId::new(1)]);
        assert_eq!(two.verdict(), Some(Verdict::Plain(masters)));
    }

    #[test]
    fn ballots_that_differ_are_waited_for_and_settled() {
        let two = [Some(View::Plain(1)), Some(View::Plain(2))];
        assert_eq!(reading(3, &two).verdict(), None);
        assert_eq!(verdict(&two), Verdict::Settle);
        assert_eq!(verdict(&[NONE, Some(View::Plain(2))]), Verdict::Settle);
        assert_eq!(
            verdict(&[NONE, NONE, Some(View::Plain(2))]),
            Verdict::Plain(MasterSet::first(2))
        );
    }

    #[test]
    fn what_is_unclear_never_agrees() {
        assert_eq!(verdict(&[Some(View::Unclear), Some(View::Unclear)]), Verdict::Settle);
        assert_eq!(verdict(&[Some(View::Unclear), NONE]), Verdict::Settle);
    }

    #[test]
    fn leases_are_counted_beside_equal_registers() {
        let lease = |lease| Some(View::Lease(0, lease));
        assert_eq!(verdict(&[lease(7), lease(7)]), Verdict::Lease(MasterSet::first(2)));
        assert_eq!(verdict(&[lease(7), NONE]), Verdict::Undecided);
        assert_eq!(verdict(&[lease(7), lease(8), NONE]), Verdict::Contested);
        assert_eq!(
            verdict(&[lease(7), NONE, NONE]),
            Verdict::Plain([1, 2].map(MasterId::new).into_iter().collect())
        );
    }

    /// A program may have taken over a lease that another master still shows.
    #[test]
    fn a_lease_beside_another_register_is_settled() {
        let of = |register| Some(View::Lease(register, 7));
        assert_eq!(verdict(&[of(0), NONE, Some(View::Plain(1))]), Verdict::Settle);
        assert_eq!(verdict(&[of(0), of(1)]), Verdict::Settle);
    }

    #[test]
    fn too_few_answers_are_none() {
        assert_eq!(verdict(&[NONE, None, None]), Verdict::TooFew);
    }

    fn views() -> impl Strategy<Value = Vec<Option<Shown>>> {
        let view = prop_oneof![
            (0u8..3).prop_map(View::Plain),
            (0u8..2, 0u8..3).prop_map(|(register, lease)| View::Lease(register, lease)),
            Just(View::Unclear),
        ];
        proptest::collection::vec(proptest::option::of(view), 5)
    }

    proptest! {
        /// Two quorums cannot show different states, so the order of answers does not matter.
        #[test]
        fn an_early_verdict_is_the_last_one(views in views()) {
            let last = reading(5, &views).without_the_silent();
            for upto in 0..views.len() {
                let early = reading(5, &views[..upto]).verdict();
                match (early, last) {
                    (None, _) => {}
                    (Some(Verdict::Plain(a)), Verdict::Plain(b))
                    | (Some(Verdict::Lease(a)), Verdict::Lease(b)) => prop_assert!(a.without(b).is_empty()),
                    (early, last) => prop_assert!(false, "{:?} became {:?}", early, last),
                }
            }
        }

        /// A lease that may have a quorum with the silent masters is never denied.
        #[test]
        fn no_lease_is_denied_that_the_silent_may_hold(views in views()) {
            let quorum = Quorum::of(5);
            let silent = views.iter().filter(|view| view.is_none()).count();
            let denied = matches!(reading(5, &views).without_the_silent(), Verdict::Contested);
            for lease in 0..3 {
                let holders = views.iter().flatten().filter(|it| matches!(it, View::Lease(_, it) if *it == lease));
                prop_assert!(!denied || holders.count() + silent < quorum.needed());
            }
        }
    }
}
