use super::*;
use crate::decision::lease::attempt::WorkerId;
use crate::decision::quorum::Quorum;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn tag(counter: u64) -> Tag {
    Attempt::new(WorkerId::new(1), counter).fresh()
}

fn terms() -> Terms {
    let (vote_timeout, patience) = (ms(50), ms(1_500));
    Terms { quorum: Quorum::of(3), vote_timeout, patience, retries: 0 }
}

fn by_token() -> Release {
    Release::new(terms(), MasterSet::first(3), ms(0))
}

fn known() -> Release {
    Release::known(terms(), tag(7), MasterSet::first(3), ms(0))
}

fn see(release: &mut Release, sights: &[Sight]) -> Step {
    let round = release.round();
    sights.iter().enumerate().fold(Step::Wait, |_, (index, sight)| {
        release.sight(round, MasterId::new(index), *sight, ms(1))
    })
}

fn cast(release: &mut Release, votes: &[Vote]) -> Step {
    let round = release.round();
    votes.iter().enumerate().fold(Step::Wait, |_, (index, vote)| {
        release.vote(round, MasterId::new(index), *vote, ms(1))
    })
}

fn set(indices: &[usize]) -> MasterSet {
    indices.iter().map(|index| MasterId::new(*index)).collect()
}

#[test]
fn each_master_deletes_what_it_showed() {
    let mut release = by_token();
    let raised = tag(7).raised();
    let step = see(&mut release, &[Sight::Held(tag(7)), Sight::Held(raised)]);
    let told = vec![(MasterId::new(0), tag(7)), (MasterId::new(1), raised)];
    assert_eq!(step, Step::Delete(told));
    let late = release.sight(0, MasterId::new(2), Sight::Held(tag(7)), ms(2));
    assert_eq!(late, Step::Delete(vec![(MasterId::new(2), tag(7))]));
    assert_eq!(cast(&mut release, &[Vote::Deleted, Vote::Deleted]), Step::Released);
    let owed = OwedReleases { attempt: tag(7).attempt, now: set(&[2]), later: set(&[2]) };
    assert_eq!(release.owed(), Some(owed));
}

/// What it deleted went with it: the new instance may have been copied to before.
#[test]
fn a_deletion_by_a_master_that_went_out_does_not_count() {
    let vote = |release: &mut Release, master: usize, vote: Vote| {
        release.vote(release.round(), MasterId::new(master), vote, ms(1))
    };
    for late in [Vote::Deleted, Vote::Unknown] {
        let mut release = known();
        assert_eq!(vote(&mut release, 2, Vote::Deleted), Step::Wait);
        release.forget(set(&[2]));
        assert_eq!(vote(&mut release, 0, Vote::Deleted), Step::Wait);
        let expected = match late {
            Vote::Deleted => Step::Released,
            _ => Step::Wait,
        };
        assert_eq!(vote(&mut release, 1, late), expected);
    }
}

#[test]
fn what_a_master_that_went_out_has_shown_is_forgotten() {
    let mut release = by_token();
    see(&mut release, &[Sight::Held(tag(7))]);
    release.forget(set(&[0]));
    let round = release.round();
    assert_eq!(release.sight(round, MasterId::new(1), Sight::Missing, ms(1)), Step::Wait);
    assert_eq!(release.sight(round, MasterId::new(2), Sight::Missing, ms(1)), Step::Missing);
}

#[test]
fn a_token_that_no_quorum_holds_is_no_lease() {
    let sights = [Sight::Missing, Sight::Missing];
    assert_eq!(see(&mut by_token(), &sights), Step::Missing);
    let sights = [Sight::Other, Sight::Missing];
    assert_eq!(see(&mut by_token(), &sights), Step::Other);
    let sights = [Sight::Held(tag(8)), Sight::Missing, Sight::Held(tag(7))];
    assert_eq!(see(&mut by_token(), &sights), Step::Missing);
}

