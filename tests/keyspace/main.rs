//! Exhaustive model of keys: every order in which requests and answers can arrive, be late or be
//! lost. Up to three clients work on three masters, with programs over one key or two and leases
//! that claims write beside them. The model runs the real decision code ([`Proposer`] and the
//! masters' state); links and the fast path of leases are modelled.
//!
//! One client may flush while some masters miss the flush.
//!
//! Every history of answers must be possible for a single server (linearizability). A model that
//! cannot fail proves nothing: each rule is removed once, and the model has to find a violation.
//!
//! [`Proposer`]: redlock_proxy::decision::keyspace::proposer::Proposer

mod admission;
mod bugs;
mod claims;
#[path = "../support/exhaustive.rs"]
mod exhaustive;
mod flushing;
mod lot;
mod server;
#[path = "../specification/mod.rs"]
mod specification;
mod sweeper;
mod world;

use exhaustive::holds;
use lot::{breaks_nothing_by_lot, holds_by_lot};
use redlock_proxy::decision::keyspace::remembered::Keep;
use server::Operation::{
    self, Both, Claim, Delete, Flush, Guarded, Increment, Pass, Read, Release, Settle, Take, Touch,
};
use world::{Litter, ROUND, World};

fn world(clients: &[&[Operation]]) -> World {
    World::of(clients)
}

/// Keeps the last programs, and the last ones of this many workers.
fn keep(last: usize, workers: usize) -> Keep {
    Keep { last, workers, age_us: u64::MAX }
}

