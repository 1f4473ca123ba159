//! Choice of what to give, under one key, to a master that has forgotten, from what the others hold.
//!
//! A decided state was held by a quorum. Each source in that quorum still shows it. The others (masters that were not
//! read, and the one that has forgotten) may have been part of the quorum. So a state may have been decided exactly if
//! its holders among the sources, together with all masters that were not read, make a quorum. A state with fewer
//! holders is certainly left over from something that was never decided, or that was released. Copying must not give it
//! a quorum. A master that is given the state counts once: it was among those that were not read.
//!
//! A state that is known to be over does not count at all. An attempt is noted as over when its release or deletion has
//! succeeded. By then so few masters could hold it that it was never granted again, and no two attempts have the same
//! name. So the note stays true, whoever reads it and whatever the attempt's generation on a master that missed the
//! end. The masters that answered receive the note, a quorum of them, and any set of sources includes one of a quorum.

use std::collections::HashSet;

use crate::decision::lease::attempt::{Attempt, Stored, Tag};
use crate::decision::quorum::Quorum;

/// One source's state of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Content of the key.
    pub content: KeyContent,
    /// Milliseconds until it ends; `None` if it never does.
    pub ttl_ms: Option<u64>,
}

/// Content of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyContent {
    /// A complete string.
    Text(Vec<u8>),
    /// The digest of a longer string.
    LongText(Vec<u8>),
    /// The digest of any other value.
    Other(Vec<u8>),
}

/// Choice for the key on the master that has forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Nothing: no quorum can have held it.
    Nothing,
    /// The state of this source, with this TTL.
    Take {
        /// Index among the sources.
        source: usize,
        /// Longest end that any of the sources has for it.
        ttl_ms: Option<u64>,
    },
    /// A value that nobody holds, with this TTL: more than one client may believe that it holds the key.
    Nobody {
        /// Longest end that any of the sources has.
        ttl_ms: Option<u64>,
    },
}

/// Chooses what to give to the master, where `held` is what each of the sources holds.
pub fn choose(quorum: Quorum, held: &[Option<Held>]) -> Choice {
    let unread = quorum.masters().saturating_sub(held.len());
    let mut states = states(held);
    states.retain(|state| state.holders.len() + unread >= quorum.needed());
    let all = || states.iter().flat_map(|state| &state.holders);
    match &states[..] {
        [] => Choice::Nothing,
        [state] => take(held, state),
        _ if are_claims(held, &states) => Choice::Nobody { ttl_ms: longest(held, all()) },
        _ => states
            .iter()
            .rev()
            .max_by_key(|state| state.rank(held))
            .map_or(Choice::Nothing, |state| take(held, state)),
    }
}

/// Chooses again for a master that was given everything before, and holds `here` now. Lease commands have reached it
/// since. A lock that it no longer holds has ended, and one that replaced what it was given was decided without that.
/// Such a lock may end while this is decided, and a value written after its release would stay.
pub fn choose_again(choice: Choice, held: &[Option<Held>], here: Option<&KeyContent>) -> Choice {
    let Some(here) = here else { return Choice::Nothing };
    let is_somebodys = here.tag().is_some_and(|tag| !tag.attempt.is_nobodys());
    let is_the_same =
        |source: usize| held[source].as_ref().is_some_and(|held| held.content.is_same_state(here));
    match choice {
        Choice::Take { source, .. } if is_somebodys && !is_the_same(source) => Choice::Nothing,
        choice => choice,
    }
}

/// Removes what is left of attempts that are over.
pub fn living(mut held: Vec<Option<Held>>, over: &HashSet<Attempt>) -> Vec<Option<Held>> {
    let is_over = |here: &mut Held| here.content.tag().is_some_and(|it| over.contains(&it.attempt));
    held.iter_mut().for_each(|here| _ = here.take_if(is_over));
    held
}

/// Drops states that changed between looks at the sources, where `before` are earlier looks. Leftovers of a refused
/// claim are taken back, and others replace it, while a lock stays until its end.
pub fn steady(held: &[Option<Held>], before: &[Vec<Option<KeyContent>>]) -> Vec<Option<Held>> {
    let stayed = |(at, here): (usize, &Option<Held>)| {
        let here = here.as_ref()?;
        let is_same = |look: &Vec<Option<KeyContent>>| {
            let then = look.get(at).and_then(Option::as_ref);
            then.is_some_and(|then| then.is_same_state(&here.content))
        };
        before.iter().all(is_same).then(|| here.clone())
    };
    held.iter().enumerate().map(stayed).collect()
}

/// Sources that hold the same state.
pub(super) struct State {
    /// Their indices.
    pub(super) holders: Vec<usize>,
}

impl State {
    /// Ranks a state without an end first, then the one that ends last, then the one that more sources hold.
    fn rank(&self, held: &[Option<Held>]) -> (u64, usize) {
        (longest(held, &self.holders).unwrap_or(u64::MAX), self.holders.len())
    }
}

