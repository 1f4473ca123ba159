//! Learning from the rosters that masters hold, and giving a roster to masters that lack it.
//!
//! A roster counts once a quorum holds it.

use super::founding;
use super::mark::Mark;
use super::roster::{Accepted, Roster, Stage};

/// Newest roster that masters hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest<'a> {
    /// Roster, as accepted.
    pub state: &'a Accepted,
    /// Whether a quorum holds this roster.
    pub is_decided: bool,
}

/// Action of a proxy on the rosters that it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lesson<'a> {
    /// Take this roster over, and give it to the members that are behind.
    TakeOver(&'a Accepted),
    /// Bring the masters to agree, perhaps on this roster.
    Settle(&'a Accepted),
}

/// Returns the roster that a quorum of the masters of a list holds, or else the newest that one of them holds. `held`
/// names each master once; `None` if there is no roster.
///
/// No proxy waits for a roster that a minority accepted under a higher ballot: the next change finds it, or overtakes
/// it. The exception is a roster of a later epoch: then the quorum's roster is the one that was given up.
pub fn newest<'a>(held: &[&'a Accepted]) -> Option<Newest<'a>> {
    // The register may have been settled before anything was written to it.
    let written = || held.iter().copied().filter(|state| state.value.seats() > 0);
    let epoch = written().map(|state| state.accepted.epoch).max()?;
    let states = || written().filter(|state| state.accepted.epoch == epoch);
    let is_held = |state: &Accepted| {
        let holders = states().filter(|other| other.accepted == state.accepted).count();
        holders >= state.value.quorum().needed()
    };
    // Of two clusters that are being founded, the one with the higher ballot is settled.
    let is_founded = |state: &&Accepted| state.value.stage == Stage::Founded && is_held(state);
    let newest = || states().max_by_key(|state| state.accepted);
    let state = states().find(is_founded).or_else(newest)?;
    Some(Newest { state, is_decided: is_held(state) })
}

/// Returns what a proxy that knows this roster does about those that the masters hold; `None` if they hold none, or
/// leftovers of an older one.
pub fn lesson<'a>(known: &Roster, held: &[&'a Accepted]) -> Option<Lesson<'a>> {
    let Newest { state, is_decided } = newest(held)?;
    match is_decided {
        true => Some(Lesson::TakeOver(state)),
        false if state.value.version < known.version => None,
        false => Some(Lesson::Settle(state)),
    }
}

/// Whether a roster that a quorum holds is new to a proxy that knows `known`.
pub fn is_news(known: &Roster, decided: &Roster) -> bool {
    let is_ours = known.version == 0 || known.cluster == decided.cluster;
    let is_changed = decided.version == known.version && decided != known;
    is_ours && (decided.version > known.version || is_changed)
}

