//! Rules of marks and admission that are removed, and the violations that the model then finds.

use std::sync::Arc;

use redlock_proxy::decision::quorum::{MasterId, MasterSet};
use redlock_proxy::decision::roster::admission::{self, Copy, Shown, Task};
use redlock_proxy::decision::roster::mark::{Mark, MarkReading, Proof};
use redlock_proxy::decision::roster::roster::{Change, Roster, Standing};
use redlock_proxy::decision::roster::term::Term;
use stateright::{Checker, HasDiscoveries, Model};

use crate::admission::{MASTERS, Master, World, founded, replacing, term};

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Votes count under the version of their request, whatever the mark shows.
    CountsAnyVersion,
    /// Votes of a newer version count together with those of a member that was put out before it.
    CountsWhoWentOut,
    /// Votes count without a mark.
    CountsWithoutMark,
    /// The mark is set without checking that the provisional one is still there.
    SetsTheMarkBlindly,
    /// One source is considered enough.
    CopiesFromTooFew,
    /// A page counts whatever mark its source shows.
    CopiesBeforeTheRaise,
    /// A master is copied to and marked without being put out first.
    CopiesWithoutPuttingOut,
    /// A lower version is mistaken for the mark of a master that has forgotten.
    TakesALowerVersionForForgetting,
    /// An instance that was never a member is admitted without a copy: it has forgotten nothing.
    AdmitsNewcomersEmpty,
}

/// Returns the mark that is read behind a vote.
pub(crate) fn read(bug: Option<Bug>, master: &Master, proof: Option<&Proof>) -> Option<Mark> {
    let expected = || proof.map(|proof| proof.expected().clone());
    match (bug, &master.mark) {
        (Some(Bug::CountsAnyVersion), Some(mark)) if is_of(proof, mark) => expected(),
        (Some(Bug::CountsWithoutMark), _) => expected(),
        (_, mark) => mark.clone(),
    }
}

fn is_of(proof: Option<&Proof>, mark: &Mark) -> bool {
    let reading = MarkReading { mark: Some(mark.clone()), time_continues: true };
    proof.is_some_and(|proof| proof.check(&reading, ()).is_some())
}

/// Returns the term in which a proxy counts votes.
pub(crate) fn known(bug: Option<Bug>, roster: &Roster) -> Arc<Term> {
    match bug {
        Some(Bug::CountsWhoWentOut) => term(&Roster { version: roster.version, ..founded() }),
        _ => term(roster),
    }
}

/// Returns a proxy's next task.
pub(crate) fn next(
    bug: Option<Bug>,
    roster: &Roster,
    master: MasterId,
    shown: &[Option<Shown>],
    copy: Option<&Copy>,
) -> Option<Task> {
    match bug {
        Some(Bug::CopiesBeforeTheRaise) if roster.voters().len() < MASTERS => {
            let raised = as_if_raised(roster, shown);
            admission::next(roster, master, &raised, copy)
        }
        Some(Bug::CopiesWithoutPuttingOut) => without_putting_out(roster, master, shown, copy),
        Some(Bug::TakesALowerVersionForForgetting) => {
            let task = admission::next(roster, master, shown, copy)?;
            let Some(mark) = &shown[master.index()].as_ref()?.mark else { return Some(task) };
            let expected = Mark::expected(roster, master, 0)?;
            let member = roster.member(master)?;
            let out = Change::Out { member: master, incarnation: member.incarnation };
            let is_raise = mark.missed_a_raise_to(&expected) && roster.voters().len() == MASTERS;
            Some(if is_raise { Task::Change(out) } else { task })
        }
        Some(Bug::AdmitsNewcomersEmpty) => {
            let copied = copy.map(|copy| Copy { sources: MasterSet::first(MASTERS), ..*copy });
            admission::next(roster, master, shown, copied.as_ref())
        }
        _ => admission::next(roster, master, shown, copy),
    }
}

fn as_if_raised(roster: &Roster, shown: &[Option<Shown>]) -> Vec<Option<Shown>> {
    let raised = |(at, shown): (usize, &Option<Shown>)| {
        let mut shown = shown.clone()?;
        let expected = Mark::expected(roster, MasterId::new(at), 0)?;
        if shown.mark.as_ref().is_some_and(|mark| mark.missed_a_raise_to(&expected)) {
            shown.mark = Some(expected);
        }
        Some(shown)
    };
    shown.iter().enumerate().map(raised).collect()
}

/// Proceeds as if the member were out, without telling the other proxies.
fn without_putting_out(
    roster: &Roster,
    master: MasterId,
    shown: &[Option<Shown>],
    copy: Option<&Copy>,
) -> Option<Task> {
    let expected = Mark::expected(roster, master, 0)?;
    if shown[master.index()].as_ref()?.mark.as_ref() == Some(&expected) {
        return None;
    }
    let mut as_if = roster.clone();
    as_if.members[master.index()].standing = Standing::Out { since: 0 };
    let task = admission::next(&as_if, master, shown, copy)?;
    let is_in = matches!(task, Task::Change(Change::In { .. }));
    Some(if is_in { Task::Mark { master, mark: expected } } else { task })
}

fn steps_to_failure(bug: Bug, world: World, property: &'static str) -> usize {
    let checker = World { bug: Some(bug), ..world }.checker().threads(1);
    let found = checker.finish_when(HasDiscoveries::AnyOf([property].into())).spawn_bfs().join();
    let steps = found.discovery(property).expect("a failure").into_actions();
    println!("{bug:?}: {} steps, {} states", steps.len(), found.unique_state_count());
    steps.len()
}

fn steps_to_double_grant(bug: Bug, world: World) -> usize {
    steps_to_failure(bug, world, "a lease is granted once")
}

#[test]
fn votes_of_two_versions_grant_twice() {
    assert!(steps_to_double_grant(Bug::CountsAnyVersion, World::small()) < 30);
}

#[test]
fn votes_beside_those_of_who_went_out_grant_twice() {
    assert!(steps_to_double_grant(Bug::CountsWhoWentOut, World::small()) < 40);
}

#[test]
fn votes_without_marks_grant_twice() {
    assert!(steps_to_double_grant(Bug::CountsWithoutMark, World::small()) < 30);
}

#[test]
fn a_mark_that_is_set_blindly_hides_a_flush() {
    let world = World { forgets: vec![2, 2], ..World::small() };
    assert!(steps_to_double_grant(Bug::SetsTheMarkBlindly, world) < 40);
}

#[test]
fn one_source_is_not_enough() {
    assert!(steps_to_double_grant(Bug::CopiesFromTooFew, World::small()) < 30);
}

#[test]
fn copying_before_the_others_are_raised_grants_twice() {
    assert!(steps_to_double_grant(Bug::CopiesBeforeTheRaise, World::small()) < 30);
}

#[test]
fn copying_without_putting_out_grants_twice() {
    assert!(steps_to_double_grant(Bug::CopiesWithoutPuttingOut, World::small()) < 30);
}

#[test]
fn a_missed_raise_is_no_forgetting() {
    let bug = Bug::TakesALowerVersionForForgetting;
    let property = "nobody is put out that remembers";
    assert!(steps_to_failure(bug, World::small(), property) < 30);
}

#[test]
fn a_new_instance_without_a_copy_grants_twice() {
    assert!(steps_to_double_grant(Bug::AdmitsNewcomersEmpty, replacing()) < 30);
}

#[test]
fn votes_of_a_replaced_instance_grant_twice() {
    assert!(steps_to_double_grant(Bug::CountsAnyVersion, replacing()) < 40);
}
