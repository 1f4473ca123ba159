//! Changes of the number of seats: members that join and leave.
//!
//! A quorum is a majority of the seats. Their number is odd after any change here: with four members there are five
//! seats, one of them vacant, which counts like one whose member is out.
//!
//! Anything decided must be found by every later quorum. So it needs holders, among the members that are in, that
//! together with the seats of nobody and of members that are out number at least `seats - quorum + 1`. Whoever is
//! admitted is copied to from as many sources, and so finds it. This remains true at each change:
//!
//! * **3 members to 4, 3 seats to 5**: two of three held it, and one of five seats is vacant. The newcomer is copied to
//!   before, without being counted, so that a master may be lost meanwhile.
//! * **4 to 5**: an admission to the vacant seat. Votes that were counted by the quorum of three seats may have been
//!   given until the version that has five, not later: copying to the fifth follows and finds them.
//! * **5 to 4**: a member's seat becomes vacant, like that of a member that goes out.
//! * **4 to 3, 5 seats to 3**: what was decided before the seat became vacant may be on two of the four. Before the
//!   seats are closed it must be on two of the three that stay: see [`level`](super::level).
//!
//! An operation counts its votes by the quorum of the seats at its beginning. [`Seating::counts`] decides which votes
//! of later versions it may count.

use serde::{Deserialize, Serialize};

use super::roster::{Leaving, Member, Roster, Stage, Standing};
use crate::decision::quorum::{MAX_MASTERS, MasterId};

/// Since when there are as many seats as there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seating {
    /// Number of seats; 0 if it never changed.
    pub seats: usize,
    /// Version that changed it; 0 if none did.
    pub since: u64,
    /// Number of seats before.
    pub before: usize,
    /// Version since which there were so many.
    pub before_since: u64,
}

impl Seating {
    /// Whether the number of seats never changed.
    pub fn is_first(&self) -> bool {
        self.since == 0
    }

    /// Whether an operation that began in version `begun` may count a vote that proves `version`, by the quorum of its
    /// beginning.
    ///
    /// More seats need a larger quorum. A smaller one still decides with votes of the first version that has the new
    /// seats, because nobody is copied to before the next. With fewer seats the quorum of before is larger than needed.
    /// An operation from before two changes counts none.
    #[inline]
    pub fn counts(&self, begun: u64, version: u64) -> bool {
        if begun >= self.since {
            return true;
        }
        let has_shrunk = self.before >= self.seats;
        begun >= self.before_since && (has_shrunk || version <= self.since)
    }

    fn changed(&self, before: usize, seats: usize, since: u64) -> Self {
        Self { seats, since, before, before_since: self.since }
    }
}

impl Roster {
    /// Returns the place of the member that joins or leaves, with the version that began it.
    pub fn in_change(&self) -> Option<(MasterId, u64)> {
        let joining = |(at, member): (usize, &Member)| match member.standing {
            Standing::Joining { since } => Some((MasterId::new(at), since)),
            _ => None,
        };
        let leaving = self.leaving.map(|leaving| (MasterId::new(leaving.place), leaving.since));
        leaving.or_else(|| self.members.iter().enumerate().find_map(joining))
    }

    /// Returns the place of a seat that nobody has.
    pub fn vacancy(&self) -> Option<MasterId> {
        self.place_that_is(Standing::Vacant)
    }

    /// Whether every member but those of `but` votes. Nothing that they may be needed for is missing then.
    fn all_in(&self, but: Option<MasterId>) -> bool {
        let others = self.members.iter().enumerate().filter(|(at, member)| {
            member.is_somebody() && but.is_none_or(|but| but.index() != *at)
        });
        others.into_iter().all(|(_, member)| member.is_in())
    }

    fn place_that_is(&self, standing: Standing) -> Option<MasterId> {
        let at = self.members.iter().position(|member| member.standing == standing)?;
        Some(MasterId::new(at))
    }

    fn can_change(&self) -> bool {
        self.stage == Stage::Founded && self.in_change().is_none()
    }

    /// Returns a place that is no seat, and is nobody's.
    fn closed_place(&mut self, id: u64) -> Option<usize> {
        if let Some(place) = self.place_that_is(Standing::Closed) {
            return Some(place.index());
        }
        if self.members.len() >= MAX_MASTERS {
            return None;
        }
        let nobody = Member::founder(id, String::new(), Vec::new());
        self.members.push(Member { standing: Standing::Closed, incarnation: 0, ..nobody });
        Some(self.members.len() - 1)
    }

    pub(super) fn join(&mut self, id: u64, address: &str) -> Option<()> {
        if !self.can_change() || self.knows(address) {
            return None;
        }
        let since = self.version;
        let (place, standing) = match self.vacancy() {
            Some(place) => (place.index(), Standing::Out { since }),
            None => (self.closed_place(id)?, Standing::Joining { since }),
        };
        let member = &mut self.members[place];
        member.standing = standing;
        member.move_to(address, since);
        Some(())
    }

    /// Gives a member that was admitted its seat, if it has none yet. `before` is the number of seats before.
    pub(super) fn seat_newcomer(&mut self, before: usize) -> Option<()> {
        if self.seats() == before {
            return Some(());
        }
        if self.seats().is_multiple_of(2) {
            let id = self.members.iter().map(|member| member.id).max()?.wrapping_add(1);
            let place = self.closed_place(id)?;
            self.members[place].standing = Standing::Vacant;
        }
        self.seating = self.seating.changed(before, self.seats(), self.version);
        Some(())
    }

