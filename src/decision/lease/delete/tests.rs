use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::decision::lease::attempt::{Attempt, WorkerId};
use crate::decision::quorum::Quorum;
use crate::specification::lease::{self as master, MasterLease};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn tag(counter: u64) -> Tag {
    Attempt::new(WorkerId::new(1), counter).fresh()
}

fn held(counter: u64) -> Sight {
    Sight::Held(tag(counter))
}

fn terms(masters: usize) -> Terms {
    let (vote_timeout, patience) = (ms(50), ms(1_500));
    Terms { quorum: Quorum::of(masters), vote_timeout, patience, retries: 0 }
}

fn looking() -> Delete {
    Delete::new(terms(3), MasterSet::first(3), ms(0))
}

fn known() -> Delete {
    Delete::known(terms(3), tag(7), MasterSet::first(3), ms(0))
}

fn see(delete: &mut Delete, sights: &[Sight]) -> Step {
    let round = delete.round();
    sights.iter().enumerate().fold(Step::Wait, |_, (index, sight)| {
        delete.sight(round, MasterId::new(index), *sight, ms(1))
    })
}

fn cast(delete: &mut Delete, votes: &[Vote]) -> Step {
    let round = delete.round();
    votes
        .iter()
        .enumerate()
        .fold(Step::Wait, |_, (index, vote)| delete.vote(round, MasterId::new(index), *vote, ms(1)))
}

fn told(values: &[(usize, Tag)]) -> Step {
    let values = values.iter().map(|(index, tag)| (MasterId::new(*index), *tag));
    Step::Delete(values.collect())
}

fn set(indices: &[usize]) -> MasterSet {
    indices.iter().map(|index| MasterId::new(*index)).collect()
}

#[test]
fn each_master_deletes_what_it_showed() {
    let mut delete = looking();
    let raised = tag(7).raised();
    let sights = [held(7), Sight::Held(raised)];
    assert_eq!(see(&mut delete, &sights), told(&[(0, tag(7)), (1, raised)]));
    let late = delete.sight(0, MasterId::new(2), held(7), ms(2));
    assert_eq!(late, told(&[(2, tag(7))]));
    assert_eq!(cast(&mut delete, &[Vote::Deleted, Vote::Deleted]), Step::Deleted);
    let owed = OwedReleases { attempt: tag(7).attempt, now: set(&[2]), later: set(&[2]) };
    assert_eq!((delete.owed(), delete.deadline()), (Some(owed), None));
}

#[test]
fn what_too_few_masters_hold_is_not_there_and_stays() {
    assert_eq!(see(&mut looking(), &[Sight::Missing, Sight::Missing]), Step::Missing);
    let sights = [held(7), Sight::Missing, Sight::Missing];
    assert_eq!(see(&mut looking(), &sights), Step::Missing);
    assert_eq!(see(&mut looking(), &[held(7), held(8), held(9)]), Step::Missing);
    let mut delete = looking();
    assert_eq!(see(&mut delete, &[held(7), held(8), held(8)]), told(&[(1, tag(8)), (2, tag(8))]));
}

#[test]
fn neither_of_two_that_may_be_held_is_touched() {
    let mut delete = looking();
    see(&mut delete, &[held(7), held(8)]);
    assert_eq!((delete.deadline(), delete.tick(ms(50))), (Some(ms(50)), Step::Wait));
    assert_eq!((delete.deadline(), delete.tick(ms(1_499))), (Some(ms(1_500)), Step::Wait));
    assert_eq!(delete.tick(ms(1_500)), Step::Unavailable { answered: 2 });
    assert_eq!((delete.tick(ms(1_501)), delete.deadline()), (Step::Wait, None));
}

