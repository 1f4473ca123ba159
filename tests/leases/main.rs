//! Exhaustive model of leases: every order of requests, replies, lost connections, deadlines,
//! forgetting and the passing of time, with the real decision code.
//!
//! There are two proxies, three masters, and links that are FIFO in each direction. Proxies may
//! pause anywhere, so nothing is guaranteed to happen before anything else. Clients receive `OK`
//! when the decision grants the lease, and believe in it for its whole time.
//!
//! A model that cannot fail proves nothing. For each rule there is a test that removes it, and the
//! model has to notice.

mod bugs;
mod deletion;
#[path = "../support/exhaustive.rs"]
mod exhaustive;
mod giving_back;
mod model;
mod network;
mod proxy;
#[path = "../specification/mod.rs"]
mod specification;
mod world;
mod worlds;

use bugs::Bug;
use exhaustive::{goes_wrong, holds};
use model::{CONFIRMED, ENDED, EXCLUSION, IN_TIME, NO_GHOSTS, ONE_END, TRUTH};
use world::World;

fn misses(bug: Bug, world: World, property: &'static str) {
    goes_wrong(World { bug: Some(bug), reaches: Vec::new(), ..world }, property);
}

mod nothing_goes_wrong {
    use super::*;

    #[test]
    fn in_a_race_with_split_votes() {
        holds(worlds::race(), 50_000);
    }

    #[test]
    fn when_a_connection_is_lost() {
        holds(worlds::lost_connection(), 200);
        holds(worlds::race_with_lost_connection(), 8_000);
    }

    #[test]
    fn when_a_client_tries_again_elsewhere() {
        holds(worlds::retry_elsewhere(), 2_000);
    }

    #[test]
    fn when_a_client_gives_back_between_two_attempts() {
        holds(worlds::release_between(), 900);
    }

    #[test]
    fn when_a_lease_is_handed_over() {
        holds(worlds::hand_over(), 20_000);
    }

    #[test]
    fn when_a_lease_is_handed_over_that_a_master_has_missed() {
        holds(worlds::hand_over_what_one_missed(), 1_000);
        holds(worlds::hand_over_elsewhere_what_one_missed(), 1_000);
        holds(worlds::share_what_one_missed(), 1_000);
    }

    #[test]
    fn when_a_lease_is_given_back_elsewhere() {
        holds(worlds::release_elsewhere(), 20_000);
        holds(worlds::acquire_after_release_elsewhere(), 10_000);
    }

    #[test]
    fn when_a_refused_client_gives_back() {
        holds(worlds::release_of_a_refused_claim(), 20_000);
    }

    #[test]
    fn when_a_client_prolongs_or_takes_its_own_token_elsewhere() {
        holds(worlds::extend_elsewhere(), 1_000);
        holds(worlds::acquire_elsewhere(), 20_000);
        holds(worlds::release_before_acquire(), 50_000);
    }

    #[test]
    fn when_masters_are_slow() {
        holds(worlds::slow_masters(), 100_000);
    }

    #[test]
    fn when_a_lease_is_prolonged_slowly() {
        holds(worlds::slow_extension(), 10_000);
    }

    #[test]
    fn when_a_lease_is_prolonged_by_less_than_is_left() {
        holds(worlds::shorter_extension(), 5_000);
        holds(worlds::shorter_and_longer_extension(), 1_000);
    }

    #[test]
    fn when_a_master_forgets() {
        holds(worlds::forgetting(), 10_000);
    }

    #[test]
    fn when_a_lease_is_deleted() {
        holds(worlds::delete_elsewhere(), 50_000);
        holds(worlds::delete_and_claim(), 20_000);
        holds(worlds::delete_and_claim_elsewhere(), 20_000);
        holds(worlds::delete_here_and_claim(), 30_000);
    }

    #[test]
    fn when_a_lease_is_deleted_and_prolonged() {
        holds(worlds::delete_and_extend(), 50_000);
    }

