//! Rules that are removed, and the violations that the model then finds.

use redlock_proxy::decision::keyspace::Program;
use redlock_proxy::decision::keyspace::proposer::{MasterAnswer, Request};
use redlock_proxy::decision::register::ballot::Ballot;

use crate::exhaustive::goes_wrong;
use crate::server::Job;
use crate::server::Operation::{self, *};
use crate::specification::slots::{self, Slots};
use crate::world::{LINEARIZABLE, SETTLED, World};

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// An adopted state keeps the ballot under which it was found.
    AdoptsWithTheOldBallot,
    /// An unanswered operation is sent again without checking whether it has run.
    RunsAgainBlindly,
    /// A program runs on any state.
    IgnoresTheExpectedBallot,
    /// A master accepts ballots below its promise.
    BreaksPromises,
    /// A program runs on any lease.
    IgnoresTheExpectedLease,
    /// A state is adopted over any lease.
    AdoptsOverLeases,
    /// When an undecided program is replaced, the lease that it had found is not restored.
    LosesTheLease,
    /// A program that only reads a key leaves no stamp there.
    StampsOnlyWhatIsWritten,
    /// Expiry is judged by the requester's clock, and promises carry no time.
    TellsTheTimeByItself,
    /// Masters make promises beyond an expiry, whatever their own clocks say.
    BelievesEveryClock,
    /// A stamp is dropped if its value has expired by the sweeper's clock.
    SweepsByItsOwnClock,
    /// A key cleaned up after its expiry still accepts older requests.
    CleansUpWithoutAPromise,
    /// An open program is adopted although the value that it found has expired and claims found
    /// nothing.
    AdoptsPastEnds,
    /// A dropped stamp leaves no trace.
    DropsWithoutAFloor,
    /// The floor rises to the accepted ballot instead of the promised one.
    DropsPromises,
    /// The floor does not rise to the expiry of expired values.
    DropsEnds,
    /// A stamp is dropped although not every member has it.
    DropsWhatAQuorumHas,
    /// A stamp is dropped although an open group names it.
    DropsWhatGroupsName,
    /// A program that a list without a stamp does not mention is reported as not run.
    DeniesBelowTheFloor,
    /// Votes count under any roster version.
    MixesVersions,
    /// A master runs programs before its admission.
    RunsBeforeItIsIn,
    /// The admitted master receives nothing for keys on which the others cannot decide.
    LetsClaimsPass,
    /// A state that depends on another key is adopted without that key.
    AdoptsKeysAlone,
    /// Copies on a minority are removed while their claims still count votes.
    RemovesAtOnce,
    /// Copies are removed whoever holds them.
    RemovesWhateverHeHolds,
    /// A master accepts a state although it was promised before or after another flush.
    IgnoresTheFlush,
    /// State from a master that has missed a flush counts by its ballots.
    CountsWhatMissedAFlush,
    /// A flush by a minority is not repeated on the others.
    LeavesAFlushToAMinority,
    /// An unanswered flush gets another counter.
    FlushesAgain,
    /// The counter of a flush is not above those of completed ones.
    FlushesByItsOwnClock,
    /// A master is emptied without a trace.
    FlushesWithoutATrace,
    /// Votes for leases count although there was a flush between them.
    MixesFlushes,
    /// The admitted master receives nothing if there was ever a flush.
    TakesAnyFlushForALateOne,
}

/// Spoils a request before it is sent.
pub(crate) fn spoil(bug: Option<Bug>, request: &mut Request<Job>) {
    if let (Some(Bug::AdoptsWithTheOldBallot), Request::Adopt(adopt)) = (bug, request) {
        adopt.states.iter_mut().for_each(|adopted| adopted.state.accepted = adopted.from);
    }
}

