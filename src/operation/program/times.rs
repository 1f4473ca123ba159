//! The remaining times that scripts have read. Masters never have quite the same, because none of them
//! sets or reads a time to live in the very moment in which another does.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::quorum::Quorum;
use crate::resp3;

/// Remaining times in the order in which a script has read them, in milliseconds, each with its key. They are
/// those of one master, or those that all masters are to hand out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times(Vec<(Bytes, i64)>);

/// Which of the times that were read this is: a script that sets a time to live between two reads of it finds
/// another one.
type Place<'a> = (&'a [u8], usize);

impl Times {
    /// Reads `[key, ms, key, ms, ...]`.
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        let pair = |pair: &[&[u8]]| {
            let [key, ms] = pair else { return None };
            Some((Bytes::copy_from_slice(resp3::bulk(key)?), resp3::int(ms)?))
        };
        resp3::items(frame)?.chunks(2).map(pair).collect::<Option<_>>().map(Self)
    }

    /// What `masters` are to hand out when they are asked again: the longest that at least a quorum of
    /// those guarantees for which a key ends at all. 0 stands where none does.
    pub(super) fn agreed<'a>(quorum: Quorum, masters: impl Iterator<Item = &'a Self>) -> Self {
        let mut read: BTreeMap<Place<'a>, Vec<i64>> = BTreeMap::new();
        for (place, ms) in masters.flat_map(Self::places) {
            read.entry(place).or_default().extend((ms > 0).then_some(ms));
        }
        let agreed = read.into_iter().map(|((key, _), times)| {
            (Bytes::copy_from_slice(key), guaranteed(quorum, times).unwrap_or(0))
        });
        Self(agreed.collect())
    }

    /// What a master that has these has handed out when it was told what is `agreed`.
    pub(super) fn handed_out(&self, agreed: &Self) -> Self {
        if agreed.0.is_empty() {
            return self.clone();
        }
        let agreed: BTreeMap<Place<'_>, i64> = agreed.places().collect();
        let told = self.places().map(|(place, ms)| {
            let instead = agreed.get(&place).copied().filter(|instead| ms > 0 && *instead > 0);
            (Bytes::copy_from_slice(place.0), instead.unwrap_or(ms))
        });
        Self(told.collect())
    }

    /// Whether any of them says that a key ends: whether masters may differ.
    pub(super) fn has_end(&self) -> bool {
        self.0.iter().any(|(_, ms)| *ms > 0)
    }

    /// Whether `number` is one of them, in milliseconds or in seconds.
    pub(super) fn include(&self, number: i64) -> bool {
        number > 0
            && self.0.iter().any(|(_, ms)| *ms == number || ms.saturating_add(500) / 1000 == number)
    }

    /// Keys and milliseconds.
    pub(super) fn pairs(&self) -> &[(Bytes, i64)] {
        &self.0
    }

    fn places(&self) -> impl Iterator<Item = (Place<'_>, i64)> {
        self.0.iter().enumerate().map(|(at, (key, ms))| {
            let before = self.0[..at].iter().filter(|(other, _)| other == key).count();
            ((&key[..], before), *ms)
        })
    }
}

/// The longest time that at least a quorum guarantees, or all that there are.
pub(super) fn guaranteed(quorum: Quorum, mut times: Vec<i64>) -> Option<i64> {
    times.sort_unstable_by(|a, b| b.cmp(a));
    times.get(quorum.needed() - 1).or(times.last()).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(super) fn times(read: &[(&'static str, i64)]) -> Times {
        Times(read.iter().map(|(key, ms)| (Bytes::from_static(key.as_bytes()), *ms)).collect())
    }

    fn agreed(masters: &[Times]) -> Times {
        Times::agreed(Quorum::of(3), masters.iter())
    }

    #[test]
    fn what_a_quorum_guarantees_is_agreed_on() {
        let read = |ms| times(&[("k", ms)]);
        assert_eq!(agreed(&[read(10), read(30), read(20)]), read(20));
        assert_eq!(agreed(&[read(10), read(-2), read(20)]), read(10));
        assert_eq!(agreed(&[read(-1), read(-2), read(0)]), read(0));
    }

    #[test]
    fn a_time_that_was_set_in_between_is_another_one() {
        let masters = [times(&[("k", 9), ("k", 500)]), times(&[("k", -2), ("k", 500)])];
        let agreed = agreed(&masters);
        assert_eq!(agreed, times(&[("k", 9), ("k", 500)]));
        let told = times(&[("k", 8), ("k", 500)]).handed_out(&agreed);
        assert_eq!(told, times(&[("k", 9), ("k", 500)]));
    }

    #[test]
    fn what_does_not_end_is_not_given_an_end() {
        let told = times(&[("a", -2), ("b", -1), ("c", 7)]);
        let agreed = times(&[("a", 5), ("b", 5), ("c", 0), ("d", 5)]);
        assert_eq!(told.handed_out(&agreed), told);
    }

    #[test]
    fn only_an_end_is_a_time_in_a_reply() {
        let read = times(&[("a", 30_499), ("b", -2), ("c", 0)]);
        let included = [30_499, 30, 31, -2, 0, 1].map(|number| read.include(number));
        assert_eq!(included, [true, true, false, false, false, false]);
    }

    proptest! {
        /// All masters on which a key ends hand out the same, and it is no more than the longest of theirs.
        #[test]
        fn masters_that_have_agreed_do_not_differ(ends in proptest::collection::vec(-2i64..50, 1..6)) {
            let masters: Vec<_> = ends.iter().map(|ms| times(&[("k", *ms)])).collect();
            let agreed = Times::agreed(Quorum::of(ends.len()), masters.iter());
            let told: std::collections::BTreeSet<_> = masters
                .iter()
                .filter(|master| master.has_end())
                .map(|master| master.handed_out(&agreed).0[0].1)
                .collect();
            prop_assert!(told.len() <= 1);
            prop_assert!(told.iter().all(|ms| ends.iter().any(|end| end >= ms)));
        }
    }
}
