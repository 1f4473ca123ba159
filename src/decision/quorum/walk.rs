//! Walks over everything that a quorum holds, page by page, on one master after the other.
//!
//! A value that a quorum holds is on at least one of any `N - quorum + 1` masters. So `N - quorum + 1` complete walks
//! find all of them, each over one master by that master's own cursor. A [`WalkPlace`] is the position of such a walk.
//! Clients carry it as the cursor of `SCAN`, a 64-bit number, and may continue on another worker or another proxy.
//!
//! # Format
//!
//! From the highest bit: the master's cursor, times the number of pairs of a master and of complete walks, plus the
//! pair. Then 3 bits for the number of masters: a walk starts again if there are more or fewer. Then 16 bits identify
//! the master's process. Master cursors stay below the size of the table that is walked, so the number stays small, too.
//! It is below 2^53 for three masters with 2^31 keys each. 0 is the start, and never a later place.

use super::Quorum;

/// Position of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkPlace {
    /// Index of the master being walked, among those with a seat.
    pub master: usize,
    /// Number of masters walked completely.
    complete: usize,
    /// The master's own cursor; 0 if its walk has not begun.
    pub cursor: u64,
    /// Identifies the master's process, to which the cursor belongs.
    pub tag: u16,
}

const TAG_BITS: u32 = u16::BITS;

/// Bits for the number of masters.
const SIZE_BITS: u32 = 3;

impl WalkPlace {
    /// Start of a walk.
    pub const START: Self = Self { master: 0, complete: 0, cursor: 0, tag: 0 };

    /// Decodes a place. Every number is valid.
    pub fn decode(quorum: Quorum, number: u64) -> Self {
        if size(number >> TAG_BITS) != size(quorum.masters() as u64) {
            return Self::START;
        }
        let rest = number >> (TAG_BITS + SIZE_BITS);
        let pair = (rest % pairs(quorum)) as usize;
        let (master, complete) = (pair / walks(quorum), pair % walks(quorum));
        if complete > master {
            return Self::START;
        }
        let (cursor, tag) = (rest / pairs(quorum), number as u16);
        Self { master, complete, cursor, tag }
    }

    /// Encodes the place as a number; `None` if the master's cursor is too large.
    pub fn encode(self, quorum: Quorum) -> Option<u64> {
        let pair = (self.master * walks(quorum) + self.complete) as u64;
        let rest = self.cursor.checked_mul(pairs(quorum))?.checked_add(pair)?;
        let rest = rest.checked_mul(1 << SIZE_BITS)? | size(quorum.masters() as u64);
        let number = rest.checked_mul(1 << TAG_BITS)? | u64::from(self.tag);
        (number != 0).then_some(number)
    }

    /// Advances to `cursor` on the same master, in the process with this tag.
    pub fn onwards(self, cursor: u64, tag: u16) -> Self {
        Self { cursor, tag, ..self }
    }

    /// Ends the walk of this master; `None` if nothing is left.
    pub fn completed(self, quorum: Quorum) -> Option<Self> {
        let complete = self.complete + 1;
        (complete < walks(quorum)).then(|| self.next(quorum, complete))
    }

    /// Skips this master, which cannot be walked now. Its walk does not count.
    pub fn skipped(self, quorum: Quorum) -> Self {
        self.next(quorum, self.complete)
    }

    /// Moves on to the next master. After the last one the walk starts again: some of the skipped masters may be back.
    fn next(self, quorum: Quorum, complete: usize) -> Self {
        let master = self.master + 1;
        if master == quorum.masters() {
            return Self::START;
        }
        Self { master, complete, cursor: 0, tag: 0 }
    }
}

/// Returns how many complete walks find everything that a quorum holds. If this many masters lack a key, no quorum has
/// it.
pub fn walks(quorum: Quorum) -> usize {
    quorum.tolerates() + 1
}

/// Returns the part of a number that has the number of masters.
fn size(number: u64) -> u64 {
    number % (1 << SIZE_BITS)
}

fn pairs(quorum: Quorum) -> u64 {
    (quorum.masters() * walks(quorum)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cursors_of_large_tables_fit() {
        for masters in [1, 3, 5, 7, 31] {
            let quorum = Quorum::of(masters);
            let last =
                WalkPlace { master: masters - 1, complete: 0, cursor: (1 << 36) - 1, tag: 7 };
            assert!(last.encode(quorum).is_some(), "{masters}");
        }
        let usual = WalkPlace { master: 2, complete: 1, cursor: (1 << 31) - 1, tag: u16::MAX };
        assert!(usual.encode(Quorum::of(3)).is_some_and(|number| number < 1 << 53));
        let huge = WalkPlace { cursor: u64::MAX / 2, ..usual };
        assert_eq!(huge.encode(Quorum::of(3)), None);
    }

    #[test]
    fn a_key_of_any_quorum_is_on_one_of_the_masters_walked_over() {
        for masters in 1..=9 {
            let quorum = Quorum::of(masters);
            assert_eq!(walks(quorum) + quorum.needed(), masters + 1);
        }
    }

    #[test]
    fn a_walk_starts_again_when_there_are_more_or_fewer_masters() {
        let here = WalkPlace { master: 2, complete: 1, cursor: 9, tag: 7 };
        let number = here.encode(Quorum::of(3)).expect("it is small");
        let found = [3, 4, 5].map(|masters| WalkPlace::decode(Quorum::of(masters), number));
        assert_eq!(found, [here, WalkPlace::START, WalkPlace::START]);
    }

    proptest! {
        /// Whatever number a client sends, the walk ends, unless masters keep failing.
        #[test]
        fn every_number_leads_to_the_end(masters in 1usize..=31, number: u64) {
            let quorum = Quorum::of(masters);
            let (mut place, mut steps) = (Some(WalkPlace::decode(quorum, number)), 0);
            while let Some(here) = place {
                prop_assert!(here.master < masters && here.complete <= here.master);
                place = here.completed(quorum);
                steps += 1;
                prop_assert!(steps <= masters + walks(quorum));
            }
        }

        #[test]
        fn a_place_survives_its_number(
            masters in 1usize..=31, failed: u32, cursor in 1u64..1 << 36, tag: u16, at in 0usize..31
        ) {
            let quorum = Quorum::of(masters);
            let mut place = WalkPlace::START;
            for step in 0..at {
                let next = if failed & (1 << step) == 0 { place.completed(quorum) } else { None };
                place = next.unwrap_or_else(|| place.skipped(quorum));
            }
            let place = place.onwards(cursor, tag);
            let number = place.encode(quorum);
            prop_assert!(number.is_some_and(|number| number != 0));
            prop_assert_eq!(number.map(|number| WalkPlace::decode(quorum, number)), Some(place));
        }

        /// However masters fail, the walk ends only after enough different masters were walked.
        #[test]
        fn the_end_comes_after_enough_different_masters(
            masters in 1usize..=9, failures in proptest::collection::vec(any::<bool>(), 0..60)
        ) {
            let quorum = Quorum::of(masters);
            let (mut place, mut walked) = (WalkPlace::START, std::collections::BTreeSet::new());
            for failed in failures {
                if place == WalkPlace::START {
                    walked.clear();
                }
                if failed {
                    place = place.skipped(quorum);
                    continue;
                }
                walked.insert(place.master);
                match place.completed(quorum) {
                    Some(next) => place = next,
                    None => {
                        prop_assert!(walked.len() >= walks(quorum));
                        return Ok(());
                    }
                }
            }
        }
    }
}
