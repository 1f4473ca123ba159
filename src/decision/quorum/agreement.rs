//! Answers that count once a quorum gives the same one.

use super::{MasterId, MasterSet, Quorum};

/// Outcome of asking all masters for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a, V> {
    /// A quorum gave this answer.
    Agreed(&'a V),
    /// Every master has answered or is lost, and no answer has a quorum.
    Apart,
}

/// Answers to one request, grouped by value.
#[derive(Clone, Debug)]
pub struct Agreement<V> {
    quorum: Quorum,
    pending: MasterSet,
    values: Vec<(V, MasterSet)>,
}

impl<V: PartialEq> Agreement<V> {
    /// Creates the count for a request that was just sent to `asked`.
    pub fn new(quorum: Quorum, asked: MasterSet) -> Self {
        Self { quorum, pending: asked, values: Vec::new() }
    }

    /// Records the answer of `master`.
    pub fn answer(&mut self, master: MasterId, value: V) -> Option<Verdict<'_, V>> {
        if self.pending.contains(master) {
            self.pending.remove(master);
            match self.values.iter_mut().find(|(known, _)| *known == value) {
                Some((_, holders)) => holders.insert(master),
                None => self.values.push((value, [master].into_iter().collect())),
            }
        }
        self.verdict()
    }

    /// Records that `master` gives no trustworthy answer.
    pub fn unknown(&mut self, master: MasterId) -> Option<Verdict<'_, V>> {
        self.pending.remove(master);
        self.verdict()
    }

    /// Returns the number of masters that answered.
    pub fn answered(&self) -> usize {
        self.values.iter().map(|(_, holders)| holders.len()).sum()
    }

    fn verdict(&self) -> Option<Verdict<'_, V>> {
        let agreed = self.values.iter().find(|(_, holders)| self.quorum.reached_by(*holders));
        match agreed {
            Some((value, _)) => Some(Verdict::Agreed(value)),
            None => self.pending.is_empty().then_some(Verdict::Apart),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(n: usize, answers: &[Option<u8>]) -> Agreement<u8> {
        let quorum = Quorum::of(n);
        let mut agreement = Agreement::new(quorum, quorum.everybody());
        for (index, answer) in answers.iter().enumerate() {
            let master = MasterId::new(index);
            match answer {
                None => agreement.unknown(master),
                Some(value) => agreement.answer(master, *value),
            };
        }
        agreement
    }

    #[test]
    fn the_answer_of_a_quorum_is_the_verdict() {
        assert_eq!(of(3, &[Some(1), Some(2), Some(1)]).verdict(), Some(Verdict::Agreed(&1)));
        assert_eq!(of(3, &[Some(1), Some(1)]).verdict(), Some(Verdict::Agreed(&1)), "at once");
    }

    #[test]
    fn masters_that_answer_differently_or_not_at_all_are_apart() {
        assert_eq!(of(3, &[Some(1), Some(2), Some(3)]).verdict(), Some(Verdict::Apart));
        assert_eq!(of(3, &[Some(1), None, None]).verdict(), Some(Verdict::Apart));
        assert_eq!(of(3, &[Some(1), None]).verdict(), None, "the third may still answer");
    }

    #[test]
    fn nobody_is_heard_twice() {
        let mut agreement = of(3, &[Some(1)]);
        let first = MasterId::new(0);
        assert_eq!(agreement.answer(first, 1), None);
        assert_eq!(agreement.unknown(first), None);
        assert_eq!(agreement.answered(), 1);
    }

    proptest! {
        /// Further answers never change a verdict.
        #[test]
        fn an_early_verdict_is_the_final_verdict(
            (n, answers) in (1usize..6).prop_flat_map(|n| {
                (Just(n), proptest::collection::vec(proptest::option::of(0u8..3), n))
            })
        ) {
            let all = of(n, &answers);
            prop_assert!(all.verdict().is_some());
            for upto in 0..n {
                let early = of(n, &answers[..upto]);
                prop_assert!(early.verdict().is_none_or(|it| Some(it) == all.verdict()));
            }
        }
    }
}
