//! Recovery when a quorum has forgotten, so that no master is left to copy from.
//!
//! Nothing can be decided then. After `--restart-wait`, all locks that were no longer than that have ended. So the
//! roster begins anew with the reachable masters and what they hold. Other data may be lost.
//!
//! A rest proves itself. A master gets a provisional mark when its rest begins. A proxy that admits the master, or
//! anything that makes it forget again, removes that mark, whether this proxy sees it or not. So if the mark still
//! stands at the end of the rest, nothing has interrupted it: [`Change::Restart`] admits the master by that mark only.

use std::collections::BTreeMap;

use super::admission::Shown;
use super::mark::{Mark, MarkKind};
use super::roster::{Change, Roster, Standing};
use crate::decision::quorum::{MasterId, MasterSet};

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Give these members a provisional mark, and leave them what they hold: their rest begins.
    Mark(MasterSet),
    /// Wait until all of them have rested long enough.
    Rest,
    /// Change the roster.
    Change(Change),
}

/// Start of each member's rest, as seen by one proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rests {
    by_place: BTreeMap<MasterId, Rest>,
    /// Highest version seen in a mark. A roster that begins anew must not repeat one.
    version: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rest {
    reason: Reason,
    /// An older volume of the master has the same mark, but is another process.
    run_id: String,
    since_ms: u64,
}

/// Reason why a member does not count as remembering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reason {
    /// A provisional mark: the member may vote once it has rested under it.
    Provisional { nonce: u64 },
    /// The mark of a version that this proxy has not learned. The member most likely remembers, and others know.
    Later { version: u64 },
    /// Nothing that can be relied on.
    Nothing,
}

impl Rests {
    /// Records what the members of `roster` show, at a time in milliseconds.
    pub fn see(&mut self, roster: &Roster, shown: &[Option<Shown>], now_ms: u64) {
        for (at, shown) in shown.iter().enumerate() {
            let Some(shown) = shown else { continue };
            let place = MasterId::new(at);
            let marked = shown.mark.as_ref().and_then(|mark| version_of(roster, mark));
            self.version = self.version.max(marked.unwrap_or_default());
            if remembers(roster, place, shown) {
                self.by_place.remove(&place);
                continue;
            }
            let reason = reason(roster, shown);
            let goes_on = |rest: &Rest| rest.reason == reason && rest.run_id == shown.run_id;
            if !self.by_place.get(&place).is_some_and(goes_on) {
                let rest = Rest { reason, run_id: shown.run_id.clone(), since_ms: now_ms };
                self.by_place.insert(place, rest);
            }
        }
    }

    fn is_over(&self, place: MasterId, now_ms: u64, wait_ms: u64) -> bool {
        self.by_place
            .get(&place)
            .is_some_and(|rest| now_ms.saturating_sub(rest.since_ms) >= wait_ms)
    }
}

/// Returns the next action; `None` if a quorum remembers, or too few members are visible.
///
/// `shown` has an entry for each member, which `rests` has seen; `None` if the member is not visible. Members that are
/// not `fit` must not vote.
pub fn next(
    roster: &Roster,
    shown: &[Option<Shown>],
    fit: MasterSet,
    rests: &Rests,
    (now_ms, wait_ms): (u64, u64),
) -> Option<Task> {
    let quorum = roster.quorum();
    let seen = |is: &dyn Fn(MasterId, &Shown) -> bool| -> MasterSet {
        let seen = shown.iter().enumerate();
        let seen = seen.filter_map(|(at, shown)| Some((MasterId::new(at), shown.as_ref()?)));
        seen.filter(|(place, shown)| is(*place, shown)).map(|(place, _)| place).collect()
    };
    let remembering = seen(&|place, shown| remembers(roster, place, shown));
    let forgetful = seen(&|place, _| fit.contains(place) && !remembering.contains(place));
    let is_possible = quorum.reached_by(remembering.union(forgetful));
    if quorum.reached_by(remembering) || forgetful.is_empty() || !is_possible {
        return None;
    }
    let is_over = |place| rests.is_over(place, now_ms, wait_ms);
    let unmarked = seen(&|place, shown| match reason(roster, shown) {
        _ if !forgetful.contains(place) => false,
        Reason::Provisional { .. } => false,
        Reason::Later { .. } => is_over(place),
        Reason::Nothing => true,
    });
    if !unmarked.is_empty() {
        return Some(Task::Mark(unmarked));
    }
    if !forgetful.iter().all(is_over) {
        return Some(Task::Rest);
    }
    let anew = Box::new(anew(roster, shown, remembering, forgetful, rests.version));
    Some(Task::Change(Change::Restart { known: roster.version, anew }))
}

/// Returns the roster with the members that remember and those that have rested, and no others.
fn anew(
    roster: &Roster,
    shown: &[Option<Shown>],
    remembering: MasterSet,
    forgetful: MasterSet,
    version: u64,
) -> Roster {
    let mut anew = roster.clone();
    anew.version = roster.version.max(version) + 1;
    anew.losses += 1;
    for (at, member) in anew.members.iter_mut().enumerate() {
        let place = MasterId::new(at);
        match member.standing {
            Standing::Vacant | Standing::Closed => continue,
            Standing::Joining { .. } => {
                member.standing = Standing::Joining { since: anew.version };
                continue;
            }
            Standing::In { .. } | Standing::Out { .. } => {}
        }
        let rested = shown.get(at).and_then(Option::as_ref).filter(|_| forgetful.contains(place));
        let rested = rested.and_then(|shown| Some((provisional(shown)?, &shown.run_id)));
        if let Some((nonce, run_id)) = rested {
            member.admit(nonce, run_id);
        } else if !remembering.contains(place) {
            member.standing = Standing::Out { since: anew.version };
        }
    }
    if let Some(leaving) = &mut anew.leaving {
        leaving.since = anew.version;
    }
    anew
}

/// Whether a member knows what its roster says about it, or was just admitted with everything that it should know.
pub fn remembers(roster: &Roster, place: MasterId, shown: &Shown) -> bool {
    let Some(expected) = Mark::expected(roster, place, 0) else { return false };
    let Some(member) = roster.member(place) else { return false };
    let Some(mark) = &shown.mark else { return false };
    let is_same = mark.proves_same(&expected) || mark.missed_a_raise_to(&expected);
    let is_admitted = match (member.standing, &mark.kind) {
        (Standing::In { nonce }, MarkKind::Provisional { nonce: its }) => {
            nonce != 0 && nonce == *its
        }
        _ => false,
    };
    member.is_in() && member.run_id == shown.run_id && (is_same || is_admitted)
}

fn reason(roster: &Roster, shown: &Shown) -> Reason {
    let version = shown.mark.as_ref().and_then(|mark| version_of(roster, mark));
    match (provisional(shown), version) {
        (Some(nonce), _) => Reason::Provisional { nonce },
        (None, Some(version)) if version > roster.version => Reason::Later { version },
        (None, _) => Reason::Nothing,
    }
}

fn provisional(shown: &Shown) -> Option<u64> {
    shown.mark.as_ref()?.nonce()
}

fn version_of(roster: &Roster, mark: &Mark) -> Option<u64> {
    mark.version().filter(|_| mark.is_of(&roster.cluster))
}