    #[test]
    fn when_a_lease_is_deleted_and_given_back() {
        holds(worlds::delete_and_release(), 20_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_two_delete_a_lease() {
        holds(worlds::delete_twice(), 100_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_lease_is_deleted_and_taken_elsewhere() {
        holds(worlds::delete_and_acquire(), 400_000);
        holds(worlds::delete_and_retry(), 200_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_lease_is_deleted_and_a_connection_is_lost() {
        holds(worlds::delete_with_lost_connection(), 60_000);
        holds(worlds::delete_here_with_lost_connection(), 100_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_lease_is_deleted_and_a_master_forgets() {
        holds(worlds::delete_and_forget(), 300_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_lease_is_deleted_in_a_race() {
        holds(worlds::delete_in_a_race(), 300_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn in_a_race_with_late_replies() {
        holds(worlds::race_with_late_replies(), 100_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_lease_is_handed_over_and_a_connection_is_lost() {
        holds(worlds::hand_over_with_lost_connection(), 100_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_lease_is_given_back_elsewhere_and_a_connection_is_lost() {
        holds(worlds::release_elsewhere_with_lost_connection(), 50_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_lease_is_prolonged_more_slowly() {
        holds(worlds::slower_extension(), 1_000_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_lease_is_prolonged_by_less_than_is_left_in_a_race() {
        holds(worlds::shorter_extension_in_a_race(), 1_000_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_masters_are_slow_twice() {
        holds(worlds::slow_masters_twice(), 100_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_master_forgets_in_haste() {
        holds(worlds::forgetting_in_haste(), 500_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_master_forgets_and_claims_are_sent_again() {
        holds(worlds::forgetting_and_asking_again(), 100_000);
    }

    #[test]
    #[ignore = "takes minutes: make test-model"]
    fn when_a_master_forgets_while_a_lease_is_handed_over() {
        holds(worlds::forgetting_while_handed_over(), 100_000);
    }
}

mod each_rule_is_needed {
    use super::*;

    #[test]
    fn take_backs_compare_the_attempt() {
        misses(Bug::TakeBackByToken, worlds::race(), CONFIRMED);
        misses(Bug::TakeBackByToken, worlds::retry_elsewhere(), CONFIRMED);
        misses(Bug::TakeBackByToken, worlds::release_between(), CONFIRMED);
    }

    #[test]
    fn extensions_raise_the_generation() {
        misses(Bug::NoGenerations, worlds::extend_elsewhere(), CONFIRMED);
        misses(Bug::NoGenerations, worlds::acquire_elsewhere(), CONFIRMED);
    }

    #[test]
    fn claims_are_taken_back_at_the_verdict() {
        misses(Bug::TakeBackWhenRead, worlds::lost_connection(), NO_GHOSTS);
    }

    #[test]
    fn an_old_connection_is_closed_before_a_new_one_is_used() {
        misses(Bug::OldConnectionLives, worlds::lost_connection(), NO_GHOSTS);
    }

    #[test]
    fn a_late_quorum_grants_nothing() {
        misses(Bug::NoFreshness, worlds::slow_masters(), EXCLUSION);
    }

    #[test]
    fn a_late_quorum_extends_nothing() {
        misses(Bug::NoFreshnessOfExtensions, worlds::slow_extension(), CONFIRMED);
    }

    #[test]
    fn an_extension_ends_as_soon_as_its_client_is_told() {
        misses(Bug::ToldBeforeShorter, worlds::shorter_extension(), IN_TIME);
    }

    #[test]
    fn nothing_is_shortened_after_the_answer() {
        let world = worlds::shorter_and_longer_extension();
        misses(Bug::StragglersAreShortened, world, CONFIRMED);
    }

    #[test]
    fn the_pad_grows_with_the_freshness() {
        misses(Bug::PadNotDoubled, worlds::slow_masters_twice(), CONFIRMED);
    }

    #[test]
    fn a_quorum_holds_one_attempt() {
        misses(Bug::MixedQuorum, worlds::release_before_acquire(), CONFIRMED);
    }

    #[test]
    fn an_unproven_answer_does_not_count() {
        misses(Bug::NoProof, worlds::forgetting(), EXCLUSION);
    }

    #[test]
    fn an_answer_of_another_version_does_not_count() {
        misses(Bug::AnyVersion, worlds::forgetting(), EXCLUSION);
    }

    #[test]
    fn the_answer_of_a_master_that_went_out_is_forgotten() {
        misses(Bug::GoneStillCount, worlds::extend_and_forget(), EXCLUSION);
    }

    #[test]
    fn a_copy_of_two_attempts_is_neither() {
        let world = World { retries: 1, ..worlds::forgetting_and_asking_again() };
        misses(Bug::NobodysTagIsOneOfThem, world, EXCLUSION);
    }

    #[test]
    fn releases_compare_the_attempt() {
        misses(Bug::ReleaseByToken, worlds::hand_over(), CONFIRMED);
        misses(Bug::ReleaseByToken, worlds::release_between(), CONFIRMED);
    }

    #[test]
    fn late_deliveries_compare_the_attempt() {
        misses(Bug::DeliverByToken, worlds::hand_over(), CONFIRMED);
    }

    #[test]
    fn a_release_deletes_the_generation_it_saw() {
        misses(Bug::DeleteAnyGeneration, worlds::release_before_acquire(), CONFIRMED);
    }

    #[test]
    fn one_deletion_is_not_a_release() {
        misses(Bug::OneDeletionIsEnough, worlds::release_before_acquire(), CONFIRMED);
        misses(Bug::OneDeletionIsEnough, worlds::release_of_a_refused_claim(), TRUTH);
    }

    #[test]
    fn a_quorum_that_says_no_to_a_release_is_right() {
        misses(Bug::ReleaseAgainstQuorum, worlds::release_of_a_refused_claim(), TRUTH);
    }

    #[test]
    fn a_copy_made_long_after_the_grant_is_taken_back() {
        misses(Bug::StragglersStay, worlds::release_elsewhere(), NO_GHOSTS);
    }

    #[test]
    fn a_release_is_delivered_again_where_a_claim_may_still_arrive() {
        misses(Bug::NoSecondDelivery, worlds::release_elsewhere(), NO_GHOSTS);
    }

    #[test]
    fn no_copies_stay_beside_an_earlier_attempt() {
        misses(Bug::OwnCopiesStay, worlds::acquire_elsewhere(), NO_GHOSTS);
    }

    #[test]
    fn a_release_ends_one_lease() {
        misses(Bug::LookAnew, worlds::hand_over_what_one_missed(), ONE_END);
    }

    #[test]
    fn a_release_does_not_count_masters_that_the_claim_has_yet_to_reach() {
        misses(Bug::AbsenceIsRelease, worlds::acquire_after_release_elsewhere(), CONFIRMED);
    }

    #[test]
    fn a_deletion_compares_the_value() {
        misses(Bug::DeleteBlindly, worlds::delete_and_claim(), CONFIRMED);
    }

    #[test]
    fn a_deletion_ends_one_lease() {
        misses(Bug::DeleteAllShown, worlds::delete_in_a_race(), CONFIRMED);
    }

    #[test]
    fn a_deletion_deletes_the_generation_it_saw() {
        misses(Bug::DeleteAnyGeneration, worlds::delete_and_extend(), CONFIRMED);
    }

    #[test]
    fn a_deletion_that_finds_nothing_deletes_nothing() {
        misses(Bug::DeleteLeftovers, worlds::delete_elsewhere(), CONFIRMED);
    }

    #[test]
    fn one_master_is_not_enough_to_delete() {
        misses(Bug::OneDeletionIsEnough, worlds::delete_elsewhere(), ENDED);
    }

    #[test]
    fn a_master_with_nothing_may_be_one_that_the_claim_has_yet_to_reach() {
        misses(Bug::AbsenceIsDeletion, worlds::delete_elsewhere(), ENDED);
        misses(Bug::AbsenceIsDeletion, worlds::delete_and_extend(), CONFIRMED);
    }

    #[test]
    fn a_deletion_ends_with_its_answer() {
        misses(Bug::DeleteAfterAnswer, worlds::delete_and_claim(), CONFIRMED);
    }

    #[test]
    fn what_a_master_missed_of_a_deletion_names_the_attempt() {
        misses(Bug::DeliverBlindly, worlds::delete_and_claim_elsewhere(), CONFIRMED);
    }
}