/// Groups the sources by what they hold.
pub(super) fn states(held: &[Option<Held>]) -> Vec<State> {
    let mut states: Vec<State> = Vec::new();
    for (at, here) in held.iter().enumerate().filter_map(|(at, here)| Some((at, here.as_ref()?))) {
        let is_same = |state: &&mut State| {
            let first = held[state.holders[0]].as_ref();
            first.is_some_and(|first| first.content.is_same_state(&here.content))
        };
        match states.iter_mut().find(is_same) {
            Some(state) => state.holders.push(at),
            None => states.push(State { holders: vec![at] }),
        }
    }
    states
}

/// Whether two of these may be the claims of two holders: values with an end, a hash as well as a text, or with a tag.
/// Everything else is data.
fn are_claims(held: &[Option<Held>], states: &[State]) -> bool {
    let is_claim = |state: &State| {
        let first = held[state.holders[0]].as_ref();
        first.is_some_and(|first| match &first.content {
            KeyContent::Text(value) => {
                Stored::decode(value).tag.is_some() || first.ttl_ms.is_some()
            }
            KeyContent::LongText(_) | KeyContent::Other(_) => first.ttl_ms.is_some(),
        })
    };
    states.iter().any(is_claim)
}

fn take(held: &[Option<Held>], state: &State) -> Choice {
    let generation = |at: &usize| held[*at].as_ref().and_then(|here| here.content.tag());
    let newest = state.holders.iter().rev().max_by_key(|at| generation(at).map(|it| it.generation));
    let Some(source) = newest.copied() else { return Choice::Nothing };
    Choice::Take { source, ttl_ms: longest(held, &state.holders) }
}

fn longest<'a>(held: &[Option<Held>], holders: impl IntoIterator<Item = &'a usize>) -> Option<u64> {
    let ends = holders.into_iter().filter_map(|at| held[*at].as_ref()).map(|here| here.ttl_ms);
    // A value without an end outlasts all others.
    ends.max_by_key(|ttl_ms| ttl_ms.unwrap_or(u64::MAX)).flatten()
}

impl KeyContent {
    /// Whether both are states of the same attempt, or the same value.
    pub fn is_same_state(&self, other: &Self) -> bool {
        match (self.tag(), other.tag()) {
            (Some(tag), Some(other)) => tag.attempt == other.attempt,
            _ => self == other,
        }
    }