#[test]
fn the_silent_may_hold_what_one_master_shows() {
    let mut delete = looking();
    see(&mut delete, &[held(7), Sight::Missing]);
    assert_eq!(delete.tick(ms(49)), Step::Wait);
    assert_eq!(delete.tick(ms(50)), told(&[(0, tag(7))]));
    assert_eq!(delete.vote(0, MasterId::new(0), Vote::Deleted, ms(51)), Step::Wait);
    let mut silent = delete.clone();
    assert_eq!(silent.tick(ms(1_499)), Step::Wait);
    assert_eq!(silent.tick(ms(1_500)), Step::Unavailable { answered: 2 });
    let mut none = delete.clone();
    assert_eq!(none.sight(0, MasterId::new(2), Sight::Missing, ms(60)), Step::Deleted);
    assert_eq!(none.owed(), None);
    assert_eq!(delete.sight(0, MasterId::new(2), held(7), ms(60)), told(&[(2, tag(7))]));
    assert_eq!(delete.vote(0, MasterId::new(2), Vote::Deleted, ms(61)), Step::Deleted);
    let owed = OwedReleases { attempt: tag(7).attempt, now: set(&[]), later: set(&[1]) };
    assert_eq!(delete.owed(), Some(owed));
}

#[test]
fn what_went_out_with_a_master_is_deleted_on_the_others() {
    for late in [Vote::Deleted, Vote::Unknown] {
        let mut delete = looking();
        assert_eq!(see(&mut delete, &[held(7), held(7)]), told(&[(0, tag(7)), (1, tag(7))]));
        assert_eq!(delete.vote(0, MasterId::new(0), Vote::Deleted, ms(1)), Step::Wait);
        delete.forget(set(&[0]));
        assert_eq!(delete.vote(0, MasterId::new(1), Vote::Deleted, ms(1)), Step::Wait);
        let step = delete.sight(0, MasterId::new(2), held(7), ms(1));
        assert_eq!(step, told(&[(2, tag(7))]));
        let step = delete.vote(0, MasterId::new(2), late, ms(1));
        assert_eq!(step, if late == Vote::Deleted { Step::Deleted } else { Step::Wait });
        let due = Some(ms(51)).filter(|_| late == Vote::Unknown);
        assert_eq!(delete.deadline(), due);
        assert_eq!(delete.tick(ms(51)), if due.is_some() { Step::Look } else { Step::Wait });
    }
}

#[test]
fn a_deletion_waits_for_a_master_that_has_yet_to_vote() {
    let mut delete = looking();
    delete.expect_more(true);
    delete.sight(0, MasterId::new(2), Sight::Unknown, ms(1));
    assert_eq!(see(&mut delete, &[held(7), Sight::Missing]), told(&[(0, tag(7))]));
    assert_eq!(delete.vote(0, MasterId::new(0), Vote::Deleted, ms(2)), Step::Wait);
    assert_eq!(delete.tick(ms(100)), Step::Look);
    delete.ask(MasterSet::first(3), ms(100));
    assert_eq!(delete.sight(1, MasterId::new(0), Sight::Missing, ms(101)), Step::Wait);
    assert_eq!(delete.sight(1, MasterId::new(1), Sight::Missing, ms(101)), Step::Wait);
    let step = delete.sight(1, MasterId::new(2), held(7), ms(101));
    assert_eq!(step, told(&[(2, tag(7))]), "it was copied to");
    assert_eq!(delete.vote(1, MasterId::new(2), Vote::Deleted, ms(102)), Step::Deleted);
}

#[test]
fn a_delete_that_went_out_with_its_answer_is_not_known() {
    let mut delete = looking();
    assert_eq!(see(&mut delete, &[held(7), held(7)]), told(&[(0, tag(7)), (1, tag(7))]));
    delete.vote(0, MasterId::new(1), Vote::Missing, ms(1));
    delete.forget(set(&[0]));
    delete.vote(0, MasterId::new(0), Vote::Unknown, ms(1));
    let step = delete.sight(0, MasterId::new(2), Sight::Missing, ms(1));
    assert!(matches!(step, Step::Unavailable { .. }), "{step:?}: another may have released it");
}

#[test]
fn a_lost_answer_to_a_delete_is_not_known() {
    let mut delete = looking();
    see(&mut delete, &[held(7), held(7), Sight::Missing]);
    let votes = [Vote::Unknown, Vote::Other];
    assert_eq!(cast(&mut delete, &votes), Step::Unavailable { answered: 3 });
    assert_eq!(see(&mut looking(), &[Sight::Unknown; 3]), Step::Unavailable { answered: 0 });
}