#[test]
fn the_silent_may_hold_what_one_master_shows() {
    let mut release = by_token();
    see(&mut release, &[Sight::Held(tag(7)), Sight::Missing]);
    assert_eq!((release.deadline(), release.tick(ms(49))), (Some(ms(50)), Step::Wait));
    assert_eq!(release.tick(ms(50)), Step::Delete(vec![(MasterId::new(0), tag(7))]));
    assert_eq!(release.vote(0, MasterId::new(0), Vote::Deleted, ms(51)), Step::Wait);
    assert_eq!((release.tick(ms(100)), release.deadline()), (Step::Wait, Some(ms(1_500))));
    let mut silent = release.clone();
    assert_eq!(silent.tick(ms(1_500)), Step::Unavailable { answered: 2 });
    let late = release.sight(0, MasterId::new(2), Sight::Held(tag(7)), ms(101));
    assert_eq!(late, Step::Delete(vec![(MasterId::new(2), tag(7))]));
    assert_eq!(release.vote(0, MasterId::new(2), Vote::Deleted, ms(102)), Step::Released);
    let owed = OwedReleases { attempt: tag(7).attempt, now: set(&[]), later: set(&[1]) };
    assert_eq!(release.owed(), Some(owed));
}

#[test]
fn a_known_lease_is_deleted_at_once() {
    assert_eq!(cast(&mut known(), &[Vote::Deleted, Vote::Deleted]), Step::Released);
    let votes = [Vote::Deleted, Vote::Missing, Vote::Unknown];
    assert_eq!(cast(&mut known(), &votes), Step::Released);
}

#[test]
fn a_quorum_that_says_no_is_right() {
    let votes = [Vote::Deleted, Vote::Other, Vote::Missing];
    assert_eq!(cast(&mut known(), &votes), Step::Other);
    assert_eq!(cast(&mut known(), &[Vote::Missing, Vote::Missing]), Step::Missing);
}

#[test]
fn one_deletion_is_not_enough_while_a_quorum_is_silent() {
    let mut release = known();
    assert_eq!(cast(&mut release, &[Vote::Deleted]), Step::Wait);
    assert_eq!((release.tick(ms(1_499)), release.owed()), (Step::Wait, None));
    assert_eq!(release.tick(ms(1_500)), Step::Unavailable { answered: 1 });
    assert_eq!((release.tick(ms(1_501)), release.deadline()), (Step::Wait, None));
}

#[test]
fn a_lease_that_was_prolonged_meanwhile_is_looked_at_again() {
    let mut release = known();
    let votes = [Vote::Deleted, Vote::Raised, Vote::Raised];
    assert_eq!(cast(&mut release, &votes), Step::Look);
    release.ask(MasterSet::first(3), ms(1));
    let raised = Sight::Held(tag(7).raised());
    let told = |master| Step::Delete(vec![(MasterId::new(master), tag(7).raised())]);
    assert_eq!(see(&mut release, &[Sight::Missing, raised]), told(1));
    let round = release.round();
    assert_eq!(release.sight(round, MasterId::new(2), raised, ms(1)), told(2));
    assert_eq!(release.vote(round, MasterId::new(1), Vote::Deleted, ms(1)), Step::Released);
}

/// Another client's claim arrived on a master that had deleted the lease before the other masters did.
#[test]
fn a_lease_was_held_although_others_have_claimed_what_was_deleted_of_it() {
    let mut release = known();
    assert_eq!(cast(&mut release, &[Vote::Deleted, Vote::Raised, Vote::Other]), Step::Look);
    release.ask(MasterSet::first(3), ms(2));
    let raised = tag(7).raised();
    let step = see(&mut release, &[Sight::Other, Sight::Held(raised)]);
    assert_eq!(step, Step::Delete(vec![(MasterId::new(1), raised)]));
    let round = release.round();
    assert_eq!(release.sight(round, MasterId::new(2), Sight::Other, ms(2)), Step::Wait);
    assert_eq!(release.vote(round, MasterId::new(1), Vote::Deleted, ms(3)), Step::Released);
}