    fn tag(&self) -> Option<Tag> {
        match self {
            Self::Text(value) => Stored::decode(value).tag,
            Self::LongText(_) | Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::attempt::{Attempt, WorkerId, encode};

    fn text(value: &str, ttl_ms: Option<u64>) -> Option<Held> {
        Some(Held { content: KeyContent::Text(value.into()), ttl_ms })
    }

    fn lease(counter: u64, raised: u8, ttl_ms: u64) -> Option<Held> {
        let fresh = Attempt::new(WorkerId::new(7), counter).fresh();
        let tag = (0..raised).fold(fresh, |tag, _| tag.raised());
        Some(Held { content: KeyContent::Text(encode(tag, b"token")), ttl_ms: Some(ttl_ms) })
    }

    fn other(digest: &str, ttl_ms: Option<u64>) -> Option<Held> {
        Some(Held { content: KeyContent::Other(digest.into()), ttl_ms })
    }

    fn of_three(held: &[Option<Held>]) -> Choice {
        choose(Quorum::of(3), held)
    }

    #[test]
    fn one_attempt_is_copied_with_its_highest_generation_and_longest_end() {
        let choice = of_three(&[lease(1, 0, 900), lease(1, 2, 500)]);
        assert_eq!(choice, Choice::Take { source: 1, ttl_ms: Some(900) });
    }

    #[test]
    fn two_attempts_are_nobodys() {
        let choice = of_three(&[lease(1, 0, 300), lease(2, 0, 800)]);
        assert_eq!(choice, Choice::Nobody { ttl_ms: Some(800) });
        let choice = of_three(&[text("old", Some(9)), text("other", None)]);
        assert_eq!(choice, Choice::Nobody { ttl_ms: None });
        let choice = of_three(&[other("a hash", Some(5)), other("another", Some(7))]);
        assert_eq!(choice, Choice::Nobody { ttl_ms: Some(7) });
    }

    #[test]
    fn what_comes_and_goes_is_no_lock() {
        let content = |held: &Option<Held>| held.as_ref().map(|held| held.content.clone());
        let looks = [[lease(1, 0, 900), lease(2, 0, 990)], [lease(1, 1, 800), None]];
        let looks: Vec<Vec<_>> =
            looks.iter().map(|look| look.iter().map(content).collect()).collect();
        let now = [lease(1, 1, 700), lease(3, 0, 980)];
        assert!(matches!(of_three(&now), Choice::Nobody { .. }));
        let choice = of_three(&steady(&now, &looks));
        assert_eq!(choice, Choice::Take { source: 0, ttl_ms: Some(700) });
    }

    #[test]
    fn data_that_differs_never_stops_copying() {
        let take = |source, ttl_ms| Choice::Take { source, ttl_ms };
        assert_eq!(of_three(&[other("a", None), other("b", None)]), take(0, None));
        assert_eq!(of_three(&[text("5", None), text("6", None)]), take(0, None));
        let four = [text("5", None), text("6", None), text("6", None), None];
        assert_eq!(choose(Quorum::of(5), &four), take(1, None));
    }

    #[test]
    fn what_too_few_hold_is_not_raised_from_the_dead() {
        let none = || None::<Held>;
        let rest = [lease(1, 0, 900), none(), none(), none()];
        assert_eq!(choose(Quorum::of(5), &rest), Choice::Nothing);
        let two = [lease(1, 0, 900), lease(1, 0, 900), none(), lease(2, 0, 999)];
        assert_eq!(choose(Quorum::of(5), &two), Choice::Take { source: 0, ttl_ms: Some(900) });
        // Of three, the master that forgot may have been the second holder.
        let one = [lease(1, 0, 900), none()];
        assert_eq!(of_three(&one), Choice::Take { source: 0, ttl_ms: Some(900) });
    }

    #[test]
    fn what_has_ended_since_it_was_given_does_not_come_back() {
        let held = [lease(1, 0, 900), None];
        let again = |here: Option<Held>| {
            let here = here.map(|here| here.content);
            choose_again(of_three(&held), &held, here.as_ref())
        };
        assert_eq!(again(None), Choice::Nothing);
        assert_eq!(again(lease(2, 0, 500)), Choice::Nothing);
        let take = Choice::Take { source: 0, ttl_ms: Some(900) };
        assert_eq!(again(lease(1, 1, 500)), take);
        let nobodys = encode(Attempt::of_nobody(1).fresh(), b"token");
        let nobodys = Held { content: KeyContent::Text(nobodys), ttl_ms: Some(500) };
        assert_eq!(again(Some(nobodys)), take);
        assert_eq!(again(text("data", None)), take);
    }

    fn over(counters: &[u64]) -> HashSet<Attempt> {
        counters.iter().map(|counter| Attempt::new(WorkerId::new(7), *counter)).collect()
    }

    #[test]
    fn the_rest_of_what_is_over_is_nothing_whatever_its_generation() {
        let held = vec![None, lease(1, 2, 900)];
        assert_eq!(of_three(&living(held.clone(), &over(&[1]))), Choice::Nothing);
        assert_eq!(living(held.clone(), &over(&[2])), held);
    }

    #[test]
    fn what_is_over_does_not_dispute_a_lock() {
        let held = living(vec![lease(1, 0, 900), lease(2, 0, 300)], &over(&[1]));
        assert_eq!(of_three(&held), Choice::Take { source: 1, ttl_ms: Some(300) });
    }

    /// A token that looks the same has no name, and neither has a value that is no lease.
    #[test]
    fn what_has_no_tag_is_never_over() {
        let held = vec![text("token", None), other("a hash", Some(9))];
        assert_eq!(living(held.clone(), &over(&[0, 1, 2])), held);
    }

    /// Everything that a quorum may hold, including the master that forgot, and everything that others may hold by
    /// then.
    #[test]
    fn whatever_was_decided_is_copied_or_blocked() {
        for masters in 1..=5usize {
            let quorum = Quorum::of(masters);
            let others = masters - 1;
            // State of each of the others: nothing, the decided attempt, or another one.
            for code in 0..3usize.pow(others as u32) {
                let holds: Vec<_> =
                    (0..others).map(|at| code / 3usize.pow(at as u32) % 3).collect();
                let holders = 1 + holds.iter().filter(|held| **held == 1).count();
                if holders < quorum.needed() {
                    continue;
                }
                assert_read(quorum, &holds);
            }
        }
    }

    fn assert_read(quorum: Quorum, holds: &[usize]) {
        for read in 0..1u32 << holds.len() {
            let sources: Vec<_> = (0..holds.len()).filter(|at| read & (1 << at) != 0).collect();
            if sources.len() < quorum.tolerates() + 1 {
                continue;
            }
            let here =
                |at: &usize| (holds[*at] > 0).then(|| lease(holds[*at] as u64, 0, 9)).flatten();
            let held: Vec<_> = sources.iter().map(here).collect();
            match choose(quorum, &held) {
                Choice::Take { source, .. } => assert_eq!(holds[sources[source]], 1, "{holds:?}"),
                Choice::Nobody { .. } => {}
                Choice::Nothing => panic!("{holds:?} read by {sources:?}"),
            }
        }
    }
}
