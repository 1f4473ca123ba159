//! Assignment of the masters in a proxy's list to members.
//!
//! Members are recognised by their marks and by the servers' own ids, however a list is ordered and its addresses are
//! spelled. A master that has forgotten shows neither: it is recognised by what this process knew before, or by an
//! address at which a member was seen.

use super::admission::Shown;
use super::mark::{Mark, MarkKind};
use super::roster::{Member, Roster};
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
    /// The list names an instance that was replaced, which may be another member by now. It may still show the mark.
    Former,
    /// The same, of another member: its host may have changed its place since.
    FormerOfAnother,
    /// It was this member, which has left. It may be another one by now.
    Left,
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

/// Returns what each member shows, by place. What a replaced instance shows says nothing about the member.
pub fn by_place(roster: &Roster, seats: &Seats, shown: &[Option<Shown>]) -> Vec<Option<Shown>> {
    let show = |(at, member): (usize, &Member)| {
        let shown = shown.get(at_place(seats, MasterId::new(at))?.index())?.clone()?;
        let is_it =
            member.is_somebody() && !member.is_elsewhere(&shown.address, Some(&shown.run_id));
        is_it.then_some(shown)
    };
    roster.members.iter().enumerate().map(show).collect()
}

/// Returns the places of the list that go to another instance, each with its address, or to nobody.
///
/// A list is only where a proxy begins to look: instances that were replaced are left for the new ones, members that
/// the list lacks get free places, and those that were removed are left. A master of the list that cannot be reached,
/// and is no known member, may be one by another name. So as many members are not looked for elsewhere, founders first.
/// A member whose address another cluster's master answers at is not looked for there once more.
///
/// `addresses` and `shown` have an entry for each place. The address of a place that nobody has is empty.
pub fn moves<'a>(
    roster: &'a Roster,
    addresses: &[String],
    shown: &[Option<Shown>],
    seats: &Seats,
) -> Vec<(MasterId, Option<&'a str>)> {
    let (mut moves, mut free, mut unknown) = (Vec::new(), Vec::new(), 0);
    for (at, seat) in seats.iter().enumerate() {
        let (here, address) = (MasterId::new(at), &addresses[at]);
        let shown = shown.get(at).and_then(Option::as_ref);
        match seat.and_then(|place| roster.member(place)) {
            _ if address.is_empty() => free.push(here),
            None => unknown += usize::from(shown.is_none()),
            Some(member) if !member.is_somebody() => moves.push((here, None)),
            Some(member) => {
                let is_elsewhere = member.is_elsewhere(address, shown.map(|it| &*it.run_id));
                let home = member.home.as_ref().filter(|_| is_elsewhere);
                moves.extend(home.map(|home| (here, Some(&*home.address))));
            }
        }
    }
    let is_looked_at = |address| addresses.iter().any(|it| it == address);
    let mut missing = missing(roster, seats);
    missing.retain(|member| !member.address().is_some_and(is_looked_at));
    missing.sort_by_key(|member| member.home.is_none());
    let looked_for = missing.len().saturating_sub(unknown);
    let addresses = missing.into_iter().take(looked_for).filter_map(Member::address);
    moves.extend(free.into_iter().zip(addresses).map(|(here, address)| (here, Some(address))));
    moves
}

/// Returns the members that no master of the list is.
pub fn missing<'a>(roster: &'a Roster, seats: &Seats) -> Vec<&'a Member> {
    let members = roster.members.iter().enumerate();
    let missing = members.filter(|(place, member)| {
        member.is_somebody() && at_place(seats, MasterId::new(*place)).is_none()
    });
    missing.map(|(_, member)| member).collect()
}

fn reason(
    roster: &Roster,
    place: MasterId,
    address: &String,
    shown: Option<&Shown>,
    before: Option<MasterId>,
) -> Option<Reason> {
    let member = roster.member(place)?;
    if address.is_empty() {
        return None;
    }
    let has_mark = shown.and_then(|shown| shown.mark.as_ref()).is_some_and(
        |mark| matches!(mark.kind, MarkKind::Member { member: id, .. } if id == member.id),
    );
    let has_run_id = shown.is_some_and(|shown| shown.run_id == member.run_id);
    let was_it = has_mark || has_run_id || before == Some(place) || member.former.contains(address);
    if !member.is_somebody() {
        return was_it.then_some(Reason::Left);
    }
    if member.is_elsewhere(address, shown.map(|shown| &*shown.run_id)) {
        let of_another = was_replaced(roster, address).then_some(Reason::FormerOfAnother);
        return was_it.then_some(Reason::Former).or(of_another);
    }
    match (has_mark, has_run_id) {
        (true, true) => Some(Reason::MarkAndRunId),
        (true, false) => Some(Reason::Mark),
        (false, true) => Some(Reason::RunId),
        _ if before == Some(place) => Some(Reason::Before),
        _ if member.is_at(address) => Some(Reason::Address),
        _ => None,
    }
}

