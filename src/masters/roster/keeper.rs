//! Keeps the roster: founds the cluster, excludes masters that have forgotten, and admits them again.
//!
//! One task of each process reads the watches' findings and asks the decisions for the next step ([`founding`],
//! [`admission`](crate::decision::roster::admission), [`anew`](crate::decision::roster::anew)). It then carries out
//! that step. It remembers nothing that others would need: several proxies may work at once, and any of them can
//! finish what another began.

mod anew;
mod beginning;
mod flushing;
mod leaving;
mod ordered;
mod tending;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;

use self::ordered::Candidate;
use super::marks::Keys;
use super::register::{Changed, Register};
use crate::config::MasterAddr;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::roster::admission::{Copy, Shown};
use crate::decision::roster::anew::Rests;
use crate::decision::roster::founding;
use crate::decision::roster::learning::{self, Lesson, Newest};
use crate::decision::roster::mark::MarkKind;
use crate::decision::roster::roster::{Accepted, Change, Roster, Stage, Voters};
use crate::decision::roster::seats::{Seats, at_place, by_place};
use crate::masters::dial::Dial;
use crate::masters::electorate::MasterSight;
use crate::masters::side_connection::{Errands, Failed};
use crate::time::clock::{self, Instant};

/// Grace period before any master is reported as out of reach.
const FIRST_LOOKS: Duration = Duration::from_secs(1);

/// Interval between checks for something to do.
const INTERVAL: Duration = Duration::from_secs(1);

/// Pause after a failed step, and before another look at the other shards.
const PAUSE: Duration = Duration::from_millis(100);

/// Time limit for the probe that is to show the effect of a step.
const LOOK_TIMEOUT: Duration = Duration::from_millis(500);

/// The task that keeps the roster; see the module.
pub struct Keeper<D> {
    pub(super) errands: Errands<D>,
    /// Identifies this keeper's attempts to change the roster.
    worker: u64,
    /// Name of the cluster that this keeper would found.
    cluster: String,
    /// The masters that the list names. Their places may go to others.
    named: Vec<(MasterId, MasterAddr)>,
    /// The newest roster known to be decided.
    roster: RefCell<Roster>,
    /// Time at which the roster was learned. Earlier findings say nothing about it.
    learned: Cell<Instant>,
    seats: RefCell<Seats>,
    /// Current and past copies, by place in the roster.
    copies: RefCell<HashMap<MasterId, Copy>>,
    copying: RefCell<MasterSet>,
    admissions: RefCell<HashMap<MasterId, Admissions>>,
    /// Times since which members rest, in milliseconds since `started`.
    rests: RefCell<Rests>,
    /// Copies by other proxies, by place: the nonce and when it was first seen.
    others: RefCell<HashMap<MasterId, (u64, Instant)>>,
    started: Instant,
    /// Time since which the masters of a first deployment are awaited.
    waits_since: Cell<Option<Instant>>,
    last_error: RefCell<Option<String>>,
    /// Orders whose new instances have been probed, or have failed to answer.
    candidates: RefCell<VecDeque<Candidate>>,
    is_levelling: Cell<bool>,
    /// Version since which a member is to leave, once the others hold everything.
    levelled: Cell<Option<u64>>,
}

/// Recent admissions of a member.
#[derive(Clone, Copy, Debug)]
struct Admissions {
    in_a_row: u32,
    last: Instant,
}

/// Outcome of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Something was done or tried; check again at once.
    Acted,
    /// There was nothing to do.
    Idle,
}

impl<D: Dial + Clone> Keeper<D> {
    /// Creates a keeper that knows nothing yet.
    pub fn new(errands: Errands<D>) -> Rc<Self> {
        Rc::new(Self {
            worker: fastrand::u64(..1 << 48),
            cluster: format!("{:016x}", fastrand::u64(..)),
            named: errands.electorate.addresses(),
            roster: RefCell::default(),
            learned: Cell::new(clock::now()),
            seats: RefCell::new(vec![None; errands.electorate.places()]),
            copies: RefCell::default(),
            copying: RefCell::default(),
            admissions: RefCell::default(),
            rests: RefCell::default(),
            others: RefCell::default(),
            started: clock::now(),
            waits_since: Cell::default(),
            last_error: RefCell::default(),
            candidates: RefCell::default(),
            is_levelling: Cell::default(),
            levelled: Cell::default(),
            errands,
        })
    }