/// Whether a master should receive a roster that it lacks: it has the mark of a member, or becomes a founder with it.
///
/// `held` is the roster that the master holds, and `mark` is its mark.
pub fn is_behind(
    decided: &Accepted,
    held: Option<&Accepted>,
    mark: Option<&Mark>,
    run_id: &str,
) -> bool {
    let roster = &decided.value;
    let is_member = mark.is_some_and(|mark| mark.is_of(&roster.cluster));
    let is_older = held.map(|state| state.accepted) < Some(decided.accepted);
    is_older && (is_member || founding::is_founder(roster, run_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::register::ballot::Ballot;
    use crate::decision::roster::mark::{MarkKind, Tail};
    use crate::decision::roster::roster::Member;

    fn roster(cluster: &str, version: u64) -> Roster {
        let (cluster, stage) = (cluster.to_owned(), Stage::Founded);
        let member = |id: u64| Member::founder(id, format!("run{id}"), Vec::new());
        let members = (0..3).map(member).collect();
        Roster { cluster, version, stage, members, ..Roster::default() }
    }

    fn accepted(value: Roster, counter: u64) -> Accepted {
        Accepted { accepted: Ballot { epoch: 0, counter, worker: 1 }, value, ..Accepted::default() }
    }

    fn mark(cluster: &str, version: u64) -> Mark {
        let kind =
            MarkKind::Member { cluster: cluster.to_owned(), version, member: 1, incarnation: 1 };
        Mark { kind, database: 0, tail: Tail::default() }
    }

    fn newest_of<'a>(held: &[&'a Accepted]) -> Option<(&'a Accepted, bool)> {
        newest(held).map(|newest| (newest.state, newest.is_decided))
    }

    #[test]
    fn the_newest_is_decided_when_a_quorum_holds_it() {
        let (old, new) = (accepted(roster("a", 1), 5), accepted(roster("a", 2), 6));
        assert_eq!(newest_of(&[]), None);
        assert_eq!(newest_of(&[&old, &new]), Some((&new, false)));
        assert_eq!(
            newest_of(&[&old, &new, &old]),
            Some((&old, true)),
            "a minority is not waited for"
        );
        assert_eq!(newest_of(&[&old, &new, &new]), Some((&new, true)));
    }

    #[test]
    fn an_empty_register_is_no_roster() {
        let empty = accepted(Roster::default(), 9);
        assert_eq!(newest_of(&[&empty, &empty]), None);
    }

    #[test]
    fn a_cluster_that_a_quorum_holds_is_not_outbid_by_another() {
        let (ours, other) = (accepted(roster("a", 3), 5), accepted(roster("b", 1), 9));
        assert_eq!(newest_of(&[&ours, &other, &ours]), Some((&ours, true)));
        assert_eq!(newest_of(&[&ours, &other]), Some((&other, false)));
        let being_founded = Roster { stage: Stage::Founding, ..roster("a", 3) };
        let being_founded = accepted(being_founded, 5);
        let held = [&being_founded, &other, &being_founded];
        assert_eq!(newest_of(&held), Some((&other, false)));
    }

    #[test]
    fn a_roster_that_was_begun_anew_outbids_what_a_quorum_holds_of_the_one_before() {
        let before = accepted(roster("a", 1), 9);
        let mut anew = accepted(roster("a", 2), 5);
        anew.accepted.epoch = 1;
        assert_eq!(newest_of(&[&before, &anew, &before]), Some((&anew, false)));
        assert_eq!(newest_of(&[&before, &anew, &anew]), Some((&anew, true)));
    }

    #[test]
    fn masters_that_differ_are_brought_to_agree_on_nothing_older_than_what_is_known() {
        let (older, newer) = (accepted(roster("a", 1), 5), accepted(roster("a", 2), 6));
        let lesson = |known: &Accepted, held: &[_]| lesson(&known.value, held);
        assert_eq!(lesson(&older, &[]), None);
        assert_eq!(lesson(&older, &[&older, &newer]), Some(Lesson::Settle(&newer)));
        assert_eq!(lesson(&newer, &[&older]), None);
        assert_eq!(lesson(&newer, &[&older, &older]), Some(Lesson::TakeOver(&older)));
    }

    #[test]
    fn who_is_behind_gets_the_roster() {
        let decided = accepted(roster("a", 2), 5);
        let is_behind = |held, mark: Option<&Mark>| is_behind(&decided, held, mark, "run");
        let (older, higher) = (accepted(roster("a", 1), 4), accepted(roster("a", 1), 9));
        assert!(is_behind(None, Some(&mark("a", 2))));
        assert!(is_behind(Some(&older), Some(&mark("a", 1))));
        assert!(!is_behind(Some(&higher), Some(&mark("a", 1))));
        assert!(!is_behind(Some(&decided), Some(&mark("a", 2))));
        assert!(!is_behind(None, Some(&mark("b", 1))), "it is another cluster's");
        assert!(!is_behind(None, None));
    }

    #[test]
    fn a_roster_of_another_cluster_is_no_news() {
        let known = roster("a", 2);
        assert!(is_news(&Roster::default(), &known) && is_news(&known, &roster("a", 3)));
        assert!(!is_news(&known, &known) && !is_news(&known, &roster("a", 1)));
        assert!(!is_news(&known, &roster("b", 3)));
        assert!(is_news(&known, &Roster { losses: 1, ..known.clone() }));
    }
}
