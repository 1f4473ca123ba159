//! Whether the members that stay hold enough for another one to leave.
//!
//! With fewer seats a smaller quorum decides, and what was decided before must be found by it: see
//! [`seating`](super::seating). Under each key, the members that stay and, if it can be read, the one that leaves are
//! looked at. A state that may have been decided must be held by `seats - quorum + 1` of those that stay, as the seats
//! will be. A register that is not is settled. A lock is not given to members that vote: it ends, or is extended by a
//! quorum of the present seats, and such a quorum includes enough of those that stay.

use super::admission::sources_needed;
use super::copying::{Held, states};
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// Whether a key is level, before the number of seats falls from that of `before` to that of `after`. `looks` are what
/// each member that was read holds. Those that `stay` must all have been read.
pub fn is_level(
    before: Quorum,
    after: Quorum,
    stay: MasterSet,
    looks: &[(MasterId, Option<Held>)],
) -> bool {
    let held: Vec<_> = looks.iter().map(|(_, held)| held.clone()).collect();
    let unread = before.masters().saturating_sub(looks.len());
    states(&held).iter().all(|state| {
        let staying = state.holders.iter().filter(|at| stay.contains(looks[**at].0)).count();
        let may_be_decided = state.holders.len() + unread >= before.needed();
        !may_be_decided || staying >= sources_needed(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::roster::copying::KeyContent;

    const NOBODY: &str = "";

    /// Whether four members are level, of which the last leaves. Each holds this value; `None` was not read.
    fn are_level(held: [Option<&str>; 4]) -> bool {
        let look = |(at, held): (usize, Option<&str>)| {
            let content = |value: &str| KeyContent::Text(value.into());
            let held = held?;
            let here = (held != NOBODY).then(|| Held { content: content(held), ttl_ms: Some(9) });
            Some((MasterId::new(at), here))
        };
        let looks: Vec<_> = held.into_iter().enumerate().filter_map(look).collect();
        is_level(Quorum::of(5), Quorum::of(3), MasterSet::first(3), &looks)
    }

    #[test]
    fn a_state_that_two_of_three_hold_is_level() {
        assert!(are_level([Some("a"), Some("a"), Some(NOBODY), Some("a")]));
        assert!(are_level([Some(NOBODY); 4]));
    }

    #[test]
    fn a_state_that_one_of_three_holds_beside_the_leaver_is_not() {
        assert!(!are_level([Some("a"), Some(NOBODY), Some(NOBODY), Some("a")]));
        assert!(!are_level([Some("a"), Some("b"), Some("b"), Some("a")]));
    }

    #[test]
    fn a_state_that_only_the_leaver_holds_was_never_decided() {
        assert!(are_level([Some(NOBODY), Some(NOBODY), Some(NOBODY), Some("a")]));
    }

    #[test]
    fn a_leaver_that_cannot_be_read_may_hold_what_one_other_holds() {
        assert!(!are_level([Some("a"), Some(NOBODY), Some(NOBODY), None]));
        assert!(are_level([Some("a"), Some("a"), Some(NOBODY), None]));
    }
}