    /// Keeps the roster forever, or until these masters turn out to belong to others.
    pub async fn run(self: Rc<Self>) {
        tokio::task::spawn_local(Rc::clone(&self).follow_news());
        while self.errands.electorate.refusal().is_none() {
            match self.turn().await {
                Ok(Turn::Acted) => self.look_again().await,
                Ok(Turn::Idle) => self.rest(INTERVAL).await,
                Err(why) => {
                    self.tell(&why);
                    tokio::time::sleep(PAUSE).await;
                    self.look_again().await;
                }
            }
        }
    }

    /// Follows rosters changed by others, so that votes are counted by them whatever this keeper is waiting for.
    async fn follow_news(self: Rc<Self>) {
        loop {
            self.errands.electorate.news().await;
            if self.errands.electorate.serves() {
                if self.shows_a_newer_version() {
                    self.learn_what_was_raised().await;
                }
                self.follow(&self.errands.electorate.sights());
            }
        }
    }

    fn shows_a_newer_version(&self) -> bool {
        let sights = self.errands.electorate.sights();
        let versions = sights.iter().flatten().filter_map(|sight| sight.marks.mark()?.version());
        versions.max() > Some(self.roster.borrow().version)
    }

    /// Learns a roster whose raised marks are visible. Marks are raised once a quorum holds the roster. So if no quorum
    /// is seen to hold it, some of its holders are out of sight.
    async fn learn_what_was_raised(&self) {
        if !self.knows_what_is_decided() {
            self.look_again().await;
        }
        if self.knows_what_is_decided() {
            return;
        }
        let voters = Voters::Members;
        let register = self.register(voters);
        if let Ok(settled) = register.settle().await {
            self.knows(&settled);
        }
    }

    fn knows_what_is_decided(&self) -> bool {
        let sights = self.errands.electorate.sights();
        match learning::newest(&rosters(&sights)) {
            Some(Newest { state, is_decided: true }) => _ = self.knows(&state.value),
            _ => return false,
        }
        !self.shows_a_newer_version()
    }

    async fn rest(&self, limit: Duration) {
        let _ = tokio::time::timeout(limit, self.errands.electorate.attention()).await;
    }

    async fn turn(self: &Rc<Self>) -> Result<Turn, Failed> {
        let sights = self.errands.electorate.sights();
        if self.learn(&sights).await? == Turn::Acted
            || self.obey().await
            || self.clear_rests(&sights).await?
        {
            return Ok(Turn::Acted);
        }
        if self.errands.electorate.serves() {
            self.tend(&sights).await
        } else {
            self.begin(&sights).await
        }
    }

    /// Takes over the newest roster that a quorum holds. If the masters disagree, brings them to agreement first.
    async fn learn(&self, sights: &[Option<MasterSight>]) -> Result<Turn, Failed> {
        let (known, held) = (self.roster.borrow().clone(), self.usable_rosters(sights));
        match learning::lesson(&known, &held) {
            None => Ok(Turn::Idle),
            Some(Lesson::TakeOver(decided)) => Ok(self.take_over(sights, decided).await),
            Some(Lesson::Settle(newest)) => self.settle(sights, &newest.value).await,
        }
    }

