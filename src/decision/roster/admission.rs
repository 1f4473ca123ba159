//! Next step of a proxy for a master that has forgotten.
//!
//! ```text
//!  forgotten -> out -> others' marks raised -> provisional mark -> copied -> in -> others' marks -> own mark
//! ```
//!
//! [`next`] examines the roster and the masters' answers, and keeps nothing between two calls except the copy. So any
//! proxy can finish what another began, several can work at once, and one that pauses does no harm. Each step is a
//! compare-and-set, or a change of the roster with its precondition.

use super::mark::{Mark, MarkKind};
use super::roster::{Change, Member, Roster, Standing};
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// A master's last answer about itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shown {
    /// Mark of the master; `None` if it has none, or none of ours.
    pub mark: Option<Mark>,
    /// The server's own id.
    pub run_id: String,
    /// Address at which the master was reached.
    pub address: String,
}

/// Copy in progress of what a master has forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copy {
    /// Version that excluded the master.
    pub since: u64,
    /// Nonce of the master's provisional mark.
    pub nonce: u64,
    /// Masters that were copied from completely.
    pub sources: MasterSet,
}

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Change the roster.
    Change(Change),
    /// Replace a master's mark in every database, if it is still the one that was shown.
    Mark {
        /// Master to mark.
        master: MasterId,
        /// New mark. The tail of the old one stays.
        mark: Mark,
    },
    /// Empty the master and give it a provisional mark with a nonce of this proxy.
    Empty(MasterId),
    /// Copy from one of these, with a proof for each page.
    CopyFrom(MasterSet),
    /// Wait for masters that are not visible.
    Wait,
}

/// Returns the next action for `master`; `None` if it votes, or will once it is visible.
///
/// `shown` has an entry for each member; `None` if the member is not visible.
pub fn next(
    roster: &Roster,
    master: MasterId,
    shown: &[Option<Shown>],
    copy: Option<&Copy>,
) -> Option<Task> {
    let member = roster.member(master)?;
    let here = shown.get(master.index())?.as_ref()?;
    match member.standing {
        Standing::In { nonce } => admitted(roster, master, here, nonce, shown),
        Standing::Out { since } | Standing::Joining { since } => {
            Some(outside(roster, master, here, since, shown, copy))
        }
        Standing::Vacant | Standing::Closed => None,
    }
}

/// Whether `source` may be copied from now: it votes, and its version is not before the one that excluded the receiving
/// master.
///
/// A source whose mark was not raised could still vote on an operation that counts a vote from before.
pub fn is_source(roster: &Roster, source: MasterId, shown: &Shown, since: u64) -> bool {
    let Some(expected) = Mark::expected(roster, source, 0) else { return false };
    let Some(mark) = &shown.mark else { return false };
    let is_same = mark.proves_same(&expected) || mark.missed_a_raise_to(&expected);
    roster.voters().contains(source)
        && runs_as(roster, source, shown)
        && is_same
        && mark.version() >= Some(since)
}

impl Roster {
    /// Returns the number of complete copies that together include everything that a quorum holds, as it is when
    /// `master` has been admitted.
    pub fn sources_needed(&self, master: MasterId) -> usize {
        let is_new_seat = self.member(master).is_some_and(|member| !member.has_seat());
        sources_needed(Quorum::of(self.seats() + usize::from(is_new_seat)))
    }
}

/// Returns the number of complete copies that together include everything that a quorum holds.
pub fn sources_needed(quorum: Quorum) -> usize {
    quorum.tolerates() + 1
}

/// Returns the pause before a member is excluded again, so that a member that keeps failing does not stop the others.
pub fn pause_ms(admissions_in_a_row: u32) -> u64 {
    MIN_PAUSE_MS.saturating_mul(1 << admissions_in_a_row.min(6)).min(MAX_PAUSE_MS)
}

