//! The work of a serving proxy: it excludes masters that have forgotten, restores their data, and admits them again.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::{Admissions, Keeper, Keys, Turn};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::roster::admission::{self, Copy, Shown, Task, pause_ms};
use crate::decision::roster::mark::{Mark, MarkKind};
use crate::decision::roster::roster::{Change, Roster, Voters};
use crate::decision::roster::seats::{moves, seats};
use crate::masters::dial::Dial;
use crate::masters::electorate::MasterSight;
use crate::masters::roster::copy::{Copying, Source};
use crate::masters::roster::register::Changed;
use crate::masters::side_connection::Failed;
use crate::time::clock::{self, Instant};

/// Time limit for another proxy to announce that it is copying.
const BEGINS: Duration = Duration::from_secs(2);

/// Time without an exclusion after which a member no longer counts as failing.
const CALM: Duration = Duration::from_secs(120);

impl<D: Dial + Clone> Keeper<D> {
    pub(super) async fn tend(
        self: &Rc<Self>,
        sights: &[Option<MasterSight>],
    ) -> Result<Turn, Failed> {
        self.follow(sights);
        let roster = self.roster.borrow().clone();
        let by_place = self.shown_by_place(&roster, &self.shown(sights));

        let places = || (0..roster.members.len()).map(MasterId::new);
        let copies = self.copies.borrow().clone();
        let next = |place| {
            let task = admission::next(&roster, place, &by_place, copies.get(&place))?;
            Some((place, task))
        };
        let tasks: Vec<(MasterId, Task)> = places().filter_map(next).collect();
        if self.raise_marks(sights, &tasks).await? == Turn::Acted {
            return Ok(Turn::Acted);
        }
        self.complete_flushes(sights).await;
        for (place, task) in tasks {
            tracing::debug!(master = ?self.master_at(place), version = roster.version, ?task, "to do");
            match self.act(sights, &roster, &by_place, place, task).await {
                // `begin_anew` decides whether that state is permanent.
                Ok(Turn::Idle) | Err(Failed::NoQuorum) => {}
                acted => return acted,
            }
        }
        if self.let_go(&roster, &by_place).await? == Turn::Acted {
            return Ok(Turn::Acted);
        }
        if self.begin_anew(sights, &roster, &by_place).await? == Turn::Acted {
            return Ok(Turn::Acted);
        }
        self.note_addresses(sights, &roster).await
    }

    /// Counts votes by the roster that this proxy knows, whether or not all marks have been raised to it.
    pub(super) fn follow(&self, sights: &[Option<MasterSight>]) {
        let roster = self.roster.borrow();
        let shown = self.shown_ever(sights);
        let found = seats(&roster, &self.addresses(), &shown, &self.seats.borrow());
        *self.seats.borrow_mut() = found;
        self.errands.electorate.follow(&roster, &self.seats.borrow());
        self.move_on(&roster, &shown);
    }

    /// Goes to the instances that have replaced others. Returns whether there were any.
    pub(super) fn move_on(&self, roster: &Roster, shown: &[Option<Shown>]) -> bool {
        let electorate = &self.errands.electorate;
        let moves = moves(roster, &self.addresses(), shown, &self.seats.borrow());
        // Additional masters are reached like the others.
        let Some((_, model)) = electorate.addresses().into_iter().next() else { return false };
        let to = |(master, home): (MasterId, Option<&str>)| {
            let Some(home) = home else { return Some((master, None)) };
            let like = electorate.address(master).unwrap_or_else(|| model.clone());
            Some((master, Some(like.at(home).ok()?)))
        };
        let moves: Vec<_> = moves.into_iter().filter_map(to).collect();
        moves.iter().for_each(|(master, home)| electorate.move_to(*master, home.clone()));
        !moves.is_empty()
    }

    /// Raises all due marks at once. Copying waits until this is done.
    async fn raise_marks(
        &self,
        sights: &[Option<MasterSight>],
        tasks: &[(MasterId, Task)],
    ) -> Result<Turn, Failed> {
        let marks = tasks.iter().filter_map(|(_, task)| match task {
            Task::Mark { master, mark } => Some((self.master_at(*master)?, mark)),
            _ => None,
        });
        let mut raised = MasterSet::EMPTY;
        let mut raising = FuturesUnordered::new();
        for (master, mark) in marks {
            let sight = sights[master.index()].as_ref().filter(|_| !raised.contains(master));
            if let Some(sight) = sight {
                raised.insert(master);
                raising.push(self.remark(master, sight, Some(&mark.kind), Keys::Keep));
            }
        }
        let mut turn = Turn::Idle;
        let mut deadline = None;
        while let Some(done) = next_before(deadline, &mut raising).await {
            if matches!(done, Ok(true)) {
                // The next turn raises the marks of slower masters.
                turn = Turn::Acted;
                deadline.get_or_insert_with(|| clock::now() + super::LOOK_TIMEOUT);
            }
        }
        Ok(turn)
    }

