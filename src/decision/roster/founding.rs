//! Founding of a cluster on masters that have no roster.
//!
//! Founding twice would make two clusters of one list of masters. So a founding begins only when every master of the
//! list is visible and none has a mark. The roster comes first, marked as `founding`. Then every master without a mark
//! gets one. Then the roster says `founded`, and only then is anything served. Any proxy with the same list can finish
//! what another began.

use super::admission::Shown;
use super::mark::{Mark, MarkKind};
use super::roster::{Change, Roster, Stage};
use crate::decision::quorum::{MasterId, MasterSet};

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Change the roster.
    Change(Change),
    /// Give a master its mark in every database, if it has none.
    Mark {
        /// Master to mark.
        master: MasterId,
        /// New mark.
        mark: Mark,
    },
    /// Wait for these masters, which are not visible.
    WaitFor(MasterSet),
    /// Refuse to serve: these masters belong to another cluster.
    Refuse(MasterSet),
    /// The cluster is founded.
    Serve,
}

/// Returns the next action for the masters of a list.
///
/// `known` is the roster that a quorum of the list holds, or the default if it holds none. `ours` is the roster that
/// this proxy would found. `shown` has an entry for each master of the list; `None` if the master is not visible. A
/// founding that [`is_lost`] is not known any more.
pub fn next(known: &Roster, ours: &Roster, shown: &[Option<Shown>]) -> Task {
    let cluster = if known.version == 0 { None } else { Some(known.cluster.as_str()) };
    let strangers = masters(shown, |shown| is_strange(shown, cluster));
    if !strangers.is_empty() || (cluster.is_some() && !is_same_list(known, ours, shown)) {
        return Task::Refuse(strangers);
    }
    if known.version > 0 && known.stage == Stage::Founded {
        return Task::Serve;
    }
    let unseen = masters(shown, Option::is_none);
    if !unseen.is_empty() {
        return Task::WaitFor(unseen);
    }
    if known.version == 0 {
        return Task::Change(Change::Found(Box::new(ours.clone())));
    }
    marks(known, shown)
}

/// Whether all masters have forgotten a cluster whose founding was not finished, so that no proxy has served it. A
/// proxy that continued the founding would mark masters again and again while others clear the marks.
///
/// `held` is the cluster of the roster that each master of the list holds, empty if there is none; `None` if the master
/// is not visible.
pub fn is_in_vain<'a>(known: &Roster, held: impl IntoIterator<Item = Option<&'a str>>) -> bool {
    let is_another = |held: Option<&str>| held.is_some_and(|held| held != known.cluster);
    known.version > 0 && known.stage == Stage::Founding && held.into_iter().all(is_another)
}

/// Whether a founding can never be finished: too few of its voters may still be the servers that it names. No proxy has
/// served it.
///
/// `shown` has an entry for each master of the list, in any order. A master that is not visible may be any of them.
pub fn is_lost(roster: &Roster, shown: &[Option<Shown>]) -> bool {
    let is_unfinished = roster.version > 0 && roster.stage == Stage::Founding;
    let runs = |run_id: &str| shown.iter().flatten().any(|shown| shown.run_id == run_id);
    let left = roster.members.iter().filter(|member| member.is_in() && runs(&member.run_id));
    let unseen = shown.iter().filter(|shown| shown.is_none());
    is_unfinished && left.count() + unseen.count() < roster.quorum().needed()
}

/// Returns the voters of a founding that have no mark yet and are the servers that it names. A server that was
/// restarted may have forgotten since then.
///
/// `shown` has an entry for each member; `None` if the member is not visible.
pub fn unmarked(known: &Roster, shown: &[Option<Shown>]) -> MasterSet {
    let is_unmarked = |place: &MasterId| {
        let shown = shown.get(place.index()).and_then(Option::as_ref);
        let member = known.member(*place);
        shown
            .zip(member)
            .is_some_and(|(shown, member)| shown.mark.is_none() && shown.run_id == member.run_id)
    };
    known.voters().iter().filter(is_unmarked).collect()
}

/// Whether a founding was overtaken: a quorum holds another cluster, which was founded.
pub fn is_overtaken(ours: &Roster, decided: &Roster) -> bool {
    let is_unfinished = ours.version > 0 && ours.stage == Stage::Founding;
    is_unfinished && decided.stage == Stage::Founded && decided.cluster != ours.cluster
}

