//! Walking over everything that a quorum holds, page by page, on one master after the other.
//!
//! Whatever a quorum holds is on at least one of any `N - quorum + 1` masters. So that many complete walks find all of
//! it, each over one master by that master's own cursor. A [`Place`] is where such a walk stands; clients carry it
//! as the cursor of `SCAN`, a number of 64 bits, and may come back with it to another worker or another proxy.
//!
//! # Format
//!
//! From the highest bit: the master's cursor, times the number of pairs of a master and of complete walks, plus the
//! pair; then 16 bits that tell the master's process from others. Master cursors stay below the size of the table that
//! is walked, so the number stays small, too: below 2^53 for three masters with 2^34 keys each. 0 is the start, and
//! never a place on the way.

use super::Quorum;

/// Where a walk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The master that is walked over now, in an order that all proxies agree on.
    pub master: usize,
    /// How many masters have been walked over completely.
    complete: usize,
    /// The master's own cursor; 0: it has not begun.
    pub cursor: u64,
    /// Tells the master's process, which its cursor belongs to, from others.
    pub tag: u16,
}

const TAG_BITS: u32 = u16::BITS;

impl Place {
    /// Nothing has been seen yet.
    pub const START: Self = Self { master: 0, complete: 0, cursor: 0, tag: 0 };

    /// The place that a number stands for. Any number is some place.
    pub fn decode(quorum: Quorum, number: u64) -> Self {
        let rest = number >> TAG_BITS;
        let pair = (rest % pairs(quorum)) as usize;
        let (master, complete) = (pair / walks(quorum), pair % walks(quorum));
        if complete > master {
            return Self::START;
        }
        let (cursor, tag) = (rest / pairs(quorum), number as u16);
        Self { master, complete, cursor, tag }
    }

    /// The number of a place; `None` when a master's cursor is too large for it.
    pub fn encode(self, quorum: Quorum) -> Option<u64> {
        let pair = (self.master * walks(quorum) + self.complete) as u64;
        let rest = self.cursor.checked_mul(pairs(quorum))?.checked_add(pair)?;
        let number = rest.checked_mul(1 << TAG_BITS)? | u64::from(self.tag);
        (number != 0).then_some(number)
    }

    /// The same master, whose process says `cursor` next.
    pub fn onwards(self, cursor: u64, tag: u16) -> Self {
        Self { cursor, tag, ..self }
    }

    /// The walk goes on over the master at `index`, which is the one that was meant.
    pub fn found_at(self, index: usize) -> Self {
        if self.complete > index { Self::START } else { Self { master: index, ..self } }
    }

    /// This master has been walked over; `None`: nothing is left.
    pub fn completed(self, quorum: Quorum) -> Option<Self> {
        let complete = self.complete + 1;
        (complete < walks(quorum)).then(|| self.next(quorum, complete))
    }

    /// This master cannot be walked over now, and its walk does not count.
    pub fn skipped(self, quorum: Quorum) -> Self {
        self.next(quorum, self.complete)
    }

    /// With no master left it starts again: of those that were skipped, some may be back.
    fn next(self, quorum: Quorum, complete: usize) -> Self {
        let master = self.master + 1;
        if master == quorum.masters() {
            return Self::START;
        }
        Self { master, complete, cursor: 0, tag: 0 }
    }
}

/// How many complete walks find everything that a quorum holds. So many masters without a key, and no quorum has it.
pub fn walks(quorum: Quorum) -> usize {
    quorum.tolerates() + 1
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
            let last = Place { master: masters - 1, complete: 0, cursor: (1 << 39) - 1, tag: 7 };
            assert!(last.encode(quorum).is_some(), "{masters}");
        }
        let usual = Place { master: 2, complete: 1, cursor: (1 << 34) - 1, tag: u16::MAX };
        assert!(usual.encode(Quorum::of(3)).is_some_and(|number| number < 1 << 53));
        let huge = Place { cursor: u64::MAX / 2, ..usual };
        assert_eq!(huge.encode(Quorum::of(3)), None);
    }

    #[test]
    fn a_key_of_any_quorum_is_on_one_of_the_masters_walked_over() {
        for masters in 1..=9 {
            let quorum = Quorum::of(masters);
            assert_eq!(walks(quorum) + quorum.needed(), masters + 1);
        }
    }

    proptest! {
        /// Whatever number a client brings: the walk ends, unless masters go on failing.
        #[test]
        fn every_number_leads_to_the_end(masters in 1usize..=31, number: u64) {
            let quorum = Quorum::of(masters);
            let (mut place, mut steps) = (Some(Place::decode(quorum, number)), 0);
            while let Some(here) = place {
                prop_assert!(here.master < masters && here.complete <= here.master);
                place = here.completed(quorum);
                steps += 1;
                prop_assert!(steps <= masters + walks(quorum));
            }
        }

        #[test]
        fn a_place_survives_its_number(
            masters in 1usize..=31, failed: u32, cursor in 1u64..1 << 39, tag: u16, at in 0usize..31
        ) {
            let quorum = Quorum::of(masters);
            let mut place = Place::START;
            for step in 0..at {
                let next = if failed & (1 << step) == 0 { place.completed(quorum) } else { None };
                place = next.unwrap_or_else(|| place.skipped(quorum));
            }
            let place = place.onwards(cursor, tag);
            let number = place.encode(quorum);
            prop_assert!(number.is_some_and(|number| number != 0));
            prop_assert_eq!(number.map(|number| Place::decode(quorum, number)), Some(place));
        }

        /// However masters fail, the end is only reached after enough different ones were walked over.
        #[test]
        fn the_end_comes_after_enough_different_masters(
            masters in 1usize..=9, failures in proptest::collection::vec(any::<bool>(), 0..60)
        ) {
            let quorum = Quorum::of(masters);
            let (mut place, mut walked) = (Place::START, std::collections::BTreeSet::new());
            for failed in failures {
                if place == Place::START {
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
