use super::*;
use crate::decision::lease::attempt::WorkerId;

fn terms() -> Terms {
    let (vote_timeout, patience) = (ms(50), ms(1_500));
    Terms { quorum: Quorum::of(3), vote_timeout, patience, retries: 1 }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn attempt(counter: u64) -> Attempt {
    Attempt::new(WorkerId::new(1), counter)
}

fn set(indices: &[usize]) -> MasterSet {
    indices.iter().map(|index| MasterId::new(*index)).collect()
}

fn claim() -> Claim {
    Claim::new(terms(), ms(50), attempt(0), MasterSet::first(3), ms(0))
}

fn cast(claim: &mut Claim, votes: &[(usize, Vote, u64)]) -> ClaimNext {
    let attempt = claim.attempt();
    votes.iter().fold(ClaimNext::WAIT, |_, (index, vote, at)| {
        claim.vote(attempt, MasterId::new(*index), *vote, ms(*at))
    })
}

#[test]
fn two_of_three_are_enough() {
    let mut claim = claim();
    let next = cast(&mut claim, &[(0, Vote::Taken, 1), (2, Vote::Taken, 50)]);
    assert_eq!(next, ClaimNext { step: Step::Granted(attempt(0)), ..ClaimNext::WAIT });
    assert!(claim.is_listening());
    assert_eq!(cast(&mut claim, &[(1, Vote::Taken, 50)]), ClaimNext::WAIT);
    assert!(!claim.is_listening());
}

#[test]
fn a_copy_made_long_after_the_grant_is_taken_back() {
    for (vote, at) in [(Vote::Taken, 51), (Vote::Unknown, 2)] {
        let mut claim = claim();
        cast(&mut claim, &[(0, Vote::Taken, 1), (2, Vote::Taken, 1)]);
        let next = cast(&mut claim, &[(1, vote, at)]);
        assert_eq!(next, ClaimNext { take_back: set(&[1]), step: Step::Wait });
    }
}

#[test]
fn a_late_quorum_is_claimed_afresh_with_twice_the_freshness() {
    let mut claim = claim();
    let next = cast(&mut claim, &[(0, Vote::Taken, 60), (1, Vote::Taken, 60)]);
    assert_eq!(next, ClaimNext { take_back: set(&[0, 1, 2]), step: Step::Afresh });
    assert_eq!(claim.freshness(), ms(100));
    claim.ask(attempt(1), MasterSet::first(3), ms(60));
    let earlier = claim.vote(attempt(0), MasterId::new(2), Vote::Taken, ms(61));
    assert_eq!(earlier, ClaimNext::WAIT, "its take-back is on the way");
    let next = cast(&mut claim, &[(0, Vote::Taken, 160), (1, Vote::Taken, 160)]);
    assert_eq!(next.step, Step::Granted(attempt(1)));
}

#[test]
fn a_held_key_is_refused_and_only_the_silent_are_told() {
    let mut claim = claim();
    let next = cast(&mut claim, &[(0, Vote::Refused, 1), (1, Vote::Refused, 1)]);
    assert_eq!(next, ClaimNext { take_back: set(&[2]), step: Step::Held });
    assert!(!claim.is_listening());
}

#[test]
fn a_split_vote_is_tried_again_a_bounded_number_of_times() {
    let mut claim = claim();
    let votes = [(0, Vote::Refused, 1), (1, Vote::Taken, 1), (2, Vote::Refused, 1)];
    assert_eq!(cast(&mut claim, &votes), ClaimNext { take_back: set(&[1]), step: Step::Pause });
    claim.ask(attempt(1), MasterSet::first(3), ms(1));
    assert_eq!(cast(&mut claim, &votes), ClaimNext { take_back: set(&[1]), step: Step::Held });
}

#[test]
fn a_silent_minority_is_waited_for_until_the_vote_timeout() {
    let mut claim = claim();
    cast(&mut claim, &[(0, Vote::Refused, 1), (1, Vote::Taken, 1)]);
    assert_eq!(claim.deadline(), Some(ms(50)));
    assert_eq!(claim.tick(ms(49)), ClaimNext::WAIT);
    assert_eq!(claim.tick(ms(50)), ClaimNext { take_back: set(&[1, 2]), step: Step::Pause });
}

#[test]
fn a_silent_quorum_is_waited_for_until_patience_ends() {
    let mut claim = claim();
    cast(&mut claim, &[(1, Vote::Taken, 1)]);
    assert_eq!(claim.deadline(), Some(ms(1_500)));
    assert_eq!(claim.tick(ms(1_499)), ClaimNext::WAIT);
    let next = claim.tick(ms(1_500));
    let step = Step::Unavailable { answered: 1 };
    assert_eq!(next, ClaimNext { take_back: set(&[0, 1, 2]), step });
    assert_eq!(claim.deadline(), None);
}

#[test]
fn a_quorum_after_patience_has_ended_grants_nothing() {
    let mut claim = claim();
    let next = cast(&mut claim, &[(0, Vote::Taken, 1), (1, Vote::Taken, 1_500)]);
    let step = Step::Unavailable { answered: 2 };
    assert_eq!(next, ClaimNext { take_back: set(&[0, 1, 2]), step });
}

#[test]
fn unproven_votes_are_asked_for_again() {
    let mut claim = claim();
    let votes = [(0, Vote::Taken, 1), (1, Vote::Unknown, 1), (2, Vote::Unknown, 1)];
    let next = cast(&mut claim, &votes);
    assert_eq!(next, ClaimNext { take_back: set(&[0, 1, 2]), step: Step::Pause });
}

#[test]
fn the_clients_own_token_at_a_quorum_is_its_lease() {
    let mut claim = claim();
    let owned = Vote::Owned(attempt(9));
    let next = cast(&mut claim, &[(0, owned, 1), (1, Vote::Taken, 1), (2, owned, 1)]);
    assert_eq!(next, ClaimNext { take_back: set(&[1]), step: Step::Granted(attempt(9)) });
}

#[test]
fn two_attempts_with_one_token_are_no_quorum() {
    let mut claim = claim();
    let votes = [(0, Vote::Owned(attempt(9)), 1), (1, Vote::Taken, 1), (2, Vote::Refused, 1)];
    let next = cast(&mut claim, &votes);
    assert_eq!(next, ClaimNext { take_back: set(&[1]), step: Step::Pause });
}

#[test]
fn nobody_votes_twice() {
    let mut claim = claim();
    assert_eq!(cast(&mut claim, &[(0, Vote::Taken, 1), (0, Vote::Taken, 1)]), ClaimNext::WAIT);
}

#[test]
fn who_may_hold_the_lease_already_is_not_told_that_another_does() {
    let without_retries = || {
        let terms = Terms { retries: 0, ..terms() };
        let mut claim = Claim::new(terms, ms(50), attempt(1), MasterSet::first(3), ms(0));
        cast(&mut claim, &[(0, Vote::Taken, 1), (2, Vote::Owned(attempt(0)), 1)]);
        assert_eq!(claim.tick(ms(50)), ClaimNext::WAIT);
        assert_eq!(claim.deadline(), Some(ms(1_500)));
        claim
    };
    let (mut owned, mut lost, mut silent) =
        (without_retries(), without_retries(), without_retries());
    let next = cast(&mut owned, &[(1, Vote::Owned(attempt(0)), 150)]);
    assert_eq!(next.step, Step::Afresh, "it is late");
    let next = cast(&mut lost, &[(1, Vote::Refused, 150)]);
    assert_eq!(next, ClaimNext { take_back: set(&[0]), step: Step::Held });
    let unknown = Step::Unavailable { answered: 2 };
    assert_eq!(silent.tick(ms(1_500)), ClaimNext { take_back: set(&[0, 1]), step: unknown });
    let next = cast(&mut without_retries(), &[(1, Vote::Unknown, 150)]);
    assert_eq!(
        next,
        ClaimNext { take_back: set(&[0, 1]), step: unknown },
        "nobody is left to answer"
    );
}