/// Whether an unfinished founding needs the server with this id.
pub fn is_founder(roster: &Roster, run_id: &str) -> bool {
    let is_unfinished = roster.stage == Stage::Founding;
    is_unfinished && roster.members.iter().any(|member| member.run_id == run_id)
}

/// Whether a master's leftovers of an overtaken founding can be removed. They can if one of the masters that the
/// founding needs shows the mark of the other cluster: then the founding can never be finished.
///
/// `left` is the roster that the master keeps, and `mark` is any mark of that master. `decided` is the roster that a
/// quorum holds, and `shown` is what the masters show.
pub fn is_rest(
    (left, mark): (&Roster, Option<&Mark>),
    decided: &Roster,
    shown: &[Option<Shown>],
) -> bool {
    let is_ours = |mark: &Mark| mark.is_of(&decided.cluster);
    let is_needed = |shown: &Shown| is_founder(left, &shown.run_id);
    let is_taken = |shown: &Shown| is_needed(shown) && shown.mark.as_ref().is_some_and(is_ours);
    is_overtaken(left, decided)
        && !mark.is_some_and(is_ours)
        && shown.iter().flatten().any(is_taken)
}

/// Gives every voter its mark, one after the other, and ends the founding. A master that was founded as out is admitted
/// later, and so is one that was restarted since.
fn marks(known: &Roster, shown: &[Option<Shown>]) -> Task {
    let unmarked = unmarked(known, shown);
    let Some(master) = unmarked.iter().next() else { return Task::Change(Change::Founded) };
    match Mark::expected(known, master, 0) {
        Some(mark) => Task::Mark { master, mark },
        None => Task::Refuse(unmarked),
    }
}

/// Whether a master shows a mark of another cluster. While no cluster is known, every mark is strange.
fn is_strange(shown: &Option<Shown>, cluster: Option<&str>) -> bool {
    let mark = shown.as_ref().and_then(|shown| shown.mark.as_ref());
    mark.is_some_and(|mark| {
        cluster.is_none_or(|cluster| mark.cluster().is_some_and(|its| its != cluster))
    })
}

/// Whether the list is the one of the roster, however its addresses are spelled.
///
/// Until all marks are set, the servers' own ids decide. They change with every restart, so later the marks decide.
fn is_same_list(known: &Roster, ours: &Roster, shown: &[Option<Shown>]) -> bool {
    match known.stage {
        Stage::Founding => run_ids(known) == run_ids(ours),
        Stage::Founded => shown.len() == known.members.len() && are_members(known, shown),
    }
}

fn run_ids(roster: &Roster) -> Vec<&str> {
    let mut ids: Vec<_> = roster.members.iter().map(|member| member.run_id.as_str()).collect();
    ids.sort_unstable();
    ids
}

/// Whether the marks that are shown name members, each at most once.
fn are_members(known: &Roster, shown: &[Option<Shown>]) -> bool {
    let id = |shown: &Option<Shown>| match shown.as_ref()?.mark.as_ref()?.kind {
        MarkKind::Member { member, .. } => Some(member),
        MarkKind::Provisional { .. } => None,
    };
    let ids: Vec<_> = shown.iter().filter_map(id).collect();
    let is_member = |id: &u64| known.members.iter().any(|member| member.id == *id);
    let is_once = |id: &u64| ids.iter().filter(|other| *other == id).count() == 1;
    ids.iter().all(|id| is_member(id) && is_once(id))
}