    async fn act(
        self: &Rc<Self>,
        sights: &[Option<MasterSight>],
        roster: &Roster,
        by_place: &[Option<Shown>],
        place: MasterId,
        task: Task,
    ) -> Result<Turn, Failed> {
        match task {
            Task::Change(Change::Out { .. }) if self.is_paused(place) => Ok(Turn::Idle),
            Task::Change(change @ Change::Out { .. }) => self.put_out(change).await,
            Task::Change(change @ Change::In { .. }) => self.admit(place, change).await,
            Task::Empty(_) => self.empty(sights, roster, by_place, place).await,
            Task::CopyFrom(sources) => Ok(self.copy(roster, place, sources)),
            Task::Change(_) | Task::Mark { .. } | Task::Wait => Ok(Turn::Idle),
        }
    }

    /// Whether a member is paused, so that one that keeps failing does not stop the others.
    fn is_paused(&self, place: MasterId) -> bool {
        self.admissions.borrow().get(&place).is_some_and(|admissions| {
            let pause = Duration::from_millis(pause_ms(admissions.in_a_row));
            admissions.last.elapsed() < pause
        })
    }

    async fn put_out(&self, change: Change) -> Result<Turn, Failed> {
        match self.change(Voters::Members, change).await? {
            Changed::To(_) => Ok(Turn::Acted),
            // Too few members would remain, or another proxy has done it.
            Changed::Not => Ok(Turn::Idle),
        }
    }

    async fn admit(&self, place: MasterId, change: Change) -> Result<Turn, Failed> {
        let changed = self.change(Voters::Members, change).await?;
        self.copies.borrow_mut().remove(&place);
        if changed != Changed::Not {
            let mut all = self.admissions.borrow_mut();
            let before = all.get(&place).filter(|before| before.last.elapsed() < CALM);
            let in_a_row = before.map_or(0, |before| before.in_a_row + 1);
            all.insert(place, Admissions { in_a_row, last: clock::now() });
        }
        Ok(Turn::Acted)
    }

    /// Empties a master that is out, if enough others remain to restore its data.
    async fn empty(
        &self,
        sights: &[Option<MasterSight>],
        roster: &Roster,
        by_place: &[Option<Shown>],
        place: MasterId,
    ) -> Result<Turn, Failed> {
        let Some(since) = roster.out_since(place) else { return Ok(Turn::Idle) };
        let sources = sources(roster, by_place, place, since);
        let Some(master) = self.master_at(place) else { return Ok(Turn::Idle) };
        let Some(sight) = &sights[master.index()] else { return Ok(Turn::Idle) };
        let is_open = !self.copying.borrow().contains(place) && sight.facts.bar.is_none();
        if sources.len() < roster.sources_needed(place) || !is_open {
            return Ok(Turn::Idle);
        }
        if self.is_given_back_by_others(place, sight) {
            return Ok(Turn::Idle);
        }
        let nonce = fastrand::u64(1..);
        if self.remark(master, sight, Some(&MarkKind::Provisional { nonce }), Keys::Remove).await? {
            let copy = Copy { since, nonce, sources: MasterSet::EMPTY };
            self.copies.borrow_mut().insert(place, copy);
        }
        Ok(Turn::Acted)
    }

    /// Whether another proxy has begun to copy to this master and may still be doing so.
    fn is_given_back_by_others(&self, place: MasterId, sight: &MasterSight) -> bool {
        let mark = sight.marks.mark();
        let Some(&Mark { kind: MarkKind::Provisional { nonce }, .. }) = mark else { return false };
        let mut others = self.others.borrow_mut();
        let (known, since) = others.entry(place).or_insert_with(|| (nonce, clock::now()));
        if *known != nonce {
            (*known, *since) = (nonce, clock::now());
        }
        sight.marks.copying().is_some() || since.elapsed() < BEGINS
    }