/// A master comes back from a restart in about a second.
const MIN_PAUSE_MS: u64 = 1_000;
/// Keeps the wait of a repaired master short.
const MAX_PAUSE_MS: u64 = 60_000;

/// Returns the action for a member that is in: raise its mark, or exclude it if it has forgotten.
fn admitted(
    roster: &Roster,
    master: MasterId,
    here: &Shown,
    nonce: u64,
    shown: &[Option<Shown>],
) -> Option<Task> {
    let expected = Mark::expected(roster, master, 0)?;
    let member = roster.member(master)?;
    let Some(mark) = here.mark.as_ref().filter(|_| member.run_id == here.run_id) else {
        return Some(out(master, member));
    };
    let is_copied = nonce != 0 && mark.kind == MarkKind::Provisional { nonce };
    if mark.proves_same(&expected) {
        return None;
    }
    if mark.missed_a_raise_to(&expected) {
        return Some(Task::Mark { master, mark: expected });
    }
    if is_copied {
        return Some(
            lagging(roster, master, shown).unwrap_or(Task::Mark { master, mark: expected }),
        );
    }
    if mark.version() > expected.version() {
        return Some(Task::Wait);
    }
    Some(out(master, member))
}

/// Returns the action for a member that is out.
fn outside(
    roster: &Roster,
    master: MasterId,
    here: &Shown,
    since: u64,
    shown: &[Option<Shown>],
    copy: Option<&Copy>,
) -> Task {
    let version = here.mark.as_ref().and_then(Mark::version);
    if version > Some(roster.version) {
        // The master has since been admitted: this proxy's roster is old.
        return Task::Wait;
    }
    if let Some(task) = lagging(roster, master, shown) {
        return task;
    }
    let nonce = here.mark.as_ref().and_then(Mark::nonce);
    let is_same = |copy: &&Copy| copy.since == since && Some(copy.nonce) == nonce;
    let Some(copy) = copy.filter(is_same) else { return Task::Empty(master) };
    if copy.sources.len() >= roster.sources_needed(master) {
        let (nonce, run_id, address) = (copy.nonce, here.run_id.clone(), here.address.clone());
        return Task::Change(Change::In { member: master, since, nonce, run_id, address });
    }
    let left = roster.voters().without(copy.sources);
    let can_be_copied = |source: &MasterId| {
        let shown = shown.get(source.index()).and_then(Option::as_ref);
        shown.is_some_and(|shown| is_source(roster, *source, shown, since))
    };
    let sources: MasterSet = left.iter().filter(can_be_copied).collect();
    if sources.is_empty() { Task::Wait } else { Task::CopyFrom(sources) }
}

/// Raises the mark of another voter that missed a raise. Nobody waits for a voter that is not visible.
fn lagging(roster: &Roster, but: MasterId, shown: &[Option<Shown>]) -> Option<Task> {
    let raise = |master: MasterId| {
        let here = shown.get(master.index())?.as_ref()?;
        let expected = Mark::expected(roster, master, 0)?;
        let missed = here.mark.as_ref()?.missed_a_raise_to(&expected);
        (missed && runs_as(roster, master, here)).then_some(Task::Mark { master, mark: expected })
    };
    roster.voters().iter().filter(|master| *master != but).find_map(raise)
}

fn runs_as(roster: &Roster, master: MasterId, shown: &Shown) -> bool {
    roster.member(master).is_some_and(|member| member.run_id == shown.run_id)
}

fn out(master: MasterId, member: &Member) -> Task {
    Task::Change(Change::Out { member: master, incarnation: member.incarnation })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_keeps_failing_waits_longer_each_time() {
        let pauses: Vec<_> = (0..8).map(pause_ms).collect();
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(pause_ms(u32::MAX), 60_000);
    }

    #[test]
    fn any_quorum_shares_a_master_with_the_sources() {
        for masters in 1..=9 {
            let quorum = Quorum::of(masters);
            assert_eq!(sources_needed(quorum) + quorum.needed(), masters + 1);
        }
    }
}