/// Executes a request on a master that breaks a rule. Returns `None` if the bug does not affect
/// masters.
pub(crate) fn execute(
    world: &World,
    slots: &mut Slots<Job>,
    request: &Request<Job>,
    own_us: u64,
) -> Option<MasterAnswer<Job>> {
    let bug = world.bug?;
    let mut request = request.clone();
    let before = slots.clone();
    let flush = slots.last_flush();
    match &mut request {
        Request::Apply(apply) => {
            if matches!(bug, Bug::IgnoresTheFlush | Bug::CountsWhatMissedAFlush) {
                apply.basis.iter_mut().for_each(|basis| basis.flush = flush);
            }
            let keys = apply.program.keys();
            for (slot, basis) in keys.iter().map(|key| before.get(key)).zip(&mut apply.basis) {
                match bug {
                    Bug::IgnoresTheExpectedBallot => basis.accepted = slot.state.accepted,
                    Bug::IgnoresTheExpectedLease => basis.lease = slot.lease,
                    _ => {}
                }
            }
            if bug == Bug::BreaksPromises {
                keys.iter().for_each(|key| slots.of(key).promised = Ballot::NONE);
            }
        }
        Request::Adopt(adopt) => {
            if matches!(bug, Bug::IgnoresTheFlush | Bug::CountsWhatMissedAFlush) {
                adopt.states.iter_mut().for_each(|adopted| adopted.flush = flush);
            }
            for adopted in &adopt.states {
                let slot = slots.of(&adopted.key);
                match bug {
                    Bug::BreaksPromises | Bug::AdoptsWithTheOldBallot => {
                        slot.promised = Ballot::NONE;
                    }
                    Bug::AdoptsOverLeases => {
                        slot.lease = adopted.state.open.as_ref().and_then(|open| open.found);
                    }
                    Bug::LosesTheLease => {
                        slot.state.open.as_mut().map(|open| open.found.take());
                    }
                    _ => {}
                }
            }
        }
        Request::Prepare(keys, _) => {
            let is_behind = keys.iter().any(|(_, met)| *met > flush);
            if is_behind && bug == Bug::LeavesAFlushToAMinority {
                return Some(slots::execute(&request, &mut before.clone(), world.keep, own_us));
            }
        }
    }
    let mut answer = slots::execute(&request, slots, world.keep, own_us);
    match (bug, &request, &mut answer) {
        (Bug::AdoptsPastEnds, _, MasterAnswer::Promised(sights)) => {
            let open = sights.iter_mut().filter_map(|sight| sight.state.open.as_mut());
            open.for_each(|open| open.until_us = None);
        }
        (Bug::DeniesBelowTheFloor, _, MasterAnswer::Promised(sights)) => {
            sights.iter_mut().for_each(|sight| sight.floor = Ballot::NONE);
        }
        (Bug::StampsOnlyWhatIsWritten, Request::Apply(apply), MasterAnswer::Applied(_)) => {
            for key in apply.program.keys() {
                let slot = slots.of(&key);
                match &mut slot.state.open {
                    Some(open) if open.is_kept => slot.state = before.get(&key).state,
                    Some(open) => open.group.retain(|(other, _)| *other == key),
                    None => {}
                }
            }
        }
        (Bug::CountsWhatMissedAFlush, _, MasterAnswer::Promised(sights)) => {
            sights.iter_mut().for_each(|sight| sight.flush = 0);
        }
        (Bug::AdoptsKeysAlone, Request::Prepare(keys, _), MasterAnswer::Promised(sights)) => {
            for ((key, _), sight) in keys.iter().zip(sights) {
                if let Some(open) = &mut sight.state.open {
                    open.group.retain(|(other, _)| other == key);
                }
            }
        }
        _ => {}
    }
    Some(answer)
}

fn breaks(bug: Bug, clients: &[&[Operation]], retries: u8, losses: u8) {
    let world = World { bug: Some(bug), retries, losses, ..World::of(clients) };
    goes_wrong(world, LINEARIZABLE);
}

#[test]
fn adopting_with_the_old_ballot_loses_an_answer() {
    breaks(
        Bug::AdoptsWithTheOldBallot,
        &[&[Increment(0)], &[Increment(0)], &[Read(0), Read(0)]],
        0,
        0,
    );
}

#[test]
fn sending_an_unanswered_program_again_counts_twice() {
    breaks(Bug::RunsAgainBlindly, &[&[Increment(0)]], 1, 2);
}

#[test]
fn a_program_on_another_state_than_it_expects_loses_an_answer() {
    breaks(Bug::IgnoresTheExpectedBallot, &[&[Increment(0)], &[Increment(0)]], 1, 0);
}

#[test]
fn accepting_below_a_promise_loses_an_answer() {
    breaks(Bug::BreaksPromises, &[&[Increment(0)], &[Increment(0)]], 1, 0);
}

#[test]
fn a_program_on_a_lease_that_it_does_not_expect_takes_a_lock_away() {
    breaks(Bug::IgnoresTheExpectedLease, &[&[Claim(0), Read(0)], &[Increment(0)]], 0, 0);
}

#[test]
fn adopting_over_a_lease_takes_a_lock_away() {
    breaks(Bug::AdoptsOverLeases, &[&[Claim(0), Read(0)], &[Increment(0)], &[Read(0)]], 0, 0);
}

#[test]
fn a_lease_that_a_program_had_found_in_vain_is_lost_with_it() {
    breaks(Bug::LosesTheLease, &[&[Claim(0), Read(0)], &[Touch(0)], &[Read(0)]], 0, 0);
}

#[test]
fn what_depends_on_another_key_and_is_adopted_alone_tears_them_apart() {
    breaks(Bug::AdoptsKeysAlone, &[&[Both], &[Read(0), Read(1)]], 0, 0);
}