    /// Starts a copy in a separate task, because other masters may forget meanwhile.
    fn copy(self: &Rc<Self>, roster: &Roster, place: MasterId, sources: MasterSet) -> Turn {
        let Some(copy) = self.copies.borrow().get(&place).copied() else { return Turn::Idle };
        let needed = roster.sources_needed(place);
        // The copy may have been completed during this turn.
        let is_enough = sources.len() >= needed && copy.sources.len() < needed;
        if !is_enough || self.copying.borrow().contains(place) {
            return Turn::Idle;
        }
        let masters: Vec<_> =
            sources.iter().filter_map(|place| Some((place, self.master_at(place)?))).collect();
        let Some(target) = self.master_at(place) else { return Turn::Idle };
        self.copying.borrow_mut().insert(place);
        let (keeper, roster) = (Rc::clone(self), roster.clone());
        tokio::task::spawn_local(async move {
            let done = keeper.copy_now(target, &masters, copy, &roster).await;
            keeper.copying.borrow_mut().remove(place);
            match done {
                Ok(()) => keeper.has_copied(place, target, copy, sources),
                Err(why) => {
                    keeper.tell(&why);
                    tokio::time::sleep(super::PAUSE).await;
                }
            }
            keeper.errands.electorate.attend_to_roster();
        });
        Turn::Idle
    }

    async fn copy_now(
        &self,
        target: MasterId,
        masters: &[(MasterId, MasterId)],
        copy: Copy,
        roster: &Roster,
    ) -> Result<(), Failed> {
        let mut sources = Vec::new();
        for (place, master) in masters {
            sources.push(Source { master: *place, errand: self.errands.to(*master).await? });
        }
        let electorate = &self.errands.electorate;
        let is_proof =
            |source: &Source, mark: Option<&Mark>| self.is_proof(roster, copy.since, source, mark);
        let now_us = || electorate.unix_time().micros().max(0) as u64;
        let copying = Copying {
            quorum: roster.quorum(),
            sources,
            target: self.errands.to(target).await?,
            address: self.address(target),
            databases: self.databases(),
            nonce: copy.nonce,
            worker: self.worker,
            now_us: &now_us,
            progress: electorate.progress(target),
            pause: self.errands.vote_timeout,
            is_proof: &is_proof,
            flushes: RefCell::default(),
            copied: &|keys| electorate.copied(target, keys),
        };
        copying.run().await
    }

    /// Whether a mark proves what was read with it from a source, since this version.
    pub(super) fn is_proof(
        &self,
        roster: &Roster,
        since: u64,
        source: &Source,
        mark: Option<&Mark>,
    ) -> bool {
        let run_id = source.errand.run_id.clone();
        let shown = Shown { mark: mark.cloned(), run_id, address: String::new() };
        // The roster may have changed since copying began, and the masters may know it already.
        let newest = self.roster.borrow();
        [roster, &*newest]
            .iter()
            .any(|roster| admission::is_source(roster, source.master, &shown, since))
    }

    /// Returns the number of databases that every master in sight has. Clients get no more than that.
    pub(super) fn databases(&self) -> u32 {
        let sights = self.errands.electorate.sights();
        sights.iter().flatten().map(|sight| sight.facts.databases).min().unwrap_or_default()
    }

    fn has_copied(&self, place: MasterId, target: MasterId, copy: Copy, sources: MasterSet) {
        let copied = self.errands.electorate.progress(target).copied();
        let address = self.address(target);
        tracing::info!(master = %address, copied, "restored data that the master may have lost");
        if let Some(known) = self.copies.borrow_mut().get_mut(&place)
            && (known.since, known.nonce) == (copy.since, copy.nonce)
        {
            known.sources = known.sources.union(sources);
        }
    }

    /// Records the address at which this proxy reaches a member, so that the member is recognized there after it
    /// forgets.
    async fn note_addresses(
        &self,
        sights: &[Option<MasterSight>],
        roster: &Roster,
    ) -> Result<Turn, Failed> {
        for (at, sight) in sights.iter().enumerate() {
            let Some(sight) = sight else { continue };
            let Some(place) = self.seats.borrow().get(at).copied().flatten() else { continue };
            let address = self.address(MasterId::new(at));
            let is_new = roster.member(place).is_some_and(|member| {
                member.is_in() && member.run_id == sight.facts.run_id && !member.is_at(&address)
            });
            if is_new {
                self.change(Voters::Members, Change::SeenAt { member: place, address }).await?;
                return Ok(Turn::Acted);
            }
        }
        Ok(Turn::Idle)
    }
}

/// Returns the next result; `None` if there is none, or none before the deadline.
async fn next_before<T>(
    deadline: Option<Instant>,
    doing: &mut FuturesUnordered<impl Future<Output = T>>,
) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, doing.next()).await.ok()?,
        None => doing.next().await,
    }
}

/// Returns the members from which `place` may be copied now.
pub(super) fn sources(
    roster: &Roster,
    by_place: &[Option<Shown>],
    place: MasterId,
    since: u64,
) -> MasterSet {
    let is_source = |source: &MasterId| {
        let shown = by_place[source.index()].as_ref();
        shown.is_some_and(|shown| admission::is_source(roster, *source, shown, since))
    };
    roster.voters().without([place].into_iter().collect()).iter().filter(is_source).collect()
}