#[test]
fn who_deletes_first_was_there_first() {
    let mut delete = looking();
    see(&mut delete, &[held(7), held(7), Sight::Missing]);
    assert_eq!(cast(&mut delete, &[Vote::Missing, Vote::Other]), Step::Missing);
    let mut delete = looking();
    see(&mut delete, &[held(7), held(7), Sight::Missing]);
    assert_eq!(cast(&mut delete, &[Vote::Missing, Vote::Deleted]), Step::Deleted);
}

#[test]
fn a_known_lease_is_deleted_at_once() {
    assert_eq!(cast(&mut known(), &[Vote::Deleted, Vote::Deleted]), Step::Deleted);
    let votes = [Vote::Deleted, Vote::Missing, Vote::Unknown];
    let mut delete = known();
    assert_eq!(cast(&mut delete, &votes), Step::Deleted);
    let owed = OwedReleases { attempt: tag(7).attempt, now: set(&[2]), later: set(&[2]) };
    assert_eq!(delete.owed(), Some(owed));
    assert_eq!(cast(&mut known(), &[Vote::Missing, Vote::Missing]), Step::Missing);
    let votes = [Vote::Deleted, Vote::Missing, Vote::Missing];
    assert_eq!(cast(&mut known(), &votes), Step::Missing);
}

#[test]
fn a_known_lease_that_was_prolonged_is_looked_at_again() {
    let mut delete = known();
    assert_eq!(cast(&mut delete, &[Vote::Deleted, Vote::Raised]), Step::Wait);
    assert_eq!((delete.deadline(), delete.tick(ms(50))), (Some(ms(50)), Step::Look));
    delete.ask(MasterSet::first(3), ms(50));
    assert_eq!((delete.round(), delete.known_tag()), (1, None));
    let raised = Sight::Held(tag(7).raised());
    assert_eq!(see(&mut delete, &[Sight::Missing, raised]), told(&[(1, tag(7).raised())]));
    assert_eq!(delete.vote(1, MasterId::new(1), Vote::Deleted, ms(51)), Step::Deleted);
}

#[test]
fn a_known_lease_that_has_ended_is_not_what_is_held_now() {
    let mut delete = known();
    let votes = [Vote::Deleted, Vote::Other, Vote::Other];
    assert_eq!(cast(&mut delete, &votes), Step::Look);
    delete.ask(MasterSet::first(3), ms(1));
    let step = see(&mut delete, &[Sight::Missing, held(8), held(8)]);
    assert_eq!(step, told(&[(1, tag(8)), (2, tag(8))]));
    assert_eq!(delete.vote(1, MasterId::new(1), Vote::Deleted, ms(2)), Step::Wait);
    assert_eq!(delete.vote(1, MasterId::new(2), Vote::Deleted, ms(2)), Step::Deleted);
}

#[test]
fn the_next_lock_is_left_alone_once_the_one_before_was_hit() {
    let mut delete = known();
    cast(&mut delete, &[Vote::Deleted, Vote::Unknown, Vote::Raised]);
    delete.ask(MasterSet::first(3), ms(1));
    assert_eq!(see(&mut delete, &[held(8), held(8)]), Step::Wait);
    let raised = Sight::Held(tag(7).raised());
    let step = delete.sight(1, MasterId::new(2), raised, ms(2));
    assert_eq!(step, told(&[(2, tag(7).raised())]));
    assert_eq!(delete.vote(1, MasterId::new(2), Vote::Deleted, ms(3)), Step::Deleted);
}

#[test]
fn the_outcome_of_an_earlier_round_counts() {
    let mut delete = looking();
    see(&mut delete, &[held(7), held(7), Sight::Missing]);
    assert_eq!(delete.vote(0, MasterId::new(0), Vote::Raised, ms(2)), Step::Wait);
    assert_eq!(delete.tick(ms(51)), Step::Look);
    delete.ask(MasterSet::first(3), ms(51));
    assert_eq!(delete.vote(0, MasterId::new(1), Vote::Deleted, ms(52)), Step::Wait);
    let raised = Sight::Held(tag(7).raised());
    assert_eq!(see(&mut delete, &[raised]), told(&[(0, tag(7).raised())]));
    assert_eq!(delete.vote(1, MasterId::new(0), Vote::Deleted, ms(53)), Step::Deleted);
    assert_eq!(delete.vote(1, MasterId::new(0), Vote::Deleted, ms(54)), Step::Wait);
}

