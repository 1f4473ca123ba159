//! Values that nobody holds and that never end: what a claim without TTL leaves behind when its proxy dies
//! between the first master that made it persistent and the rollback.

use super::{MasterId, MasterSet, Quorum};

/// What one master holds under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// No such key, or another type: locks of other types are taken by scripts, which are taken back whole.
    Other,
    /// What a master that has forgotten was given because more than one of the others may hold a lock: each is kept.
    Nobodys,
    /// A string.
    String {
        /// The attempt that has left it there, if that is told.
        attempt: Option<Vec<u8>>,
        /// Its value.
        value: Vec<u8>,
        /// It has no TTL.
        for_ever: bool,
    },
}

/// The masters, in the order of the list, whose string without TTL is held by fewer than a quorum. Equal strings
/// count together whatever their TTL: a claim that is being made persistent has both.
pub fn orphans(quorum: Quorum, held: &[Held]) -> MasterSet {
    if held.contains(&Held::Nobodys) {
        return MasterSet::EMPTY;
    }
    let masters = || held.iter().enumerate().map(|(index, held)| (MasterId::new(index), held));
    let holders = |one: &Held| -> MasterSet {
        masters().filter(|(_, other)| one.is_same(other)).map(|(master, _)| master).collect()
    };
    let is_orphan = |(_, one): &(_, &Held)| one.is_for_ever() && !quorum.reached_by(holders(one));
    masters().filter(is_orphan).map(|(master, _)| master).collect()
}

impl Held {
    fn is_for_ever(&self) -> bool {
        matches!(self, Self::String { for_ever: true, .. })
    }

    /// Whether both are what one attempt has left, whatever they say. What has no attempt may be anybody's.
    fn is_same(&self, other: &Self) -> bool {
        let (Self::String { attempt, value, .. }, Self::String { attempt: its, value: theirs, .. }) =
            (self, other)
        else {
            return false;
        };
        match (attempt, its) {
            (Some(attempt), Some(its)) => attempt == its,
            _ => value == theirs,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `attempt:value~` for a value with an end, where the attempt is not always told.
    fn masters(words: &[&str]) -> Vec<Held> {
        let held = |word: &&str| match *word {
            "" => Held::Other,
            "nobody" => Held::Nobodys,
            word => {
                let (attempt, value) =
                    word.split_once(':').map_or((None, word), |(it, value)| (Some(it), value));
                Held::String {
                    attempt: attempt.map(Into::into),
                    value: value.trim_end_matches('~').into(),
                    for_ever: !word.ends_with('~'),
                }
            }
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
    fn equal_values_of_two_attempts_are_two_values() {
        assert_eq!(found(&["old:1", "new:1", "new:1"]), [0]);
        assert_eq!(found(&["old:1", "new:1", ""]), [0, 1]);
    }

    /// A version before has taken the tag off on some masters only.
    #[test]
    fn a_value_without_its_attempt_is_that_of_any() {
        assert_eq!(found(&["a:1", "1", ""]), [0; 0]);
        assert_eq!(found(&["a:1", "1", "1"]), [0; 0]);
    }

    #[test]
    fn what_is_disputed_is_left_alone() {
        assert_eq!(found(&["a:1", "nobody", "b:2"]), [0; 0]);
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
                let Held::String { value, for_ever, .. } = one else { continue };
                let is_same = |other: &&Held| matches!(other, Held::String { value: theirs, .. } if theirs == value);
                let held_by_quorum = held.iter().filter(is_same).count() >= quorum.needed();
                prop_assert_eq!(orphans.contains(MasterId::new(index)), *for_ever && !held_by_quorum);
            }
        }
    }
}
