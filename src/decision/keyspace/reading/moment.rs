//! Reading several keys as of one moment.

/// Decides whether the registers that quorums show all held at one moment.
///
/// * **Two consecutive reads show the same.** When the second began, all of it was decided, because a quorum had
///   accepted it by then. And nothing newer was decided: a quorum that had accepted anything newer by then would have a
///   master in common with the second read.
/// * **One read shows the same on all masters.** Once a quorum of them had been read, the state was decided. The last
///   of these masters, and those read after it, leave too few for a quorum that had accepted anything since.
#[derive(Clone, Debug)]
pub struct Moment<R> {
    before: Option<R>,
}

impl<R: PartialEq> Moment<R> {
    /// A sequence that has not seen anything yet.
    pub const NONE: Self = Self { before: None };

    /// Records a read that began after the previous one had ended and showed this, on quorums or `by_all`. Returns
    /// whether all of it held at one moment.
    pub fn is_one(&mut self, shown: R, by_all: bool) -> bool {
        let is_again = self.before.as_ref() == Some(&shown);
        self.before = Some(shown);
        by_all || is_again
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::decision::keyspace::reading::{Reading, Verdict, View};
    use crate::decision::quorum::{MasterId, MasterSet, Quorum};

    const MASTERS: usize = 3;

    /// Content of two keys: something old, or something new that is being written during the read.
    type Shown = [bool; 2];

    /// Two keys, each with one writer, and a reader of both.
    #[derive(Clone, Default, PartialEq, Eq, Hash)]
    struct World {
        /// Masters that have accepted the new value, per key.
        accepted: [MasterSet; 2],
        /// Answers of the masters to each read.
        looks: Vec<[Option<Shown>; MASTERS]>,
        /// Everything that was decided at some moment since the first read began.
        moments: Vec<Shown>,
    }

    impl World {
        fn decided(&self) -> Shown {
            self.accepted.map(|accepted| Quorum::of(MASTERS).reached_by(accepted))
        }

        /// Returns the reported content of both keys, once enough masters have answered each read.
        fn read(&self) -> Option<Shown> {
            let mut moment = Moment::NONE;
            self.looks.iter().find_map(|look| {
                let [(one, by_all), (other, too)] = [0, 1].map(|key| shown(look, key));
                let shown = [one?, other?];
                moment.is_one(shown, by_all && too).then_some(shown)
            })
        }

        /// Whether the last read has ended without settling the result.
        fn may_look_again(&self) -> bool {
            let has_ended = |look| [0, 1].iter().all(|key| shown(look, *key).0.is_some());
            self.looks.last().is_none_or(has_ended) && self.looks.len() < 2 && self.read().is_none()
        }

        fn next(&self) -> Vec<Self> {
            let mut next = Vec::new();
            for master in 0..MASTERS {
                for key in 0..2 {
                    let mut world = self.clone();
                    world.accepted[key].insert(MasterId::new(master));
                    next.push(world);
                }
                if self.looks.last().is_some_and(|look| look[master].is_none()) {
                    let mut world = self.clone();
                    let shown = self.accepted.map(|it| it.contains(MasterId::new(master)));
                    world.looks.last_mut().expect("it has begun")[master] = Some(shown);
                    next.push(world);
                }
            }
            if self.may_look_again() {
                next.push(Self {
                    looks: [&self.looks[..], &[[None; MASTERS]]].concat(),
                    ..self.clone()
                });
            }
            for world in &mut next {
                let decided = world.decided();
                if !world.looks.is_empty() && !world.moments.contains(&decided) {
                    world.moments.push(decided);
                }
            }
            next
        }
    }

    /// Returns what a quorum shows of a key in a read, and whether all masters do.
    fn shown(look: &[Option<Shown>; MASTERS], key: usize) -> (Option<bool>, bool) {
        let quorum = Quorum::of(MASTERS);
        let mut reading = Reading::<bool, ()>::new(quorum, quorum.everybody());
        for (at, shown) in look.iter().enumerate().filter(|(_, shown)| shown.is_some()) {
            reading.answer(MasterId::new(at), shown.map(|shown| View::Plain(shown[key])));
        }
        match reading.verdict() {
            Some(Verdict::Plain(masters)) => {
                let one = masters.iter().next().expect("a quorum");
                (reading.shown_by(one).copied(), masters == quorum.everybody())
            }
            _ => (None, false),
        }
    }

    #[test]
    fn whatever_is_read_was_decided_at_one_moment() {
        let (mut todo, mut known, mut read) =
            (vec![World::default()], HashSet::new(), HashSet::new());
        while let Some(world) = todo.pop() {
            if let Some(shown) = world.read() {
                assert!(world.moments.contains(&shown), "{shown:?} of {:?}", world.moments);
                read.insert((shown, world.looks.len()));
                continue;
            }
            todo.extend(world.next().into_iter().filter(|world| known.insert(world.clone())));
        }
        assert_eq!(read.len(), 8, "each in one look, and in two");
    }
}
