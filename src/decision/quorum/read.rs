//! Reads: the answer is the value that a quorum agrees on.

use super::{MasterId, MasterSet, Quorum};

/// State of the key across all masters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a, V> {
    /// A quorum holds this value.
    Agreed(&'a V, MasterSet),
    /// A quorum does not have the key.
    Missing,
    /// Neither a value nor its absence can have a quorum. Either another client is changing the key right now, or
    /// several minorities have kept values that others gave up. If it stays like that, the key does not exist for the
    /// client.
    Contested,
    /// A value might have a quorum, but the masters that would decide it are unknown.
    Undecided,
}

/// Answers to one read, grouped by value.
#[derive(Clone, Debug)]
pub struct QuorumRead<V> {
    quorum: Quorum,
    pending: MasterSet,
    /// Masters that do not have the key.
    missing: MasterSet,
    values: Vec<(V, MasterSet)>,
}

impl<V> QuorumRead<V> {
    /// Creates a read that was just sent to `asked`.
    pub fn new(quorum: Quorum, asked: MasterSet) -> Self {
        Self { quorum, pending: asked, missing: MasterSet::EMPTY, values: Vec::new() }
    }

    /// Records that `master` does not have the key.
    pub fn missing(&mut self, master: MasterId) -> Option<Verdict<'_, V>> {
        if self.answers(master) {
            self.missing.insert(master);
        }
        self.verdict()
    }

    /// Records the value of `master`: the one that `same` recognises, or a new one made by `make`.
    pub fn value(
        &mut self,
        master: MasterId,
        same: impl Fn(&V) -> bool,
        make: impl FnOnce() -> V,
    ) -> Option<Verdict<'_, V>> {
        if self.answers(master) {
            match self.values.iter_mut().find(|(value, _)| same(value)) {
                Some((_, holders)) => holders.insert(master),
                None => self.values.push((make(), [master].into_iter().collect())),
            }
        }
        self.verdict()
    }

    /// Records that `master` gives no trustworthy answer.
    pub fn unknown(&mut self, master: MasterId) -> Option<Verdict<'_, V>> {
        self.answers(master);
        self.verdict()
    }

    /// Returns the verdict at the deadline.
    pub fn close(&mut self) -> Verdict<'_, V> {
        self.pending = MasterSet::EMPTY;
        self.verdict().unwrap_or(Verdict::Undecided)
    }

    /// Returns the number of masters that answered.
    pub fn answered(&self) -> usize {
        self.values.iter().map(|(_, holders)| holders.len()).sum::<usize>() + self.missing.len()
    }

    /// Whether a quorum answered, though perhaps with different values.
    pub fn quorum_answered(&self) -> bool {
        self.answered() >= self.quorum.needed()
    }

    /// Whether the missing answers would decide.
    pub fn hangs_on_the_silent(&self) -> bool {
        self.verdict().is_none() && self.may_be_held()
    }

    /// Whether no further answer is expected.
    pub fn is_complete(&self) -> bool {
        self.pending.is_empty()
    }

    fn answers(&mut self, master: MasterId) -> bool {
        let asked = self.pending.contains(master);
        self.pending.remove(master);
        asked
    }

    fn verdict(&self) -> Option<Verdict<'_, V>> {
        let best = self.values.iter().max_by_key(|(_, holders)| holders.len());
        match best {
            Some((value, holders)) if self.quorum.reached_by(*holders) => {
                Some(Verdict::Agreed(value, *holders))
            }
            _ if self.quorum.reached_by(self.missing) => Some(Verdict::Missing),
            _ if !self.pending.is_empty() => None,
            _ if self.may_be_held() => Some(Verdict::Undecided),
            _ => Some(Verdict::Contested),
        }
    }

    /// Whether a value has a quorum if all silent masters hold it.
    fn may_be_held(&self) -> bool {
        let silent = self.quorum.masters() - self.answered();
        let most = self.values.iter().map(|(_, holders)| holders.len()).max();
        most.unwrap_or(0) + silent >= self.quorum.needed()
    }
}

/// Returns the largest remaining TTL that at least a quorum of the `holders` still guarantees. As in Redis's `PTTL`, -1
/// means "for ever" and is therefore more than any number.
pub fn guaranteed_ttl_ms(quorum: Quorum, holders: impl Iterator<Item = i64>) -> i64 {
    let mut ttls: Vec<i64> = holders.map(comparable_ttl_ms).collect();
    ttls.sort_unstable_by(|a, b| b.cmp(a));
    match ttls.get(quorum.needed() - 1).copied() {
        Some(i64::MAX) => -1,
        Some(ttl) => ttl,
        None => 0,
    }
}

