//! Assignment of the masters in a proxy's list to members.
//!
//! Members are recognised by their marks and by the servers' own ids, however a list is ordered and its addresses are
//! spelled. A master that has forgotten shows neither: it is recognised by what this process knew before, or by an
//! address at which a member was seen.

use super::admission::Shown;
use super::mark::{Mark, MarkKind};
use super::roster::Roster;
use crate::decision::quorum::{MasterId, MasterSet};

/// Member that each master of a list is; `None` if it is no known member.
pub type Seats = Vec<Option<MasterId>>;

/// Reason why a master of a list counts as a member, best reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    MarkAndRunId,
    Mark,
    RunId,
    Before,
    Address,
}

/// Finds the member that each master of the list is. No member is found twice.
///
/// `addresses` and `shown` have an entry for each master of the list; `before` is the earlier result.
pub fn seats(
    roster: &Roster,
    addresses: &[String],
    shown: &[Option<Shown>],
    before: &Seats,
) -> Seats {
    let mut claims = Vec::new();
    for (at, address) in addresses.iter().enumerate() {
        let shown = shown.get(at).and_then(Option::as_ref);
        if shown.is_some_and(|shown| is_strange(roster, shown)) {
            continue;
        }
        let before = before.get(at).copied().flatten();
        for (place, _) in roster.members.iter().enumerate() {
            let place = MasterId::new(place);
            if let Some(reason) = reason(roster, place, address, shown, before) {
                claims.push((reason, at, place));
            }
        }
    }
    claims.sort();
    let mut seats = vec![None; addresses.len()];
    let mut taken = MasterSet::EMPTY;
    for (_, at, place) in claims {
        if seats[at].is_none() && !taken.contains(place) {
            seats[at] = Some(place);
            taken.insert(place);
        }
    }
    seats
}

/// Whether a master belongs to another cluster.
pub fn is_strange(roster: &Roster, shown: &Shown) -> bool {
    let cluster = shown.mark.as_ref().and_then(Mark::cluster);
    cluster.is_some_and(|cluster| cluster != roster.cluster)
}

/// Returns the master of the list that is at a place of the roster.
pub fn at_place(seats: &Seats, place: MasterId) -> Option<MasterId> {
    seats.iter().position(|seat| *seat == Some(place)).map(MasterId::new)
}

fn reason(
    roster: &Roster,
    place: MasterId,
    address: &String,
    shown: Option<&Shown>,
    before: Option<MasterId>,
) -> Option<Reason> {
    let member = roster.member(place)?;
    let has_mark = shown.and_then(|shown| shown.mark.as_ref()).is_some_and(
        |mark| matches!(mark.kind, MarkKind::Member { member: id, .. } if id == member.id),
    );
    let has_run_id = shown.is_some_and(|shown| shown.run_id == member.run_id);
    match (has_mark, has_run_id) {
        (true, true) => Some(Reason::MarkAndRunId),
        (true, false) => Some(Reason::Mark),
        (false, true) => Some(Reason::RunId),
        _ if before == Some(place) => Some(Reason::Before),
        _ => member.addresses.contains(address).then_some(Reason::Address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::roster::mark::Tail;
    use crate::decision::roster::roster::{Member, Stage, Standing};

    fn roster() -> Roster {
        let member = |id: u64| Member {
            id: 10 + id,
            incarnation: 1,
            run_id: format!("run{id}"),
            addresses: vec![format!("a:{id}")],
            standing: Standing::In { nonce: 0 },
        };
        let members = (0..3).map(member).collect();
        Roster {
            cluster: "c".to_owned(),
            version: 3,
            stage: Stage::Founded,
            members,
            ..Roster::default()
        }
    }

    fn shown(mark: Option<(&str, u64)>, run_id: &str) -> Option<Shown> {
        let mark = mark.map(|(cluster, member)| {
            let cluster = cluster.to_owned();
            let kind = MarkKind::Member { cluster, version: 1, member, incarnation: 1 };
            Mark { kind, database: 0, tail: Tail::default() }
        });
        Some(Shown { mark, run_id: run_id.to_owned(), address: String::new() })
    }

    fn find(
        addresses: [&str; 3],
        list: [Option<Shown>; 3],
        before: [Option<usize>; 3],
    ) -> Vec<Option<usize>> {
        let addresses = addresses.map(str::to_owned);
        let before = before.map(|seat| seat.map(MasterId::new)).to_vec();
        let seats = seats(&roster(), &addresses, &list, &before);
        seats.into_iter().map(|seat| seat.map(MasterId::index)).collect()
    }

    const NONE: [Option<usize>; 3] = [None; 3];

    #[test]
    fn marks_tell_whatever_the_addresses_say() {
        let list = [shown(Some(("c", 12)), "run2"), shown(Some(("c", 10)), "run0"), None];
        assert_eq!(find(["a:0", "a:1", "b:1"], list, NONE), [Some(2), Some(0), None]);
    }

    #[test]
    fn who_has_forgotten_is_known_by_its_run_id_or_from_before_or_by_its_address() {
        let list = [shown(None, "run1"), shown(None, "new"), shown(None, "newer")];
        let before = [None, Some(2), None];
        assert_eq!(find(["x", "y", "a:0"], list, before), [Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn a_mark_is_stronger_than_an_address() {
        let list = [shown(None, "new"), shown(Some(("c", 10)), "run0"), None];
        assert_eq!(find(["a:0", "y", "a:1"], list, NONE), [None, Some(0), Some(1)]);
    }

    #[test]
    fn of_two_with_one_mark_the_one_with_the_run_id_counts() {
        let list = [shown(Some(("c", 10)), "copy"), shown(Some(("c", 10)), "run0"), None];
        assert_eq!(find(["x", "y", "z"], list, NONE), [None, Some(0), None]);
    }

    #[test]
    fn nobody_of_another_cluster_is_a_member() {
        let list = [shown(Some(("d", 10)), "run0"), None, None];
        assert_eq!(find(["a:0", "y", "z"], list, NONE), NONE);
    }
}