#[test]
fn what_was_only_read_and_changes_before_the_rest_is_decided_turns_time_back() {
    let clients: [&[Operation]; 3] = [&[Guarded], &[Delete(0), Read(1)], &[Read(1)]];
    let bug = Some(Bug::StampsOnlyWhatIsWritten);
    goes_wrong(World { bug, is_stocked: true, ..World::of(&clients) }, LINEARIZABLE);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn votes_from_before_and_after_an_admission_lose_an_answer() {
    let bug = Some(Bug::MixesVersions);
    let clients: [&[Operation]; 2] = [&[Increment(0)], &[Read(0)]];
    goes_wrong(World { bug, forgets: true, ..World::of(&clients) }, LINEARIZABLE);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn a_program_that_ran_before_its_master_was_in_leaves_a_lease_behind() {
    let bug = Some(Bug::RunsBeforeItIsIn);
    let world = World::of(&[&[Claim(0)], &[Delete(0), Read(0)]]);
    goes_wrong(World { bug, forgets: true, is_cut_off: true, ..world }, LINEARIZABLE);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn a_claim_passes_where_only_who_has_forgotten_knew_better() {
    let bug = Some(Bug::LetsClaimsPass);
    let world = World::of(&[&[Claim(0)], &[Touch(0)]]);
    let world = World { is_stocked: true, is_stock_short: true, forgets: true, ..world };
    goes_wrong(World { bug, claims_once_admitted: true, ..world }, LINEARIZABLE);
}

#[test]
fn what_faded_comes_back_for_a_slow_clock_that_tells_the_time_by_itself() {
    let bug = Some(Bug::TellsTheTimeByItself);
    let world = World::of(&[&[Read(0), Read(0)], &[Read(0)]]);
    let world = World { is_stocked: true, is_stock_short: true, slow: 40, retries: 1, ..world };
    goes_wrong(World { bug, ..world }, LINEARIZABLE);
}

#[test]
fn a_stamp_that_is_dropped_without_a_floor_takes_its_promise_along() {
    let bug = Some(Bug::DropsWithoutAFloor);
    let clients: [&[Operation]; 2] = [&[Increment(0), Read(0)], &[Increment(0)]];
    goes_wrong(World { bug, sweeps: 1, ..World::of(&clients) }, LINEARIZABLE);
}

#[test]
fn a_floor_at_what_was_accepted_forgets_what_was_promised() {
    let bug = Some(Bug::DropsPromises);
    let clients: [&[Operation]; 2] = [&[Increment(0), Read(0)], &[Increment(0)]];
    goes_wrong(World { bug, sweeps: 1, ..World::of(&clients) }, LINEARIZABLE);
}

#[test]
fn a_stamp_that_only_a_quorum_has_and_drops_lets_what_was_deleted_rise_again() {
    let bug = Some(Bug::DropsWhatAQuorumHas);
    let world = World::of(&[&[Delete(0), Read(0)]]);
    goes_wrong(World { bug, sweeps: 1, is_stocked: true, ..world }, LINEARIZABLE);
}

#[test]
fn a_program_that_is_denied_below_the_floor_runs_twice() {
    let bug = Some(Bug::DeniesBelowTheFloor);
    let world = World { sweeps: 1, retries: 1, is_stocked: true, ..World::of(&[&[Delete(0)]]) };
    goes_wrong(World { bug, ..world }, LINEARIZABLE);
}

#[test]
fn a_stamp_that_a_group_names_and_that_is_dropped_leaves_the_others_undecided() {
    let bug = Some(Bug::DropsWhatGroupsName);
    let world = World::of(&[&[Both], &[Delete(1), Read(1)]]);
    let world = World { retries: 1, sweeps: 1, is_told_by_any_two: true, ..world };
    goes_wrong(World { bug, ..world }, SETTLED);
}

#[test]
fn what_has_ended_and_is_dropped_below_its_end_comes_back_for_a_slow_clock() {
    let bug = Some(Bug::DropsEnds);
    let world = World::of(&[&[Read(0)], &[Read(0)]]);
    let world = World { is_stocked: true, is_stock_short: true, slow: 8, sweeps: 1, ..world };
    goes_wrong(World { bug, ..world }, LINEARIZABLE);
}

#[test]
fn what_is_older_than_an_end_and_comes_after_it_breaks_what_was_claimed() {
    let bug = Some(Bug::CleansUpWithoutAPromise);
    let clients: [&[Operation]; 2] = [&[Claim(0), Release(0), Read(0)], &[Touch(0)]];
    let world = World { is_stocked: true, is_stock_short: true, ..World::of(&clients) };
    goes_wrong(World { bug, ..world }, LINEARIZABLE);
}

#[test]
fn what_ran_before_an_end_and_is_adopted_after_a_claim_turns_time_back() {
    let bug = Some(Bug::AdoptsPastEnds);
    let clients: [&[Operation]; 2] = [&[Claim(0), Release(0), Read(0)], &[Touch(0)]];
    let world = World { is_stocked: true, is_stock_short: true, ..World::of(&clients) };
    goes_wrong(World { bug, ..world }, LINEARIZABLE);
}

#[test]
fn a_copy_that_is_removed_while_its_claim_counts_makes_two_holders() {
    breaks(Bug::RemovesAtOnce, &[&[Claim(0)], &[Claim(0)], &[Settle(0)]], 0, 0);
}

#[test]
fn a_copy_that_is_removed_whoever_holds_it_takes_a_lock_away() {
    breaks(Bug::RemovesWhateverHeHolds, &[&[Claim(0), Read(0)], &[Settle(0)]], 0, 0);
}

/// The behaviour of flushes before masters recorded the last one.
#[test]
fn a_flush_that_leaves_no_trace_lets_what_was_there_rise_again() {
    let world = World::of(&[&[Flush, Read(0)], &[Read(0)]]);
    let bug = Some(Bug::FlushesWithoutATrace);
    goes_wrong(World { bug, is_stocked: true, ..world }, LINEARIZABLE);
}

#[test]
fn what_was_promised_before_a_flush_and_is_accepted_after_it_is_lost() {
    let world = World::of(&[&[Increment(0), Read(0)], &[Flush]]);
    goes_wrong(World { bug: Some(Bug::IgnoresTheFlush), ..world }, LINEARIZABLE);
}

#[test]
fn what_missed_a_flush_and_counts_by_its_ballots_rises_again() {
    let world = World::of(&[&[Increment(0)], &[Flush, Read(0)]]);
    let bug = Some(Bug::CountsWhatMissedAFlush);
    goes_wrong(World { bug, is_stocked: true, flushes_late: true, ..world }, LINEARIZABLE);
}

#[test]
fn a_flush_that_is_left_to_a_minority_happens_for_some() {
    let world = World::of(&[&[Flush], &[Read(0)], &[Read(0)]]);
    let bug = Some(Bug::LeavesAFlushToAMinority);
    goes_wrong(World { bug, is_stocked: true, ..world }, LINEARIZABLE);
}

#[test]
fn a_flush_with_two_counters_happens_twice() {
    let world = World::of(&[&[Flush], &[Read(0), Increment(0), Read(0)]]);
    let bug = Some(Bug::FlushesAgain);
    goes_wrong(World { bug, retries: 1, is_stocked: true, ..world }, LINEARIZABLE);
}

#[test]
fn a_flush_below_one_that_was_answered_does_nothing() {
    let world = World::of(&[&[Flush, Increment(0), Flush, Read(0)]]);
    let bug = Some(Bug::FlushesByItsOwnClock);
    goes_wrong(World { bug, flushes_late: true, ..world }, LINEARIZABLE);
}

#[test]
fn a_lease_that_is_counted_before_and_after_a_flush_is_granted_twice() {
    let world = World::of(&[&[Claim(0)], &[Flush, Claim(0)]]);
    let bug = Some(Bug::MixesFlushes);
    goes_wrong(World { bug, catches_up: true, ..world }, LINEARIZABLE);
}

/// Both take the key, one of them by a clock that is far ahead.
const TAKERS: [&[Operation]; 2] = [&[Take(0)], &[Take(0)]];

#[test]
fn an_end_that_only_a_fast_clock_has_seen_gives_a_lock_to_two() {
    let bug = Some(Bug::BelievesEveryClock);
    goes_wrong(World { bug, fast: 40, ..World::of(&TAKERS) }, LINEARIZABLE);
}

#[test]
fn a_flush_that_only_who_has_forgotten_had_done_is_undone() {
    let bug = Some(Bug::MixesVersions);
    let clients: [&[Operation]; 2] = [&[Read(0)], &[Flush]];
    goes_wrong(World { bug, forgets: true, is_stocked: true, ..World::of(&clients) }, LINEARIZABLE);
}

#[test]
fn what_was_written_since_an_old_flush_is_lost_with_who_forgets() {
    let bug = Some(Bug::TakesAnyFlushForALateOne);
    let clients: [&[Operation]; 1] = [&[Flush, Increment(0), Read(0)]];
    goes_wrong(World { bug, forgets: true, ..World::of(&clients) }, LINEARIZABLE);
}

#[test]
fn what_a_fast_clock_sweeps_is_claimed_by_another() {
    let bug = Some(Bug::SweepsByItsOwnClock);
    let world = World::of(&[&[Take(0)], &[Claim(0)]]);
    goes_wrong(World { bug, fast: 40, sweeps: 1, ..world }, LINEARIZABLE);
}