fn masters(shown: &[Option<Shown>], is: impl Fn(&Option<Shown>) -> bool) -> MasterSet {
    let those = shown.iter().enumerate().filter(|(_, shown)| is(shown));
    those.map(|(at, _)| MasterId::new(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::roster::mark::Tail;
    use crate::decision::roster::roster::{Member, Standing};

    fn shown(run_id: &str, cluster: Option<&str>) -> Option<Shown> {
        let mark = cluster.map(|cluster| {
            let cluster = cluster.to_owned();
            let kind = MarkKind::Member { cluster, version: 2, member: 1, incarnation: 1 };
            Mark { kind, database: 0, tail: Tail::default() }
        });
        Some(Shown { mark, run_id: run_id.to_owned(), address: String::new() })
    }

    fn roster(cluster: &str, stage: Stage) -> Roster {
        let member = |id: u64| Member::founder(id, format!("run{id}"), Vec::new());
        let members = (0..3).map(member).collect();
        Roster { cluster: cluster.to_owned(), version: 1, stage, members, ..Roster::default() }
    }

    #[test]
    fn a_founding_is_overtaken_by_another_cluster_that_was_founded() {
        let (ours, founded) = (roster("b", Stage::Founding), roster("a", Stage::Founded));
        assert!(is_overtaken(&ours, &founded));
        assert!(!is_overtaken(&Roster::default(), &founded), "nothing was begun");
        assert!(!is_overtaken(&roster("b", Stage::Founded), &founded), "it may be served");
        assert!(!is_overtaken(&ours, &roster("a", Stage::Founding)), "neither was founded");
        assert!(!is_overtaken(&ours, &roster("b", Stage::Founded)), "it was finished");
    }

    #[test]
    fn the_rest_of_a_founding_is_one_whose_masters_another_cluster_has_marked() {
        let (left, decided) = (roster("b", Stage::Founding), roster("a", Stage::Founded));
        let is_rest = |shown: [Option<Shown>; 2]| is_rest((&left, None), &decided, &shown);
        assert!(is_rest([shown("run0", Some("a")), None]));
        assert!(!is_rest([shown("run0", Some("b")), shown("run1", None)]), "it goes on");
        assert!(!is_rest([shown("other", Some("a")), None]), "it needs other masters");
        assert!(!is_rest([shown("run0", Some("c")), None]), "that is a third cluster");
    }

    #[test]
    fn no_member_loses_its_mark_for_the_rest_of_a_founding() {
        let (left, decided) = (roster("b", Stage::Founding), roster("a", Stage::Founded));
        let all = [shown("run0", Some("a")), shown("run1", Some("a"))];
        let is_rest = |of: &str| {
            let there = shown("run1", Some(of)).expect("it can be seen");
            is_rest((&left, there.mark.as_ref()), &decided, &all)
        };
        assert!(is_rest("b"));
        assert!(!is_rest("a"));
    }

    #[test]
    fn a_server_that_was_restarted_gets_no_mark_and_does_not_hold_up_the_founding() {
        let known = roster("a", Stage::Founding);
        let next = |first: Option<Shown>, last: Option<Shown>| {
            next(&known, &known, &[first, shown("run1", Some("a")), last])
        };
        let restarted = || shown("new", None);
        let is_of_first = |task| matches!(task, Task::Mark { master, .. } if master.index() == 0);
        assert!(is_of_first(next(shown("run0", None), restarted())));
        let founded = Task::Change(Change::Founded);
        assert_eq!(next(shown("run0", Some("a")), restarted()), founded);
        assert!(is_of_first(next(shown("run0", None), shown("run2", Some("a")))), "it was flushed");
        assert_eq!(
            next(shown("run0", Some("a")), None),
            Task::WaitFor([MasterId::new(2)].into_iter().collect())
        );
    }

    #[test]
    fn a_founding_is_lost_with_a_quorum_of_the_voters_that_it_names() {
        let known = roster("a", Stage::Founding);
        let is_lost = |known: &Roster, ids: [Option<&str>; 3]| {
            is_lost(known, &ids.map(|id| id.and_then(|id| shown(id, None))))
        };
        assert!(!is_lost(&known, [Some("run2"), Some("run0"), Some("new")]));
        assert!(is_lost(&known, [Some("run2"), Some("newer"), Some("new")]));
        assert!(!is_lost(&known, [Some("run2"), None, Some("new")]), "it may be the second");
        let mut one_out = known.clone();
        one_out.members[1].standing = Standing::Out { since: 1 };
        assert!(!is_lost(&one_out, [Some("run0"), Some("new"), Some("run2")]));
        assert!(is_lost(&one_out, [Some("run0"), Some("run1"), Some("new")]), "one is no quorum");
        let founded = roster("a", Stage::Founded);
        assert!(!is_lost(&founded, [Some("new"); 3]), "it may be served");
        assert!(!is_lost(&Roster::default(), [Some("new"); 3]), "there is none");
    }

    #[test]
    fn a_founding_that_nobody_remembers_is_in_vain() {
        let founding = Roster { cluster: "c".to_owned(), version: 1, ..Roster::default() };
        assert!(is_in_vain(&founding, [Some(""), Some("d"), Some("")]));
        assert!(!is_in_vain(&founding, [Some(""), Some("c"), Some("")]), "one remembers it");
        assert!(!is_in_vain(&founding, [Some(""), None, Some("")]), "one may");
        let founded = Roster { stage: Stage::Founded, ..founding };
        assert!(!is_in_vain(&founded, [Some(""); 3]), "it was served");
        assert!(!is_in_vain(&Roster::default(), [Some(""); 3]), "there was none");
    }
}