#[test]
fn an_answer_that_nobody_asked_for_changes_nothing() {
    let mut delete = looking();
    assert_eq!(delete.sight(1, MasterId::new(0), held(7), ms(1)), Step::Wait);
    assert_eq!(delete.vote(1, MasterId::new(0), Vote::Deleted, ms(1)), Step::Wait);
    assert_eq!(delete, looking());
}

/// Generates copies on masters: nothing, or one of three attempts, perhaps extended.
fn masters() -> impl Strategy<Value = Vec<Option<MasterLease<char>>>> {
    let copy = |(counter, is_raised): (u64, bool)| {
        let tag = if is_raised { tag(counter).raised() } else { tag(counter) };
        MasterLease { tag, token: 't', end_ms: 1 }
    };
    vec(proptest::option::weighted(0.8, (1..4_u64, any::<bool>()).prop_map(copy)), 1..8)
}

/// Delivers each step to every master that is not `silent`, in the order of `order`.
fn run(
    delete: &mut Delete,
    keys: &mut [Option<MasterLease<char>>],
    silent: u32,
    order: u32,
) -> Step {
    let (mut due, mut steps) = (Vec::new(), vec![Step::Look]);
    let answers = |index: &usize| silent & (1 << index) == 0;
    loop {
        while let Some(step) = steps.pop() {
            match step {
                Step::Wait => {}
                Step::Look if delete.round() == 0 => {
                    due.extend((0..keys.len()).filter(answers).map(|index| (index, None)));
                }
                Step::Delete(values) => {
                    let values = values.into_iter().map(|(id, value)| (id.index(), Some(value)));
                    due.extend(values.filter(|(index, _)| answers(index)));
                }
                verdict => return verdict,
            }
        }
        if due.is_empty() {
            let Some(deadline) = delete.deadline() else { return Step::Wait };
            steps.push(delete.tick(deadline));
            continue;
        }
        let (index, value) = due.swap_remove(order as usize % due.len());
        let master = MasterId::new(index);
        steps.push(match value {
            None => delete.sight(0, master, master::show(&keys[index]), ms(1)),
            Some(tag) => delete.vote(0, master, master::delete(&mut keys[index], tag), ms(2)),
        });
    }
}

fn of_quorum(keys: &[Option<MasterLease<char>>]) -> Option<Attempt> {
    let mut holders = Holders::default();
    for (index, copy) in keys.iter().enumerate() {
        if let Some(copy) = copy {
            holders.insert(copy.tag.attempt, MasterId::new(index));
        }
    }
    holders.of_quorum(Quorum::of(keys.len()))
}

proptest! {
    #[test]
    fn one_lease_at_most_is_deleted_and_the_answer_is_true(
        before in masters(), silent: u32, order: u32
    ) {
        let mut keys = before.clone();
        let everybody = MasterSet::first(keys.len());
        let mut delete = Delete::new(terms(keys.len()), everybody, ms(0));
        let step = run(&mut delete, &mut keys, silent, order);
        let hit = before.iter().zip(&keys).filter(|(before, after)| before != after);
        let mut hit: Vec<_> = hit.filter_map(|(copy, _)| Some(copy.as_ref()?.tag.attempt)).collect();
        hit.dedup();
        hit.sort_unstable();
        hit.dedup();
        prop_assert!(hit.len() <= 1);
        match step {
            Step::Deleted => prop_assert!(hit.len() == 1 && of_quorum(&keys).is_none()),
            Step::Missing => prop_assert!(hit.is_empty() && of_quorum(&before).is_none()),
            Step::Unavailable { .. } => prop_assert!(silent.trailing_zeros() < 8),
            _ => prop_assert!(false, "no verdict"),
        }
    }

    #[test]
    fn with_everybody_there_a_held_lease_is_deleted(before in masters(), order: u32) {
        let mut keys = before.clone();
        let everybody = MasterSet::first(keys.len());
        let mut delete = Delete::new(terms(keys.len()), everybody, ms(0));
        let step = run(&mut delete, &mut keys, 0, order);
        let is_held = of_quorum(&before).is_some();
        prop_assert_eq!(step, if is_held { Step::Deleted } else { Step::Missing });
    }
}