    /// Returns the rosters that masters hold, except for foundings that nobody can finish.
    fn usable_rosters<'a>(&self, sights: &'a [Option<MasterSight>]) -> Vec<&'a Accepted> {
        let shown = self.listed(self.shown_ever(sights));
        let is_usable = |held: &&Accepted| !founding::is_lost(&held.value, &shown);
        rosters(sights).into_iter().filter(is_usable).collect()
    }

    async fn take_over(&self, sights: &[Option<MasterSight>], decided: &Accepted) -> Turn {
        if founding::is_overtaken(&self.roster.borrow(), &decided.value) {
            self.roster.take();
        }
        let turn = self.knows(&decided.value);
        self.catch_up(sights, decided).await;
        turn
    }

    async fn settle(
        &self,
        sights: &[Option<MasterSight>],
        newest: &Roster,
    ) -> Result<Turn, Failed> {
        // Change nothing for a list that needs correcting, or may need it.
        let is_clear = || self.has_looked(sights) && beginning::clusters(sights).len() < 2;
        if !self.errands.electorate.serves() && !is_clear() {
            return Ok(Turn::Idle);
        }
        let voters = self.voters_of(newest);
        match self.register(voters).settle().await {
            Ok(settled) => Ok(self.knows(&settled)),
            // Too many have forgotten it, so the remaining copy is the best available.
            Err(Failed::NoQuorum) if newest.stage == Stage::Founded => {
                self.knows(newest);
                Ok(Turn::Idle)
            }
            Err(Failed::NoQuorum) => Ok(Turn::Idle),
            Err(why) => Err(why),
        }
    }

    /// Whether all masters of the list were seen, or the others had time to appear.
    fn has_looked(&self, sights: &[Option<MasterSight>]) -> bool {
        self.unseen(sights).is_empty() || self.started.elapsed() >= FIRST_LOOKS
    }

    /// Returns the places of the list whose master was not seen.
    fn unseen(&self, sights: &[Option<MasterSight>]) -> Vec<usize> {
        let is_unseen = |at: &usize| sights[*at].is_none() && self.has_somebody(MasterId::new(*at));
        (0..sights.len()).filter(is_unseen).collect()
    }

    /// Returns what is known of the masters of the list, without places of nobody.
    fn listed<T>(&self, by_master: Vec<T>) -> Vec<T> {
        let listed = self.places().zip(by_master).filter(|(master, _)| self.has_somebody(*master));
        listed.map(|(_, known)| known).collect()
    }

    /// Whether there is a master at this place of the list.
    fn has_somebody(&self, master: MasterId) -> bool {
        self.errands.electorate.address(master).is_some()
    }

    fn places(&self) -> impl Iterator<Item = MasterId> + use<D> {
        (0..self.errands.electorate.places()).map(MasterId::new)
    }

    /// Takes a roster over if it is news.
    fn knows(&self, roster: &Roster) -> Turn {
        let known = &mut *self.roster.borrow_mut();
        let is_ours = known.cluster == roster.cluster;
        if learning::is_news(known, roster) || !is_ours && self.is_gone(&known.cluster) {
            let (together, shard) = (&self.errands.together, self.errands.shard);
            if self.errands.electorate.serves() && !together.still_fits(shard, roster) {
                self.errands.electorate.refuse(together.replaced(shard));
                return Turn::Idle;
            }
            let is_anew = is_ours && roster.losses > known.losses;
            *known = roster.clone();
            self.learned.set(clock::now());
            if is_anew {
                self.errands.electorate.has_begun_anew();
            }
            return Turn::Acted;
        }
        Turn::Idle
    }

    /// Whether no master of the list has anything left of a cluster, because another was founded since.
    fn is_gone(&self, cluster: &str) -> bool {
        let sights = self.errands.electorate.sights();
        if !self.unseen(&sights).is_empty() {
            return false;
        }
        sights.iter().flatten().all(|sight| {
            let is_its = sight.marks.any().is_some_and(|mark| mark.is_of(cluster));
            let knows_it = sight.marks.roster().is_some_and(|state| state.value.cluster == cluster);
            !is_its && !knows_it
        })
    }

    /// Gives the roster to members that were admitted without it, and to founders before they get their marks.
    async fn catch_up(&self, sights: &[Option<MasterSight>], decided: &Accepted) {
        let is_behind = |(_, sight): &(MasterId, &MasterSight)| {
            let (held, mark) = (sight.marks.roster(), sight.marks.mark());
            sight.facts.bar.is_none()
                && learning::is_behind(decided, held, mark, &sight.facts.run_id)
        };
        for (master, _) in distinct(sights).filter(is_behind) {
            if let Ok(errand) = self.errands.to(master).await {
                let command = super::acceptor::catch_up(decided);
                let _ = command.query_async::<redis::Value>(&mut errand.connection.clone()).await;
            }
        }
    }

    /// Removes the remains of foundings that this cluster has overtaken; their masters are members that have
    /// forgotten. Returns whether there were any.
    async fn clear_rests(&self, sights: &[Option<MasterSight>]) -> Result<bool, Failed> {
        let roster = self.roster.borrow().clone();
        let is_another = |state: &&Accepted| state.value.cluster != roster.cluster;
        if !rosters(sights).iter().any(is_another) {
            return Ok(false);
        }
        let shown = self.shown_ever(sights);
        let is_rest = |(_, sight): &(MasterId, &MasterSight)| {
            let (left, mark) = (sight.marks.roster(), sight.marks.any());
            left.is_some_and(|left| {
                founding::is_rest((&left.value, mark.as_ref()), &roster, &shown)
            })
        };
        let mut is_cleared = false;
        for (master, sight) in distinct(sights).filter(is_rest) {
            is_cleared |= self.forget(master, sight).await?;
        }
        Ok(is_cleared)
    }

    /// Removes a master's marks and roster if they are unchanged since the probe.
    async fn forget(&self, master: MasterId, sight: &MasterSight) -> Result<bool, Failed> {
        let is_same = self.remark(master, sight, None, Keys::Keep).await?;
        if is_same {
            let errand = self.errands.to(master).await?;
            let forget = sight.marks.forget_roster();
            forget.exec_async(&mut errand.connection.clone()).await?;
        }
        Ok(is_same)
    }

    fn voters_of(&self, roster: &Roster) -> Voters {
        if roster.stage == Stage::Founded { Voters::Members } else { Voters::Founders }
    }

    async fn change(&self, voters: Voters, change: Change) -> Result<Changed, Failed> {
        self.register(voters).change(change).await
    }

    /// Returns this proxy's access to the roster, as these voters hold it.
    fn register(&self, voters: Voters) -> Register<'_, D> {
        Register { errands: &self.errands, worker: self.worker, voters }
    }

    /// Replaces or removes the marks of a master of the list if they are unchanged since the probe.
    async fn remark(
        &self,
        master: MasterId,
        sight: &MasterSight,
        by: Option<&MarkKind>,
        keys: Keys,
    ) -> Result<bool, Failed> {
        self.set_marks(master, sight, &sight.marks.replace(by, keys)).await
    }

    /// Runs a call that changes marks, on the process that was probed. Returns whether it took effect.
    async fn set_marks(
        &self,
        master: MasterId,
        sight: &MasterSight,
        remark: &redis::Cmd,
    ) -> Result<bool, Failed> {
        let errand = self.errands.to(master).await?;
        if errand.run_id != sight.facts.run_id {
            return Err(Failed::Overtaken);
        }
        Ok(remark.query_async::<i64>(&mut errand.connection.clone()).await? == 1)
    }

    /// Waits for a new probe of every master in sight.
    async fn look_again(&self) {
        let sights = self.errands.electorate.sights();
        let seen = sights.iter().enumerate().filter(|(_, sight)| sight.is_some());
        let looks = seen.map(|(at, _)| async move {
            let looks = self.errands.electorate.looks(MasterId::new(at));
            let _ = tokio::time::timeout(LOOK_TIMEOUT, looks.another()).await;
        });
        join_all(looks).await;
    }

    /// Logs the reason for a failure, once for each reason.
    fn tell(&self, why: &Failed) {
        let why = why.to_string();
        if self.last_error.borrow().as_ref() != Some(&why) {
            tracing::info!("cannot maintain the roster yet: {why}");
        }
        *self.last_error.borrow_mut() = Some(why);
    }

    fn address(&self, master: MasterId) -> String {
        self.errands.electorate.name(master)
    }

    /// Returns what each master of the list has shown since the roster was learned.
    fn shown(&self, sights: &[Option<MasterSight>]) -> Vec<Option<Shown>> {
        let show = |(at, sight): (usize, &Option<MasterSight>)| {
            let sight = sight.as_ref().filter(|sight| sight.facts.at >= self.learned.get())?;
            Some(sight.shown(self.address(MasterId::new(at))))
        };
        sights.iter().enumerate().map(show).collect()
    }

    /// Returns what each master of the list last showed, which is enough to identify it.
    fn shown_ever(&self, sights: &[Option<MasterSight>]) -> Vec<Option<Shown>> {
        let show = |(at, sight): (usize, &Option<MasterSight>)| {
            Some(sight.as_ref()?.shown(self.address(MasterId::new(at))))
        };
        sights.iter().enumerate().map(show).collect()
    }

    /// Returns what each member shows, by place in the roster.
    fn shown_by_place(&self, roster: &Roster, shown: &[Option<Shown>]) -> Vec<Option<Shown>> {
        by_place(roster, &self.seats.borrow(), shown)
    }

    /// Returns the master of the list at a place of the roster.
    fn master_at(&self, place: MasterId) -> Option<MasterId> {
        at_place(&self.seats.borrow(), place)
    }
}

/// Returns the rosters that masters hold.
fn rosters(sights: &[Option<MasterSight>]) -> Vec<&Accepted> {
    distinct(sights).filter_map(|(_, sight)| sight.marks.roster()).collect()
}

/// Returns the masters that were seen, each process once.
fn distinct(sights: &[Option<MasterSight>]) -> impl Iterator<Item = (MasterId, &MasterSight)> {
    let seen = sights.iter().enumerate().filter_map(|(at, sight)| Some((at, sight.as_ref()?)));
    seen.filter(|(at, sight)| {
        let before = sights[..*at].iter().flatten();
        before.into_iter().all(|other| other.facts.run_id != sight.facts.run_id)
    })
    .map(|(at, sight)| (MasterId::new(at), sight))
}