fn was_replaced(roster: &Roster, address: &String) -> bool {
    roster.members.iter().any(|member| member.former.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::register::Program as _;
    use crate::decision::roster::mark::Tail;
    use crate::decision::roster::roster::{Change, Stage, Standing};

    fn member(id: u64) -> Member {
        Member::founder(10 + id, format!("run{id}"), vec![format!("a:{id}")])
    }

    fn roster() -> Roster {
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

    fn replace(roster: &Roster, member: usize, address: &str) -> Roster {
        let incarnation = roster.members[member].incarnation;
        let (member, address) = (MasterId::new(member), address.to_owned());
        let since = roster.out_since(member);
        Change::Replace { member, incarnation, since, address }.run(roster).0
    }

    fn admit(roster: &Roster, member: usize) -> Roster {
        let since = roster.out_since(MasterId::new(member)).expect("it is out");
        let address = roster.members[member].home.clone().expect("it was replaced").address;
        let (member, run_id) = (MasterId::new(member), "new".to_owned());
        Change::In { member, since, nonce: 1, run_id, address }.run(roster).0
    }

    /// Returns the addresses that a list moves to.
    fn moved(roster: &Roster, list: [&str; 3], shown: &[Option<Shown>; 3]) -> Vec<(usize, String)> {
        let list = list.map(str::to_owned);
        let seats = seats(roster, &list, shown, &vec![None; 3]);
        let moves = moves(roster, &list, shown, &seats);
        let moved =
            |(at, home): (MasterId, Option<&str>)| (at.index(), home.unwrap_or("-").to_owned());
        moves.into_iter().map(moved).collect()
    }

    #[test]
    fn a_list_with_a_replaced_instance_leads_to_the_new_one_whether_or_not_the_old_one_runs() {
        let replaced = replace(&roster(), 1, "b:1");
        let alive = shown(Some(("c", 11)), "run1");
        for old in [None, alive, shown(None, "restarted"), shown(Some(("d", 1)), "other")] {
            let is_other = old.as_ref().is_some_and(|it| it.run_id == "other");
            let moves = moved(&replaced, ["a:2", "a:0", "a:1"], &[None, None, old]);
            let expected = if is_other { vec![] } else { vec![(2, "b:1".to_owned())] };
            assert_eq!(moves, expected, "another cluster's master is no member");
        }
        assert_eq!(moved(&replaced, ["a:0", "b:1", "a:2"], &[None, None, None]), []);
    }

    #[test]
    fn a_member_is_not_looked_for_where_another_cluster_answers() {
        let roster = roster();
        let other = shown(Some(("d", 1)), "other");
        let list = ["a:0", "a:1", "a:2", "", ""].map(str::to_owned);
        let shown = [None, None, other, None, None];
        let seats = seats(&roster, &list, &shown, &vec![None; 5]);
        assert_eq!(moves(&roster, &list, &shown, &seats), []);
        // It is, at an address that the list lacks.
        let list = ["a:0", "a:1", "b:2", "", ""].map(str::to_owned);
        assert_eq!(moves(&roster, &list, &shown, &seats), [(MasterId::new(3), Some("a:2"))]);
    }

    #[test]
    fn a_host_that_took_another_place_is_found_there() {
        let replaced = replace(&admit(&replace(&roster(), 1, "b:1"), 1), 0, "a:1");
        let list = ["a:0", "a:1", "a:2"];
        assert_eq!(moved(&replaced, list, &[None, None, None]), [(0, "b:1".to_owned())]);
    }

    #[test]
    fn a_member_that_has_left_may_take_the_place_of_another() {
        let mut left = roster();
        left.members.extend([member(3), member(4)]);
        left.members[0].retire();
        left.members[0].standing = Standing::Vacant;
        let still_marked = [shown(Some(("c", 10)), "run0"), None, None];
        let list = ["a:0", "a:1", "a:2"];
        assert_eq!(moved(&left, list, &still_marked), [(0, "-".to_owned())]);
        let replaced = replace(&left, 1, "a:0");
        let seats = seats(
            &replaced,
            &list.map(str::to_owned),
            &still_marked,
            &vec![Some(MasterId::new(0)); 3],
        );
        assert_eq!(at_place(&seats, MasterId::new(1)), Some(MasterId::new(0)));
    }

    #[test]
    fn a_replaced_instance_may_become_another_member_even_if_its_successor_forgets() {
        let mut roster = admit(&replace(&roster(), 0, "b:1"), 0);
        let joining = Standing::Joining { since: roster.version };
        let mut newcomer =
            Member { standing: joining, ..Member::founder(20, String::new(), Vec::new()) };
        newcomer.move_to("a:0", roster.version);
        roster.members.push(newcomer);
        let list = ["b:1", "a:1", "a:2", "a:0"].map(str::to_owned);
        let marked = shown(Some(("c", 10)), "run0");
        for successor in
            [shown(Some(("c", 10)), "new"), shown(None, "new"), shown(None, "newer"), None]
        {
            let seats =
                seats(&roster, &list, &[successor, None, None, marked.clone()], &vec![None; 4]);
            assert_eq!(seats, [0, 1, 2, 3].map(|at| Some(MasterId::new(at))));
        }
    }

    #[test]
    fn what_a_replaced_instance_shows_is_not_its_members() {
        let replaced = replace(&roster(), 1, "b:1");
        let show = |address: &str| {
            let shown = shown(None, "run1").map(|it| Shown { address: address.to_owned(), ..it });
            let seats = vec![Some(MasterId::new(1))];
            by_place(&replaced, &seats, &[shown])[1].is_some()
        };
        assert_eq!((show("a:1"), show("b:1")), (false, true));
    }
}