#[test]
fn what_was_deleted_of_one_attempt_does_not_count_for_another() {
    let mut release = known();
    let votes = [Vote::Deleted, Vote::Another, Vote::Another];
    assert_eq!(cast(&mut release, &votes), Step::Look);
    release.ask(MasterSet::first(3), ms(1));
    let step = see(&mut release, &[Sight::Missing, Sight::Held(tag(8)), Sight::Held(tag(8))]);
    assert!(matches!(step, Step::Delete(tags) if tags.len() == 2));
    let round = release.round();
    assert_eq!(release.vote(round, MasterId::new(1), Vote::Deleted, ms(1)), Step::Wait);
    assert_eq!(release.vote(round, MasterId::new(2), Vote::Deleted, ms(1)), Step::Released);
}

/// The third master answers late, after somebody else has acquired the lock.
#[test]
fn a_deletion_that_is_answered_after_the_next_look_counts() {
    let late = |release: &mut Release, at| release.vote(0, MasterId::new(2), Vote::Deleted, ms(at));
    let mut release = known();
    assert_eq!(cast(&mut release, &[Vote::Deleted, Vote::Raised]), Step::Wait);
    assert_eq!(release.tick(ms(60)), Step::Look);
    release.ask(MasterSet::first(3), ms(60));
    assert_eq!(see(&mut release, &[Sight::Missing, Sight::Held(tag(3))]), Step::Wait);
    assert_eq!(late(&mut release, 200), Step::Released);

    let mut another = known();
    assert_eq!(cast(&mut another, &[Vote::Deleted, Vote::Raised]), Step::Wait);
    assert_eq!(another.tick(ms(60)), Step::Look);
    another.ask(MasterSet::first(3), ms(60));
    let sights = [Sight::Held(tag(8)), Sight::Held(tag(8))];
    assert_eq!(see(&mut another, &sights), Step::Wait, "it was claimed since, by an equal token");
    assert_eq!(late(&mut another, 200), Step::Released);
}

/// The next holder has an equal token, and a copy on a master that has deleted the lease.
#[test]
fn one_release_ends_one_lease() {
    let begun = || {
        let mut release = known();
        assert_eq!(cast(&mut release, &[Vote::Another]), Step::Wait);
        assert_eq!(release.vote(0, MasterId::new(2), Vote::Deleted, ms(2)), Step::Wait);
        assert_eq!(release.tick(ms(60)), Step::Wait);
        release
    };
    let last = |vote| begun().vote(0, MasterId::new(1), vote, ms(200));
    assert_eq!(last(Vote::Deleted), Step::Released);
    assert_eq!(last(Vote::Missing), Step::Missing, "no quorum had it");
    assert_eq!(last(Vote::Other), Step::Other);
    assert_eq!(last(Vote::Unknown), Step::Look, "for what may be left of it");
    assert_eq!(begun().tick(ms(1_500)), Step::Unavailable { answered: 2 });
    // The lease is found on the third master, where it was extended.
    let mut release = begun();
    assert_eq!(release.vote(0, MasterId::new(1), Vote::Raised, ms(70)), Step::Look);
    release.ask(MasterSet::first(3), ms(70));
    let raised = tag(7).raised();
    let sights = [Sight::Held(tag(8)), Sight::Held(raised)];
    assert_eq!(see(&mut release, &sights), Step::Delete(vec![(MasterId::new(1), raised)]));
    let round = release.round();
    assert_eq!(release.vote(round, MasterId::new(1), Vote::Deleted, ms(72)), Step::Released);
}

/// A later claim holds the client's token while a master is down.
#[test]
fn another_attempt_is_given_back_where_nothing_has_been_deleted() {
    let up = MasterSet::first(2);
    let mut release = Release::known(terms(), tag(7), up, ms(0));
    assert_eq!(cast(&mut release, &[Vote::Another, Vote::Missing]), Step::Look);
    release.ask(up, ms(1));
    let step = see(&mut release, &[Sight::Held(tag(8)), Sight::Missing]);
    assert_eq!(step, Step::Delete(vec![(MasterId::new(0), tag(8))]), "it may be on the third");
}

#[test]
fn an_answer_of_another_round_changes_nothing() {
    let mut release = known();
    let late = release.vote(1, MasterId::new(0), Vote::Deleted, ms(1));
    assert_eq!(
        (late, release.sight(1, MasterId::new(0), Sight::Missing, ms(1))),
        (Step::Wait, Step::Wait)
    );
}
