//! When a quorum has forgotten: nobody is left to copy from.
//!
//! Nothing can be decided then. After `--restart-wait` every lock that was no longer than that has ended, so the roster
//! is begun anew with the masters that can be reached, and what they hold. Other data may be lost, and everybody is told.

use std::rc::Rc;

use super::{Forgot, Keeper, Keys, Turn};
use crate::clock;
use crate::decision::roster::admission::Shown;
use crate::decision::roster::mark::{Kind, Mark};
use crate::decision::roster::roster::{Change, Roster, Standing, Voters};
use crate::master::dial::Dial;
use crate::master::electorate::Sight;
use crate::master::errand::Failed;
use crate::master::roster::register::Changed;
use crate::quorum::{MasterId, MasterSet};

impl<D: Dial + Clone> Keeper<D> {
    /// Notes since when members have been without their memory. One that was restarted forgot when it was started.
    ///
    /// One that was admitted meanwhile may have forgotten again since, unseen: it has waited for nothing yet.
    pub(super) fn remember_who_forgot(
        &self,
        roster: &Roster,
        by_place: &[Option<Shown>],
        sights: &[Option<Sight>],
    ) {
        let forgot = &mut *self.forgot.borrow_mut();
        for (at, member) in roster.members.iter().enumerate() {
            let place = MasterId::new(at);
            let Some(shown) = &by_place[at] else { continue };
            if remembers(roster, place, shown) {
                forgot.remove(&place);
                continue;
            }
            let facts = self.master_at(place).and_then(|master| sights[master.index()].as_ref());
            let started = facts
                .filter(|sight| sight.facts.run_id != member.run_id)
                .and_then(|sight| sight.facts.started());
            let incarnation = newest_incarnation(roster, place, shown);
            if forgot.get(&place).is_none_or(|known| known.incarnation < incarnation) {
                let at = started.unwrap_or_else(clock::now);
                forgot.insert(place, Forgot { incarnation, at });
            }
        }
    }

    /// Begins anew when too few remember, nobody else can be asked, and the time for it has come.
    pub(super) async fn begin_anew(
        self: &Rc<Self>,
        sights: &[Option<Sight>],
        roster: &Roster,
        by_place: &[Option<Shown>],
    ) -> Result<Turn, Failed> {
        let quorum = self.errands.quorum;
        let seen = |is: &dyn Fn(MasterId, &Shown) -> bool| -> MasterSet {
            let places = (0..roster.members.len()).map(MasterId::new);
            let is = |place: &MasterId| {
                by_place[place.index()].as_ref().is_some_and(|shown| is(*place, shown))
            };
            places.filter(is).collect()
        };
        let remembering = seen(&|place, shown| remembers(roster, place, shown));
        let fit = |place| {
            let sight = self.master_at(place).and_then(|master| sights[master.index()].as_ref());
            sight.is_some_and(|sight| sight.facts.bar.is_none())
        };
        let forgetful = seen(&|place, shown| !remembers(roster, place, shown) && fit(place));
        let is_possible = quorum.reached_by(remembering.union(forgetful));
        if quorum.reached_by(remembering) || forgetful.is_empty() || !is_possible {
            return Ok(Turn::Idle);
        }
        let wait = self.errands.electorate.terms().restart_wait;
        let has_waited = forgetful.iter().all(|place| {
            self.forgot.borrow().get(&place).is_some_and(|forgot| forgot.at.elapsed() >= wait)
        });
        if !has_waited {
            return Ok(Turn::Idle);
        }
        self.begin_with(sights, roster, by_place, remembering, forgetful).await
    }

    async fn begin_with(
        self: &Rc<Self>,
        sights: &[Option<Sight>],
        roster: &Roster,
        by_place: &[Option<Shown>],
        remembering: MasterSet,
        forgetful: MasterSet,
    ) -> Result<Turn, Failed> {
        let mut anew = roster.clone();
        let versions = by_place.iter().flatten().filter_map(|shown| shown.mark.as_ref()?.version());
        anew.version = versions.chain([roster.version]).max().unwrap_or_default() + 1;
        for (at, member) in anew.members.iter_mut().enumerate() {
            let place = MasterId::new(at);
            let Some(master) = self.master_at(place) else { continue };
            let sight = sights[master.index()].as_ref();
            if remembering.contains(place) {
                continue;
            }
            let (true, Some(sight)) = (forgetful.contains(place), sight) else {
                member.standing = Standing::Out { since: anew.version };
                continue;
            };
            let Some(nonce) = self.provisional(master, sight).await? else {
                return Ok(Turn::Acted);
            };
            member.incarnation += 1;
            member.run_id = sight.facts.run_id.clone();
            member.standing = Standing::In { nonce };
        }
        let restart = Change::Restart { known: roster.version, anew: Box::new(anew) };
        if self.change(Voters::Anyone, restart).await? != Changed::Not {
            self.errands.electorate.has_begun_anew();
            tracing::warn!(
                "a quorum of the masters had forgotten: they begin anew after --restart-wait with what \
                 they hold. Locks that were taken for longer, and other data, may be lost"
            );
        }
        Ok(Turn::Acted)
    }

    /// Gives a master a provisional mark with all that it holds, unless it has one; `None`: it has changed meanwhile.
    async fn provisional(&self, master: MasterId, sight: &Sight) -> Result<Option<u64>, Failed> {
        if let Some(&Mark { kind: Kind::Provisional { nonce }, .. }) = sight.marks.mark() {
            return Ok(Some(nonce));
        }
        let nonce = fastrand::u64(1..);
        let kind = Kind::Provisional { nonce };
        let is_done = self.remark(master, sight, Some(&kind), Keys::Keep).await?;
        Ok(is_done.then_some(nonce))
    }
}

/// The newest incarnation of a member that its mark or the roster tells of.
fn newest_incarnation(roster: &Roster, place: MasterId, shown: &Shown) -> u64 {
    let marked = match shown.mark.as_ref().map(|mark| &mark.kind) {
        Some(Kind::Member { cluster, incarnation, .. }) if *cluster == roster.cluster => {
            *incarnation
        }
        _ => 0,
    };
    roster.member(place).map_or(0, |member| member.incarnation).max(marked)
}

/// Whether a member knows what its roster says of it, or was just admitted with all that it should.
fn remembers(roster: &Roster, place: MasterId, shown: &Shown) -> bool {
    let Some(expected) = Mark::expected(roster, place, 0) else { return false };
    let Some(member) = roster.member(place) else { return false };
    let Some(mark) = &shown.mark else { return false };
    let is_same = mark.proves_same(&expected) || mark.missed_a_raise_to(&expected);
    let is_admitted = match (member.standing, &mark.kind) {
        (Standing::In { nonce }, Kind::Provisional { nonce: its }) => nonce != 0 && nonce == *its,
        _ => false,
    };
    member.is_in() && member.run_id == shown.run_id && (is_same || is_admitted)
}