    pub(super) fn vacate(&mut self, member: MasterId, incarnation: u64) -> Option<()> {
        let seats = self.seats();
        let fits = self.can_change() && self.vacancy().is_none() && seats > 3 && seats % 2 == 1;
        let can_go = self.can_miss(member);
        let member = self.members.get_mut(member.index())?;
        if !fits || !can_go || !member.is_somebody() || member.incarnation != incarnation {
            return None;
        }
        member.retire();
        member.standing = Standing::Vacant;
        Some(())
    }

    pub(super) fn leave(&mut self, member: MasterId, incarnation: u64) -> Option<()> {
        let is_it = self.member(member)?.incarnation == incarnation;
        let is_somebody = self.member(member)?.is_somebody();
        let fits = self.can_change() && self.vacancy().is_some() && self.seats() > 3;
        if !fits || !is_it || !is_somebody || !self.all_in(Some(member)) {
            return None;
        }
        self.leaving = Some(Leaving { place: member.index(), since: self.version });
        Some(())
    }

    pub(super) fn give_up(&mut self, since: u64) -> Option<()> {
        let (place, _) = self.in_change().filter(|(_, begun)| *begun == since)?;
        if self.leaving.take().is_none() {
            let member = &mut self.members[place.index()];
            member.retire();
            member.standing = Standing::Closed;
        }
        Some(())
    }

    pub(super) fn close(&mut self, since: u64) -> Option<()> {
        let leaving = self.leaving.filter(|leaving| leaving.since == since)?;
        let (place, vacancy) = (MasterId::new(leaving.place), self.vacancy()?);
        if !self.all_in(Some(place)) {
            return None;
        }
        let before = self.seats();
        self.leaving = None;
        for place in [place, vacancy] {
            let member = &mut self.members[place.index()];
            member.retire();
            member.standing = Standing::Closed;
        }
        self.seating = self.seating.changed(before, self.seats(), self.version);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::register::Program as _;
    use crate::decision::roster::roster::Change;

    fn founded(members: usize) -> Roster {
        let member = |id: u64| Member::founder(id, format!("run{id}"), vec![format!("a:{id}")]);
        Roster {
            cluster: "c".to_owned(),
            version: 7,
            stage: Stage::Founded,
            members: (0..members as u64).map(member).collect(),
            ..Roster::default()
        }
    }

    fn after(roster: &Roster, change: &Change) -> Roster {
        let (after, version) = change.run(roster);
        assert!(version.is_some(), "{change:?} applies");
        after
    }

    fn join(roster: &Roster, address: &str) -> Roster {
        after(roster, &Change::Join { id: 40, address: address.to_owned() })
    }

    fn admit(roster: &Roster, place: usize) -> Roster {
        let member = MasterId::new(place);
        let since = roster.out_since(member).expect("it is not in");
        let address = roster.members[place].address().expect("its home").to_owned();
        let run_id = format!("run{place}");
        after(roster, &Change::In { member, since, nonce: 1, run_id, address })
    }

    fn remove(place: usize, leaves: bool) -> Change {
        let (member, incarnation) = (MasterId::new(place), 1);
        match leaves {
            true => Change::Leave { member, incarnation },
            false => Change::Vacate { member, incarnation },
        }
    }

    fn shape(roster: &Roster) -> (usize, usize, usize) {
        (roster.size(), roster.seats(), roster.quorum().needed())
    }

    #[test]
    fn a_newcomer_has_no_seat_before_it_is_in() {
        let joining = join(&founded(3), "b:1");
        assert_eq!(shape(&joining), (4, 3, 2));
        let four = admit(&joining, 3);
        assert_eq!(shape(&four), (4, 5, 3), "one of five seats is vacant");
        let five = admit(&join(&four, "b:2"), 4);
        assert_eq!(shape(&five), (5, 5, 3));
    }

    #[test]
    fn members_change_one_at_a_time() {
        let joining = join(&founded(3), "b:1");
        let another = Change::Join { id: 41, address: "b:2".to_owned() };
        assert_eq!(another.run(&joining).1, None);
        let since = joining.version;
        let given_up = after(&joining, &Change::GiveUp { since });
        assert_eq!(shape(&given_up), (3, 3, 2));
        assert_eq!(shape(&admit(&join(&given_up, "b:2"), 3)), (4, 5, 3), "its place is used again");
    }

    #[test]
    fn the_seats_of_two_are_closed_at_once_and_not_while_a_member_that_stays_is_out() {
        let four = after(&founded(5), &remove(4, false));
        assert_eq!(shape(&four), (4, 5, 3));
        assert_eq!(remove(3, false).run(&four).1, None, "there is a vacant seat already");
        let leaving = after(&four, &remove(3, true));
        let since = leaving.version;
        let out = Change::Out { member: MasterId::new(0), incarnation: 1 };
        let one_out = after(&leaving, &out);
        assert_eq!(Change::Left { since }.run(&one_out).1, None);
        assert_eq!(shape(&after(&leaving, &Change::Left { since })), (3, 3, 2));
    }

    #[test]
    fn three_members_are_the_least() {
        for leaves in [false, true] {
            assert_eq!(remove(2, leaves).run(&founded(3)).1, None);
        }
    }

    #[test]
    fn a_smaller_quorum_counts_votes_of_the_first_version_with_more_seats_and_a_larger_one_all() {
        let grown = Seating::default().changed(3, 5, 9);
        assert!(grown.counts(7, 8) && grown.counts(7, 9) && !grown.counts(7, 10));
        assert!(grown.counts(9, 12), "it began with five");
        let shrunk = grown.changed(5, 3, 20);
        assert!(shrunk.counts(12, 25), "three of five are two of three");
        assert!(!shrunk.counts(7, 9), "it began before two changes");
    }
}
