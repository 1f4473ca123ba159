//! Masters' answers in a round that begins with a look, and the resulting deletes sent to them.

use crate::decision::lease::attempt::Tag;
use crate::decision::lease::release::Vote;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::resp::answer::Answer;

/// Answer of our scripts that found no lease and changed nothing.
pub(super) const STAMPED: &[u8] = b"stamped";

/// The looks and the deletes of one release or deletion.
#[derive(Debug)]
pub(super) struct Shown {
    /// Masters that have answered the look, by round.
    looked: Vec<MasterSet>,
    /// Deletes sent, each with its round.
    deletes: Vec<(MasterId, u8, Tag)>,
}

impl Shown {
    /// Creates the record of a first round in which all masters but `looked` must show the key.
    pub(super) fn new(looked: MasterSet) -> Self {
        Self { looked: vec![looked], deletes: Vec::new() }
    }

    /// Begins another round with a look.
    pub(super) fn look_again(&mut self) {
        self.looked.push(MasterSet::EMPTY);
    }

    /// Whether no delete has been sent after a look.
    pub(super) fn is_untold(&self) -> bool {
        self.deletes.is_empty()
    }

    /// Whether this is the answer to the look of `round`, which precedes answers to deletes.
    pub(super) fn is_look(&mut self, master: MasterId, round: u8) -> bool {
        let Some(looked) = self.looked.get_mut(usize::from(round)) else { return false };
        let is_first = !looked.contains(master);
        looked.insert(master);
        is_first
    }

    /// Records deletes of `tags`, and returns the masters that still need the request. Those of `voters` that have not
    /// answered the look get the same request, so that no later request overtakes it there.
    pub(super) fn delete(
        &mut self,
        tags: impl IntoIterator<Item = (MasterId, Tag)>,
        round: u8,
        voters: MasterSet,
    ) -> MasterSet {
        let tags = tags.into_iter();
        let mut new: Vec<_> = tags.filter(|it| self.told(it.0, round) != Some(it.1)).collect();
        new.extend(self.early(&new, round, voters));
        let told = new.iter().map(|(master, _)| *master).collect();
        self.deletes.extend(new.into_iter().map(|(master, tag)| (master, round, tag)));
        told
    }

    fn early(
        &self,
        tags: &[(MasterId, Tag)],
        round: u8,
        voters: MasterSet,
    ) -> Vec<(MasterId, Tag)> {
        let Some((_, tag)) = tags.first() else { return Vec::new() };
        let looked = self.looked.last().copied().unwrap_or_default();
        let silent = voters.without(looked).iter();
        silent.filter(|to| self.told(*to, round).is_none()).map(|to| (to, *tag)).collect()
    }

    /// Returns the tag of the last delete sent to `master` in `round`.
    pub(super) fn told(&self, master: MasterId, round: u8) -> Option<Tag> {
        let mut deletes = self.deletes.iter().rev();
        deletes.find(|(to, of, _)| *to == master && *of == round).map(|(.., tag)| *tag)
    }
}

/// Converts the answer to a delete by [`Release`](crate::lua::canonical::Canonical::Release) or
/// [`Delete`](crate::lua::canonical::Canonical::Delete).
pub(super) fn vote(answer: Option<&Answer<'_>>) -> Vote {
    match answer {
        Some(Answer::Int(-1..)) => Vote::Deleted,
        Some(Answer::Int(-2)) => Vote::Missing,
        Some(Answer::Int(-3) | Answer::Simple(STAMPED)) => Vote::Other,
        Some(Answer::Int(-4)) => Vote::Raised,
        Some(Answer::Int(-5)) => Vote::Another,
        _ => Vote::Unknown,
    }
}

/// Returns the longer of two remaining TTLs; -1: no expiry.
pub(super) fn longer(one_ms: i64, other_ms: i64) -> i64 {
    if one_ms.min(other_ms) < 0 { -1 } else { one_ms.max(other_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::attempt::{Attempt, WorkerId};

    fn id(index: usize) -> MasterId {
        MasterId::new(index)
    }

    fn tag(counter: u64) -> Tag {
        Attempt::new(WorkerId::new(1), counter).fresh()
    }

    #[test]
    fn who_has_not_answered_the_look_is_told_at_once_and_once() {
        let (mut shown, all) = (Shown::new(MasterSet::EMPTY), MasterSet::first(3));
        assert!(shown.is_look(id(0), 0) && shown.is_look(id(1), 0));
        assert_eq!(shown.delete([(id(0), tag(7)), (id(1), tag(7))], 0, all), all);
        assert!(shown.is_look(id(2), 0) && !shown.is_look(id(2), 0));
        assert_eq!(shown.delete([(id(2), tag(7))], 0, all), MasterSet::EMPTY);
        assert_eq!(shown.delete([(id(2), tag(8))], 0, all), MasterSet::from_iter([id(2)]));
        assert_eq!(shown.told(id(2), 0), Some(tag(8)));
    }

    #[test]
    fn nothing_is_longer_than_for_ever() {
        assert_eq!([longer(0, 7), longer(0, -1), longer(-1, 7)], [7, -1, -1]);
    }

    #[test]
    fn each_round_has_looks_and_deletes_of_its_own() {
        let mut shown = Shown::new(MasterSet::first(3));
        assert!(!shown.is_look(id(0), 0), "it began with a delete");
        shown.look_again();
        assert!(shown.is_look(id(0), 1) && !shown.is_look(id(0), 2));
        shown.delete([(id(0), tag(7))], 1, MasterSet::first(1));
        assert_eq!((shown.told(id(0), 0), shown.told(id(0), 1)), (None, Some(tag(7))));
    }
}
