//! Tags of the most recently granted leases, by the fingerprints of the leases.
//!
//! Most grants are looked up once, at their release, and many never. So a grant is written after the previous one,
//! where the cache is warm, and enters the index only at the next lookup.

use crate::decision::lease::attempt::Tag;

/// Maximum leases remembered. Releasing any other lease first asks the masters for its attempt.
pub(super) const LEASES: usize = 1 << 14;

/// Slots of the index. A lease evicts another whose fingerprint ends in the same bits.
const PLACES: usize = 2 * LEASES;

/// The most recently granted leases; see the module.
#[derive(Debug)]
pub(super) struct Granted {
    /// A ring: the oldest is overwritten.
    leases: Box<[(u64, Tag)]>,
    /// Number of leases ever granted; `indexed` counts those that have entered the index.
    count: usize,
    indexed: usize,
    /// Position of a lease in `leases`, if it is still there.
    index: Box<[u16]>,
}

impl Default for Granted {
    fn default() -> Self {
        Self {
            leases: vec![(0, Tag::NONE); LEASES].into(),
            count: 0,
            indexed: 0,
            index: vec![0; PLACES].into(),
        }
    }
}

impl Granted {
    /// Remembers that a quorum holds the lease with this fingerprint under this tag.
    pub(super) fn remember(&mut self, lease: u64, tag: Tag) {
        self.leases[self.count % LEASES] = (lease, tag);
        self.count += 1;
    }

    /// Returns the tag under which the lease was last remembered, and forgets it.
    pub(super) fn take(&mut self, lease: u64) -> Option<Tag> {
        self.catch_up();
        let known = &mut self.leases[usize::from(self.index[place(lease)])];
        let is_known = known.0 == lease && known.1 != Tag::NONE;
        is_known.then(|| std::mem::replace(known, (0, Tag::NONE)).1)
    }

    fn catch_up(&mut self) {
        let first = self.indexed.max(self.count.saturating_sub(LEASES));
        for at in (first..self.count).map(|number| number % LEASES) {
            self.index[place(self.leases[at].0)] = at as u16;
        }
        self.indexed = self.count;
    }
}

fn place(lease: u64) -> usize {
    lease as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::attempt::{Attempt, WorkerId};

    fn tag(counter: usize) -> Tag {
        Attempt::new(WorkerId::new(7), counter as u64).fresh()
    }

    #[test]
    fn the_last_tag_of_a_lease_is_known_once() {
        let mut granted = Granted::default();
        granted.remember(5, tag(1));
        granted.remember(5, tag(2));
        assert_eq!(granted.take(5), Some(tag(2)));
        assert_eq!(granted.take(5), None);
        granted.remember(5, tag(3));
        assert_eq!(granted.take(5), Some(tag(3)));
    }

    /// Holds even if nothing was looked up until all slots were overwritten more than once.
    #[test]
    fn the_leases_granted_last_are_known() {
        let mut granted = Granted::default();
        let last = 3 * LEASES + 7;
        (0..last).for_each(|lease| granted.remember(lease as u64, tag(lease)));
        for lease in 0..last {
            let known = (lease >= last - LEASES).then(|| tag(lease));
            assert_eq!(granted.take(lease as u64), known, "{lease}");
        }
    }

    #[test]
    fn a_lease_that_was_overwritten_is_not_taken_for_another() {
        let mut granted = Granted::default();
        granted.remember(5, tag(5));
        assert_eq!(granted.take(5), Some(tag(5)));
        granted.remember(9, tag(9));
        (0..LEASES).for_each(|lease| granted.remember((1 << 20) + lease as u64, tag(lease)));
        assert_eq!(granted.take(9), None);
        assert_eq!(granted.take(5), None);
    }
}
