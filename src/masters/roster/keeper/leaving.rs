//! Letting a member go together with a vacant seat, once the others hold everything that it may be needed for.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::tending::sources;
use super::{Keeper, Turn};
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::roster::admission::Shown;
use crate::decision::roster::mark::Mark;
use crate::decision::roster::roster::{Change, Leaving, Roster, Voters};
use crate::masters::dial::Dial;
use crate::masters::roster::copy::level::Staying;
use crate::masters::roster::copy::{Copying, Progress, Source};
use crate::masters::side_connection::Failed;

impl<D: Dial + Clone> Keeper<D> {
    /// Takes the next step for a member that is to leave, if there is one.
    pub(super) async fn let_go(
        self: &Rc<Self>,
        roster: &Roster,
        by_place: &[Option<Shown>],
    ) -> Result<Turn, Failed> {
        let Some(Leaving { place, since }) = roster.leaving else { return Ok(Turn::Idle) };
        if self.levelled.get() == Some(since) {
            self.change(Voters::Members, Change::Left { since }).await?;
            self.levelled.set(None);
            return Ok(Turn::Acted);
        }
        let leaver = MasterId::new(place);
        let leavers: MasterSet = [leaver].into_iter().collect();
        let staying = roster.voters().without(leavers);
        // Nothing is given to anybody, so the leaver is read, too, if it can be.
        let Some(nobody) = roster.vacancy() else { return Ok(Turn::Idle) };
        let readable = sources(roster, by_place, nobody, since);
        if !staying.without(readable).is_empty() || self.is_levelling.replace(true) {
            return Ok(Turn::Idle);
        }
        let (keeper, roster) = (Rc::clone(self), roster.clone());
        tokio::task::spawn_local(async move {
            let levelled = keeper.level(&roster, since, readable, staying).await;
            keeper.is_levelling.set(false);
            match levelled {
                Ok(()) => keeper.levelled.set(Some(since)),
                Err(why) => {
                    keeper.tell(&why);
                    tokio::time::sleep(super::PAUSE).await;
                }
            }
            keeper.errands.electorate.attend_to_roster();
        });
        Ok(Turn::Idle)
    }

    async fn level(
        &self,
        roster: &Roster,
        since: u64,
        read: MasterSet,
        staying: MasterSet,
    ) -> Result<(), Failed> {
        let mut sources = Vec::new();
        for place in read.iter() {
            let master = self.master_at(place).ok_or(Failed::Overtaken)?;
            sources.push(Source { master: place, errand: self.errands.to(master).await? });
        }
        let Some(first) = sources.first() else { return Err(Failed::NoQuorum) };
        let (target, electorate) = (first.errand.clone(), &self.errands.electorate);
        let is_proof =
            |source: &Source, mark: Option<&Mark>| self.is_proof(roster, since, source, mark);
        let now_us = || electorate.unix_time().micros().max(0) as u64;
        let levelling = Copying {
            quorum: roster.quorum(),
            sources,
            // Nothing is written to it.
            target,
            address: String::new(),
            databases: self.databases(),
            nonce: 0,
            worker: self.worker,
            now_us: &now_us,
            progress: Arc::new(Progress::default()),
            pause: self.errands.vote_timeout,
            is_proof: &is_proof,
            flushes: RefCell::default(),
            copied: &|_| (),
        };
        let after = Quorum::of(roster.seats() - 2);
        levelling.level(Staying { members: staying, after }).await
    }
}
