//! Recovery after a quorum has forgotten: carries out the steps of [`anew`] and publishes the new roster.

use std::rc::Rc;

use super::{Keeper, Keys, Turn};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::roster::admission::Shown;
use crate::decision::roster::anew::{self, Task};
use crate::decision::roster::mark::MarkKind;
use crate::decision::roster::roster::{Change, Roster, Voters};
use crate::masters::dial::Dial;
use crate::masters::electorate::MasterSight;
use crate::masters::side_connection::Failed;

impl<D: Dial + Clone> Keeper<D> {
    /// Lets members rest when too few remember, and begins anew with those that have rested.
    pub(super) async fn begin_anew(
        self: &Rc<Self>,
        sights: &[Option<MasterSight>],
        roster: &Roster,
        by_place: &[Option<Shown>],
    ) -> Result<Turn, Failed> {
        match self.next_anew(sights, roster, by_place) {
            Some(Task::Mark(places)) => self.let_rest(sights, places).await,
            Some(Task::Change(change)) => self.restart(change).await,
            Some(Task::Rest) | None => Ok(Turn::Idle),
        }
    }

    fn next_anew(
        &self,
        sights: &[Option<MasterSight>],
        roster: &Roster,
        by_place: &[Option<Shown>],
    ) -> Option<Task> {
        let millis = |duration: std::time::Duration| duration.as_millis() as u64;
        let now_ms = millis(self.started.elapsed());
        let wait_ms = millis(self.errands.electorate.terms().restart_wait);
        let is_fit = |place: &MasterId| {
            let sight = self.master_at(*place).and_then(|master| sights[master.index()].as_ref());
            sight.is_some_and(|sight| sight.facts.bar.is_none())
        };
        let fit = (0..roster.members.len()).map(MasterId::new).filter(is_fit).collect();
        let mut rests = self.rests.borrow_mut();
        rests.see(roster, by_place, now_ms);
        anew::next(roster, by_place, fit, &rests, (now_ms, wait_ms))
    }

    /// Gives members a provisional mark and keeps all their keys.
    async fn let_rest(
        &self,
        sights: &[Option<MasterSight>],
        places: MasterSet,
    ) -> Result<Turn, Failed> {
        for master in places.iter().filter_map(|place| self.master_at(place)) {
            let Some(sight) = &sights[master.index()] else { continue };
            let kind = MarkKind::Provisional { nonce: fastrand::u64(1..) };
            self.remark(master, sight, Some(&kind), Keys::Keep).await?;
        }
        Ok(Turn::Acted)
    }

    async fn restart(&self, change: Change) -> Result<Turn, Failed> {
        let Change::Restart { anew, .. } = &change else { return Ok(Turn::Idle) };
        self.change(Voters::Anew(anew.clone()), change).await?;
        Ok(Turn::Acted)
    }
}