#[test]
fn no_order_of_programs_on_one_key_breaks_it() {
    holds(world(&[&[Increment(0)], &[Increment(0)], &[Read(0)]]), 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_attempts_on_one_key_breaks_it() {
    holds(World { retries: 1, ..world(&[&[Increment(0)], &[Delete(0), Read(0)]]) }, 1_000);
}

#[test]
fn no_lost_answer_makes_a_program_run_twice() {
    let clients: [&[Operation]; 2] = [&[Increment(0)], &[Read(0)]];
    holds(World { retries: 1, losses: 2, ..world(&clients) }, 1_000);
}

#[test]
fn no_promise_that_was_held_breaks_a_key() {
    holds(world(&[&[Increment(0), Increment(0)], &[Touch(0)]]), 1_000);
}

#[test]
fn no_promise_that_a_program_has_only_read_under_breaks_a_key() {
    holds(world(&[&[Touch(0), Increment(0), Touch(0)], &[Increment(0)]]), 1_000);
}

#[test]
fn no_order_of_programs_on_two_keys_tears_them_apart() {
    holds(world(&[&[Both], &[Read(0), Read(1)]]), 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_attempts_on_two_keys_tears_them_apart() {
    holds(World { retries: 1, ..world(&[&[Both], &[Increment(0), Read(1)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn what_a_program_has_only_read_stays_until_it_is_decided() {
    let clients: [&[Operation]; 3] = [&[Guarded], &[Delete(0), Read(1)], &[Read(1)]];
    holds(World { is_stocked: true, ..world(&clients) }, 1_000);
}

#[test]
fn no_order_of_claims_and_programs_breaks_a_key() {
    holds(world(&[&[Claim(0)], &[Increment(0)], &[Read(0)]]), 1_000);
}

#[test]
fn no_order_of_a_lease_and_a_program_that_takes_it_over_breaks_a_key() {
    holds(World { retries: 1, ..world(&[&[Claim(0), Release(0)], &[Touch(0)]]) }, 1_000);
}

#[test]
fn no_lease_that_ends_beside_an_open_register_breaks_a_key() {
    holds(World { retries: 1, ends: true, ..world(&[&[Claim(0)], &[Touch(0), Read(0)]]) }, 1_000);
}

#[test]
fn no_order_of_a_lease_that_a_program_only_reads_breaks_the_other_key() {
    holds(world(&[&[Claim(0), Release(0), Read(1)], &[Guarded]]), 1_000);
}

#[test]
fn no_order_of_who_settles_breaks_a_key() {
    holds(world(&[&[Increment(0)], &[Increment(0)], &[Settle(0)]]), 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_who_settles_tears_two_keys_apart() {
    holds(World { retries: 1, ..world(&[&[Both], &[Settle(0), Read(1)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_who_settles_beside_a_lease_breaks_a_key() {
    holds(world(&[&[Claim(0), Read(0)], &[Increment(0)], &[Settle(0)]]), 1_000);
}

#[test]
fn no_lost_answer_tears_two_keys_apart() {
    holds(World { retries: 1, losses: 1, ..world(&[&[Both], &[Read(1)]]) }, 1_000);
}

#[test]
fn a_list_that_is_too_short_is_an_error() {
    let clients: [&[Operation]; 2] = [&[Increment(0)], &[Increment(0)]];
    holds(World { retries: 1, keep: keep(1, 0), ..world(&clients) }, 1_000);
}

/// The other worker continues during the pause, and writes more programs than are kept.
#[test]
fn no_worker_that_pauses_is_forgotten() {
    let clients: [&[Operation]; 2] = [&[Increment(0)], &[Increment(0), Increment(0)]];
    holds(World { retries: 1, keep: keep(1, 1), is_enough: true, ..world(&clients) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_worker_that_is_away_for_long_runs_a_program_twice() {
    let clients: [&[Operation]; 2] = [&[Increment(0)], &[Increment(0), Increment(0)]];
    let keep = Keep { age_us: ROUND, ..keep(1, 1) };
    holds(World { retries: 1, keep, ..world(&clients) }, 1_000);
}

#[test]
fn no_group_that_its_worker_has_followed_up_is_torn_apart() {
    let clients: [&[Operation]; 2] = [&[Both, Increment(1), Increment(1)], &[Read(0)]];
    holds(World { keep: keep(1, 1), ..world(&clients) }, 1_000);
}

/// Three clients that mix programs on one key with programs on both. They run long enough for one
/// key to forget what the other one still shows.
fn mixing() -> World {
    let clients: [&[Operation]; 3] = [
        &[Increment(0), Both, Increment(1), Both, Increment(0), Increment(0), Increment(0), Both],
        &[Increment(1), Both, Increment(0), Increment(0), Both, Increment(1), Increment(1), Both],
        &[Both, Increment(0), Both, Increment(1), Both, Increment(0), Increment(1)],
    ];
    World { retries: 100, slow: 1, is_told_by_all: true, keep: keep(2, 1), ..world(&clients) }
}

#[test]
fn no_key_is_stuck_by_programs_on_it_and_another() {
    holds_by_lot(mixing(), 1, 200_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_key_is_stuck_by_programs_on_it_and_another_for_long() {
    holds_by_lot(mixing(), 2, 3_000_000);
}

/// Same as [`mixing`], but the last master forgets after both keys have been in use for a while.
fn forgetting() -> World {
    World { forgets: true, forgets_after: 300, is_told_by_all: false, keep: keep(2, 2), ..mixing() }
}

/// A program on both keys may fail on one master and yet have overwritten one of two copies of a
/// key's value.
#[test]
fn no_key_loses_what_it_held_as_a_master_forgets() {
    holds_by_lot(forgetting(), 1, 500_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_key_loses_what_it_held_as_a_master_forgets_after_long() {
    for seed in [2, 3] {
        breaks_nothing_by_lot(World { slow: 0, ..forgetting() }, seed, 1_500_000);
        holds_by_lot(forgetting(), seed, 1_500_000);
    }
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_programs_on_keys_in_common_tears_them_apart() {
    holds(world(&[&[Both], &[Increment(0)], &[Read(1)]]), 100_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_attempts_on_a_lease_breaks_a_key() {
    holds(World { retries: 1, ..world(&[&[Claim(0)], &[Touch(0)], &[Read(0)]]) }, 100_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_two_claims_and_a_program_that_takes_over_breaks_a_key() {
    holds(world(&[&[Claim(0), Release(0)], &[Claim(0)], &[Touch(0)]]), 100_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_programs_around_an_admission_breaks_a_key() {
    holds(World { forgets: true, ..world(&[&[Increment(0)], &[Increment(0)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_programs_around_an_admission_tears_two_keys_apart() {
    holds(World { forgets: true, ..world(&[&[Both], &[Read(0), Read(1)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_a_lease_and_a_program_around_an_admission_breaks_a_key() {
    holds(World { forgets: true, ..world(&[&[Claim(0), Read(0)], &[Touch(0)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_lease_beside_an_open_register_is_lost_by_an_admission() {
    holds(World { forgets: true, ..world(&[&[Claim(0), Read(0)], &[Increment(0)]]) }, 1_000);
}

/// A claim may reach a master after that has received a copy of its lease. It would then count
/// twice, once before and once after the deletion. So the master's connections are closed before it
/// is admitted.
#[test]
#[ignore = "takes minutes: make test-model"]
fn no_lease_that_was_deleted_comes_back_by_an_admission() {
    let world = world(&[&[Claim(0)], &[Delete(0), Read(0)]]);
    holds(World { forgets: true, is_cut_off: true, ..world }, 1_000);
}

#[test]
fn what_fades_never_comes_back_whatever_the_clocks_say() {
    let world = World { slow: 40, retries: 1, ..world(&[&[Read(0), Read(0)], &[Read(0)]]) };
    holds(World { is_stocked: true, is_stock_short: true, ..world }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn what_passes_never_comes_back_whatever_the_clocks_say() {
    let clients: [&[Operation]; 2] = [&[Pass(0), Read(0)], &[Read(0), Read(0)]];
    holds(World { fades: true, slow: 25, retries: 1, ..world(&clients) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn what_faded_for_one_has_faded_for_all() {
    let clients: [&[Operation]; 2] = [&[Pass(0), Read(0), Read(0)], &[Read(0)]];
    holds(World { fades: true, slow: 40, retries: 1, ..world(&clients) }, 100_000);
}

#[test]
fn what_fades_can_be_claimed_and_counted() {
    holds(
        World { fades: true, slow: 12, ..world(&[&[Pass(0), Claim(0)], &[Touch(0), Read(0)]]) },
        1_000,
    );
}

#[test]
fn what_a_master_has_lost_is_brought_back() {
    let clients: [&[Operation]; 2] = [&[Increment(0), Read(0)], &[Read(0)]];
    holds(World { loses: 1, is_stocked: true, ..world(&clients) }, 1_000);
}

#[test]
fn no_stamp_that_is_dropped_lets_a_program_run_twice() {
    let world = world(&[&[Delete(0)]]);
    holds(World { sweeps: 1, retries: 1, is_stocked: true, ..world }, 100);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_stamp_that_is_dropped_lets_anything_rise_again() {
    let world = world(&[&[Delete(0), Read(0)], &[Increment(0)]]);
    holds(World { sweeps: 1, is_stocked: true, ..world }, 1_000);
}

#[test]
fn no_promise_is_dropped_along_with_its_stamp() {
    holds(World { sweeps: 1, ..world(&[&[Increment(0), Read(0)], &[Increment(0)]]) }, 1_000);
}

#[test]
fn no_stamp_is_dropped_that_another_key_hangs_on() {
    let world = world(&[&[Both, Delete(1), Read(1), Read(0)]]);
    holds(World { sweeps: 1, is_told_by_any_two: true, ..world }, 1_000);
}

#[test]
fn what_has_ended_and_was_dropped_never_comes_back() {
    let world = World { sweeps: 1, slow: 8, ..world(&[&[Read(0)], &[Read(0)]]) };
    holds(World { is_stocked: true, is_stock_short: true, ..world }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn what_passes_and_was_dropped_never_comes_back() {
    let clients: [&[Operation]; 2] = [&[Pass(0), Read(0)], &[Read(0)]];
    holds(World { fades: true, slow: 8, sweeps: 1, ..world(&clients) }, 100_000);
}

#[test]
fn no_stamp_that_is_dropped_beside_a_lease_breaks_a_key() {
    holds(World { sweeps: 1, ..world(&[&[Claim(0), Read(0)], &[Delete(0)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_stamp_that_is_dropped_after_a_lease_was_taken_over_breaks_a_key() {
    holds(World { sweeps: 1, ..world(&[&[Claim(0), Read(0)], &[Touch(0), Delete(0)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_stamp_that_is_dropped_around_an_admission_breaks_a_key() {
    let world = world(&[&[Delete(0), Read(0)]]);
    holds(World { sweeps: 1, forgets: true, is_stocked: true, ..world }, 1_000);
}

#[test]
fn what_took_an_end_away_too_late_came_to_nothing() {
    let world = world(&[&[Read(0), Read(0)], &[Touch(0)]]);
    holds(World { is_stocked: true, is_stock_short: true, ..world }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn what_took_the_end_of_what_passes_away_too_late_came_to_nothing() {
    holds(World { fades: true, ..world(&[&[Pass(0), Read(0), Read(0)], &[Touch(0)]]) }, 1_000);
}

#[test]
fn what_took_an_end_away_too_late_does_not_follow_a_claim() {
    let clients: [&[Operation]; 2] = [&[Claim(0), Release(0), Read(0)], &[Touch(0)]];
    holds(World { is_stocked: true, is_stock_short: true, ..world(&clients) }, 1_000);
}

#[test]
fn what_all_masters_have_lost_is_absent_from_then_on() {
    holds(World { loses: 3, is_stocked: true, ..world(&[&[Increment(0)], &[Read(0)]]) }, 1_000);
}

#[test]
fn what_all_masters_have_lost_can_be_claimed() {
    let clients: [&[Operation]; 2] = [&[Claim(0)], &[Read(0)]];
    holds(World { loses: 3, is_stocked: true, ..world(&clients) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn different_strings_on_all_masters_are_removed() {
    let clients: [&[Operation]; 2] = [&[Settle(0), Increment(0)], &[Claim(0), Read(0)]];
    holds(World { litter: Litter::Strings(3), gives_up: true, ..world(&clients) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn different_strings_on_two_masters_are_removed() {
    let clients: [&[Operation]; 2] = [&[Settle(0), Increment(0)], &[Claim(0), Read(0)]];
    holds(World { litter: Litter::Strings(2), gives_up: true, ..world(&clients) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn a_string_beside_a_register_that_lives_is_removed() {
    for litter in [Litter::NoStamp, Litter::Beside] {
        let clients: [&[Operation]; 2] = [&[Settle(0)], &[Delete(0), Claim(0)]];
        holds(World { litter, is_stocked: true, ..world(&clients) }, 1_000);
        let clients: [&[Operation]; 3] = [&[Settle(0)], &[Delete(0)], &[Claim(0)]];
        holds(World { litter, is_stocked: true, ..world(&clients) }, 1_000);
    }
}

#[test]
fn no_lease_is_granted_twice_by_who_removes_remains() {
    holds(world(&[&[Claim(0)], &[Claim(0)], &[Settle(0)]]), 1_000);
}

#[test]
fn no_lease_that_was_given_up_is_counted_after_its_remains_were_removed() {
    let clients: [&[Operation]; 2] = [&[Claim(0), Read(0)], &[Settle(0), Read(0)]];
    holds(World { gives_up: true, ..world(&clients) }, 1_000);
}

#[test]
fn no_lease_beside_a_program_is_lost_by_who_removes_remains() {
    holds(world(&[&[Claim(0)], &[Increment(0)], &[Settle(0)]]), 1_000);
}

/// A program that removed an expiry may have been decided with the vote of a master that has
/// forgotten it. Of the other two masters, one has run it as well, and one has cleaned up the
/// expired value.
#[test]
#[ignore = "takes minutes: make test-model"]
fn no_claim_passes_after_an_admission_beside_what_took_an_end_away() {
    for clients in [[&[Claim(0)][..], &[Touch(0)]], [&[Claim(0), Read(0)], &[Touch(0)]]] {
        let world = World { is_stocked: true, is_stock_short: true, ..world(&clients) };
        holds(World { forgets: true, claims_once_admitted: true, ..world }, 1_000);
    }
}

/// The program keeps the expiry, or leaves nothing, so claims find the same after that.
#[test]
#[ignore = "takes minutes: make test-model"]
fn no_claim_after_an_end_that_a_program_has_kept_breaks_a_key() {
    for operation in [Increment(0), Delete(0)] {
        let world = world(&[&[Claim(0), Read(0)], &[operation]]);
        holds(World { is_stocked: true, is_stock_short: true, ..world }, 1_000);
    }
    let world = world(&[&[Claim(0), Read(1)], &[Both]]);
    holds(World { is_stocked: true, is_stock_short: true, retries: 1, ..world }, 1_000);
}

/// The value that the program left has expired as well.
#[test]
#[ignore = "takes minutes: make test-model"]
fn what_ran_before_an_admission_is_told_once_it_is_over() {
    let world = world(&[&[Read(0)], &[Increment(0)]]);
    let world = World { is_stocked: true, is_stock_short: true, ..world };
    holds(World { forgets: true, is_told_by_all: true, ..world }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_lease_is_lost_by_who_removes_remains_around_an_admission() {
    let clients: [&[Operation]; 2] = [&[Claim(0), Read(0)], &[Settle(0)]];
    holds(World { forgets: true, gives_up: true, ..world(&clients) }, 1_000);
}

#[test]
fn no_flush_beside_a_program_breaks_a_key() {
    for flushes_late in [false, true] {
        let world = world(&[&[Increment(0), Read(0)], &[Flush]]);
        holds(World { is_stocked: true, flushes_late, ..world }, 1_000);
    }
}

#[test]
fn nothing_rises_again_after_a_flush() {
    for flushes_late in [false, true] {
        let world = world(&[&[Increment(0)], &[Flush, Read(0)]]);
        holds(World { is_stocked: true, flushes_late, ..world }, 1_000);
    }
}

#[test]
fn no_flush_that_nobody_hears_of_happens_for_some_only() {
    let world = world(&[&[Flush], &[Read(0)], &[Read(0)]]);
    holds(World { is_stocked: true, catches_up: true, ..world }, 1_000);
}

#[test]
fn no_lease_is_granted_twice_across_a_flush() {
    let world = world(&[&[Claim(0)], &[Flush, Claim(0)]]);
    holds(World { catches_up: true, ..world }, 1_000);
}

#[test]
fn no_release_tells_anything_else_across_a_flush() {
    for flushes_late in [false, true] {
        let one = world(&[&[Claim(0), Release(0)], &[Flush, Read(0)]]);
        holds(World { catches_up: true, flushes_late, ..one }, 1_000);
        let one = world(&[&[Claim(0), Release(0), Claim(0)], &[Flush]]);
        holds(World { catches_up: true, flushes_late, ..one }, 1_000);
        let one = world(&[&[Claim(0), Release(0)], &[Flush, Claim(0)]]);
        holds(World { flushes_late, ..one }, 1_000);
    }
}

#[test]
fn no_flush_tears_two_keys_apart() {
    let world = world(&[&[Both], &[Flush, Read(1)]]);
    holds(World { is_stocked: true, flushes_late: true, ..world }, 1_000);
}

#[test]
fn no_promise_that_was_held_outlives_a_flush() {
    let world = world(&[&[Increment(0), Increment(0)], &[Flush]]);
    holds(World { retries: 1, ..world }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn who_is_admitted_across_a_flush_needs_nothing_from_before() {
    let world = world(&[&[Read(0)], &[Flush]]);
    holds(World { is_stocked: true, forgets: true, ..world }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_program_beside_a_flush_and_an_admission_breaks_a_key() {
    let world = world(&[&[Increment(0), Read(0)], &[Flush]]);
    holds(World { is_stocked: true, forgets: true, ..world }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_lease_is_granted_twice_across_a_flush_and_an_admission() {
    let world = world(&[&[Claim(0)], &[Flush, Claim(0)]]);
    holds(World { forgets: true, catches_up: true, ..world }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_flush_around_an_admission_tears_two_keys_apart() {
    let world = world(&[&[Both], &[Flush, Read(1)]]);
    holds(World { is_stocked: true, forgets: true, ..world }, 1_000);
}

/// Two proposers of programs, and a flush that any master may do at any time, or never.
#[test]
#[ignore = "takes minutes: make test-model"]
fn no_flush_between_two_programs_breaks_a_key() {
    for flushes_late in [false, true] {
        let world = world(&[&[Increment(0)], &[Increment(0), Read(0)], &[Flush]]);
        holds(World { is_stocked: true, flushes_late, ..world }, 100_000);
    }
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_two_flushes_breaks_a_key() {
    for flushes_late in [false, true] {
        let world = world(&[&[Increment(0), Read(0)], &[Flush], &[Flush]]);
        holds(World { is_stocked: true, flushes_late, catches_up: true, ..world }, 100_000);
    }
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_lease_beside_a_program_breaks_a_key_across_a_flush() {
    let world = world(&[&[Claim(0), Read(0)], &[Touch(0)], &[Flush]]);
    holds(World { catches_up: true, ..world }, 100_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_attempt_that_was_lost_breaks_a_key_across_a_flush() {
    let world = world(&[&[Increment(0)], &[Flush, Read(0)]]);
    holds(World { retries: 1, losses: 1, is_stocked: true, ..world }, 100_000);
}

#[test]
fn no_clock_that_is_ahead_gives_a_lock_to_two() {
    holds(World { fast: 40, retries: 1, ..world(&[&[Take(0)], &[Take(0)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_clock_that_is_ahead_ends_what_another_has_adopted() {
    holds(World { fast: 40, retries: 1, ..world(&[&[Take(0)], &[Read(0), Take(0)]]) }, 1_000);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_clock_that_is_ahead_keeps_from_a_master_what_it_has_forgotten() {
    holds(World { fast: 40, forgets: true, ..world(&[&[Take(0)], &[Claim(0)]]) }, 1_000);
}

#[test]
fn no_clock_that_is_ahead_drops_what_stays() {
    holds(World { fast: 40, sweeps: 1, ..world(&[&[Take(0)], &[Claim(0)]]) }, 1_000);
}
