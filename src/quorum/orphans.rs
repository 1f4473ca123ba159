//! Values that nobody holds and that never end: what a claim without TTL leaves behind when its proxy dies
//! between the first master that made it persistent and the rollback.

use std::collections::HashMap;

use super::{MasterId, MasterSet, Quorum};

/// What one master holds under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// No such key, or another type: locks of other types are taken by scripts, which are taken back whole.
    Other,
    /// A string.
    String {
        /// Its value.
        value: Vec<u8>,
        /// It has no TTL.
        for_ever: bool,
    },
}

/// The masters, in the order of the list, whose string without TTL is held by fewer than a quorum. Equal values
/// count together whatever their TTL: a claim that is being made persistent has both.
pub fn orphans(quorum: Quorum, held: &[Held]) -> MasterSet {
    let mut holders: HashMap<&[u8], MasterSet> = HashMap::new();
    let mut for_ever = MasterSet::EMPTY;
    for (index, held) in held.iter().enumerate() {
        let Held::String { value, for_ever: stays } = held else { continue };
        holders.entry(value).or_default().insert(MasterId::new(index));
        if *stays {
            for_ever.insert(MasterId::new(index));
        }
    }
    let minorities = holders.into_values().filter(|holders| !quorum.reached_by(*holders));
    minorities.fold(MasterSet::EMPTY, |all, holders| all.union(holders.and(for_ever)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masters(words: &[&str]) -> Vec<Held> {
        let held = |word: &&str| match *word {
            "" => Held::Other,
            word => Held::String {
                value: word.trim_end_matches('~').into(),
                for_ever: !word.ends_with('~'),
            },
        };
        words.iter().map(held).collect()
    }

    fn found(words: &[&str]) -> Vec<usize> {
        let held = masters(words);
        orphans(Quorum::of(words.len()), &held).iter().map(MasterId::index).collect()
    }

    #[test]
    fn what_one_of_three_keeps_for_ever_is_an_orphan() {
        assert_eq!(found(&["a", "", ""]), [0]);
        assert_eq!(found(&["b", "a", "b"]), [1]);
        assert_eq!(found(&["a", "b", "c"]), [0, 1, 2]);
    }

    #[test]
    fn what_ends_by_itself_is_left_alone() {
        assert_eq!(found(&["a~", "", ""]), [0; 0]);
        assert_eq!(found(&["a~", "b", ""]), [1]);
    }

    #[test]
    fn a_lock_that_is_being_made_persistent_is_nobodys_orphan() {
        assert_eq!(found(&["a", "a~", ""]), [0; 0]);
    }

    #[test]
    fn half_of_an_even_number_is_a_minority() {
        assert_eq!(found(&["a", "a", "", ""]), [0, 1]);
        assert_eq!(found(&["a", "a", "a", ""]), [0; 0]);
    }

    proptest! {
        /// What a quorum holds is never touched, and nothing is left that lasts for ever on a minority.
        #[test]
        fn all_but_what_a_quorum_holds(words in proptest::collection::vec("[ab]?~?", 1..6)) {
            let words: Vec<&str> = words.iter().map(|word| if word == "~" { "" } else { word }).collect();
            let (quorum, held) = (Quorum::of(words.len()), masters(&words));
            let orphans = orphans(quorum, &held);
            for (index, one) in held.iter().enumerate() {
                let Held::String { value, for_ever } = one else { continue };
                let is_same = |other: &&Held| matches!(other, Held::String { value: theirs, .. } if theirs == value);
                let held_by_quorum = held.iter().filter(is_same).count() >= quorum.needed();
                prop_assert_eq!(orphans.contains(MasterId::new(index)), *for_ever && !held_by_quorum);
            }
        }
    }
}