/// Maps a remaining TTL to a number that grows with it: "for ever" is the largest.
pub fn comparable_ttl_ms(ttl_ms: i64) -> i64 {
    if ttl_ms < 0 { i64::MAX } else { ttl_ms }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One master's answer: none (`None`), no key (`Some(None)`), or a value.
    type Answer = Option<Option<u8>>;

    fn read(n: usize, answers: &[Answer]) -> QuorumRead<u8> {
        let quorum = Quorum::of(n);
        let mut read = QuorumRead::new(quorum, quorum.everybody());
        for (index, answer) in answers.iter().enumerate() {
            let master = MasterId::new(index);
            match answer {
                None => read.unknown(master),
                Some(None) => read.missing(master),
                Some(Some(value)) => read.value(master, |v| v == value, || *value),
            };
        }
        read
    }

    #[test]
    fn the_value_of_a_quorum_is_the_answer() {
        let mut seen = read(3, &[Some(Some(1)), Some(Some(2)), Some(Some(1))]);
        assert!(matches!(seen.close(), Verdict::Agreed(1, holders) if holders.len() == 2));
    }

    #[test]
    fn no_majority_for_anything_is_contested() {
        let mut seen = read(3, &[Some(Some(1)), Some(Some(2)), Some(None)]);
        assert_eq!(seen.close(), Verdict::Contested);
    }

    #[test]
    fn a_value_that_the_silent_masters_may_hold_is_undecided() {
        assert_eq!(read(3, &[Some(Some(1)), Some(None), None]).close(), Verdict::Undecided);
        assert_eq!(read(3, &[Some(None), None, None]).close(), Verdict::Undecided);
        assert_eq!(read(3, &[Some(None), Some(None), None]).close(), Verdict::Missing);
    }

    #[test]
    fn whoever_gave_no_answer_does_not_count_as_one() {
        let mut one = read(3, &[Some(Some(1)), None]);
        assert_eq!((one.answered(), one.quorum_answered()), (1, false));
        assert_eq!(one.unknown(MasterId::new(2)), Some(Verdict::Undecided));
        assert!(read(3, &[Some(Some(1)), Some(None)]).quorum_answered());
    }

    #[test]
    fn who_has_yet_to_answer_is_waited_for_only_where_it_decides() {
        let hangs = |answers: &[Option<Option<u8>>]| read(3, answers).hangs_on_the_silent();
        assert!(hangs(&[Some(Some(1)), Some(None)]) && hangs(&[Some(Some(1)), Some(Some(2))]));
        assert!(!hangs(&[Some(Some(1)), Some(Some(1))]), "it is known");
        assert!(!hangs(&[Some(None), Some(None)]), "it is known");
        assert!(!hangs(&[Some(Some(1)), Some(None), None]), "nobody has yet to answer");
        assert!(!read(5, &[1, 2, 3, 4].map(|value| Some(Some(value)))).hangs_on_the_silent());
    }

    #[test]
    fn nobody_is_heard_twice() {
        let mut read = read(3, &[Some(Some(1))]);
        let first = MasterId::new(0);
        assert_eq!(read.missing(first), None);
        assert_eq!(read.value(first, |value| *value == 2, || 2), None);
        assert_eq!(read.answered(), 1);
    }

    #[test]
    fn the_ttl_is_what_a_quorum_guarantees() {
        let quorum = Quorum::of(3);
        assert_eq!(guaranteed_ttl_ms(quorum, [5000, 4000, 9000].into_iter()), 5000);
        assert_eq!(guaranteed_ttl_ms(quorum, [-1, 4000, -1].into_iter()), -1);
        assert_eq!(guaranteed_ttl_ms(quorum, [-1, 4000].into_iter()), 4000);
        assert_eq!(guaranteed_ttl_ms(quorum, [0, 0].into_iter()), 0, "it ends now");
        assert_eq!(guaranteed_ttl_ms(quorum, [4000].into_iter()), 0, "one guarantees nothing");
    }

    proptest! {
        /// Further answers never change an early verdict.
        #[test]
        fn an_early_answer_is_the_final_answer(
            (n, answers) in (1usize..6).prop_flat_map(|n| {
                let answer = proptest::option::of(proptest::option::of(0u8..3));
                (Just(n), proptest::collection::vec(answer, n))
            })
        ) {
            let mut all = read(n, &answers);
            let last = all.close();
            for upto in 0..n {
                let early = read(n, &answers[..upto]);
                match (early.verdict(), &last) {
                    (None | Some(Verdict::Undecided), _) => {}
                    (Some(Verdict::Agreed(a, _)), Verdict::Agreed(b, _)) => prop_assert_eq!(a, *b),
                    (Some(Verdict::Missing), Verdict::Missing) => {}
                    (Some(Verdict::Contested), Verdict::Contested) => {}
                    (early, last) => prop_assert!(false, "{:?} became {:?}", early, last),
                }
            }
        }
    }
}
