//! The current voters, shared by all workers of the process.
//!
//! Watches report what each master shows, and the keeper reports the roster. Links and operations read a [`Term`]: the
//! voters and the proof that each vote needs.

mod state;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::facts::{FARTHEST_AHEAD_MS, Facts};
use super::probe_signal::Looks;
use super::roster::copy::Progress;
use super::roster::orders::{MemberOrder, Obeyed, Orders};
use super::standing::{Cause, MasterStanding};
use crate::config::{ColdStart, MasterAddr, Settings};
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::roster::noted::ClockNote;
use crate::decision::roster::roster::Roster;
use crate::decision::roster::seats::Seats;
use crate::decision::roster::term::Term;
use crate::operation::verdict::Obstacle;
use crate::time::clock::{self, Instant};
use crate::time::clocks::{ClockReading, Clocks, ShownClock as ClockShown, Timekeeping, deviation};
use crate::time::unix_time::UnixTime;
pub use state::MasterSight;
use state::{Known, Seen, State};

/// Version of a newly founded roster.
pub(super) const FIRST_VERSION: u64 = 1;

/// Reason why no vote counts although the roster is known.
const CLOCKS: &str = "too few masters' clocks agree with another proxy's notes so far: wait until more masters can be read, or --restart-wait has passed";

/// Why a roster cannot be served by a proxy with too few places.
#[derive(Debug, thiserror::Error)]
#[error(
    "the cluster has {seats} seats, and this proxy has room for {places}: restart it with all members in its list"
)]
struct LacksRoom {
    seats: usize,
    places: usize,
}

/// Maximum time for an order about the members. The admin port answers within ten seconds.
const ORDER_TIMEOUT: Duration = Duration::from_secs(8);

/// Settings that decide which masters vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElectorateTerms {
    /// Number of masters and size of a majority.
    pub quorum: Quorum,
    /// Longest time that a lock lasts.
    pub restart_wait: Duration,
    /// Policy for a first deployment.
    pub cold_start: ColdStart,
    /// Whether the masters have been started by this process, so that they have had nothing to forget.
    pub are_new: bool,
}

/// The workers' shared knowledge about the masters.
#[derive(Debug)]
pub struct Electorate {
    /// Current address of each master of the list.
    addresses: RwLock<Vec<Option<MasterAddr>>>,
    terms: ElectorateTerms,
    state: Mutex<State>,
    /// Number of times the term has changed.
    edition: AtomicU64,
    /// Copy of the voters for readers that only count them.
    voters: AtomicU32,
    clock_epoch: AtomicU64,
    unix_time: Arc<UnixTime>,
    /// Wakes waiters when a master's standing changes.
    changed: Notify,
    /// Wakes waiters when a master was replaced.
    moved: Notify,
    /// Wakes the keeper when a probe finds something that it must handle.
    attention: Notify,
    /// Wakes the task that only follows the roster, on the same findings.
    news: Notify,
    seen: Vec<Seen>,
    orders: Orders,
}

impl Electorate {
    /// Creates an electorate of the masters in `settings`, none of them probed yet.
    pub fn of(settings: &Settings) -> Self {
        let terms = ElectorateTerms {
            quorum: settings.quorum(),
            restart_wait: settings.restart_wait(),
            cold_start: settings.cold_start,
            are_new: settings.starts_masters,
        };
        Self::new(terms, settings.drift, settings.masters.clone(), settings.places())
    }

    /// Creates an electorate of masters that have not been probed yet. `drift` is the largest difference in rate
    /// between two clocks, and `places` the number of masters for which there is room.
    pub fn new(
        terms: ElectorateTerms,
        drift: f64,
        addresses: Vec<MasterAddr>,
        places: usize,
    ) -> Self {
        let mut addresses: Vec<_> = addresses.into_iter().map(Some).collect();
        addresses.resize(places.max(addresses.len()), None);
        let known = Known {
            facts: None,
            sight: None,
            doubt: None,
            is_ahead: false,
            standing: MasterStanding::Waiting,
            since: clock::now(),
        };
        let state = State {
            masters: vec![known; addresses.len()],
            clocks: Clocks::new(terms.quorum, addresses.len(), drift, terms.restart_wait),
            roster: Roster::default(),
            seats: vec![None; addresses.len()],
            serves: false,
            waits: None,
            refusal: None,
            may_have_lost_data: false,
            term: Arc::default(),
        };
        let seen = addresses.iter().map(|_| Seen::default()).collect();
        Self {
            terms,
            state: Mutex::new(state),
            edition: AtomicU64::new(0),
            voters: AtomicU32::new(0),
            clock_epoch: AtomicU64::new(0),
            unix_time: Arc::new(UnixTime::new(addresses.len(), drift)),
            changed: Notify::new(),
            moved: Notify::new(),
            attention: Notify::new(),
            news: Notify::new(),
            seen,
            orders: Orders::default(),
            addresses: RwLock::new(addresses),
        }
    }

    /// Returns the settings that decide which masters vote.
    pub fn terms(&self) -> &ElectorateTerms {
        &self.terms
    }

    /// Returns the time of day according to the masters' clocks.
    pub fn unix_time(&self) -> &Arc<UnixTime> {
        &self.unix_time
    }

    /// Returns the number of times that [`Electorate::term`] has changed.
    #[inline]
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Returns the voters and the proof that each vote needs.
    pub fn term(&self) -> Arc<Term> {
        Arc::clone(&self.state().term)
    }

    /// Returns the masters that may vote if they can be reached.
    pub fn voters(&self) -> MasterSet {
        MasterSet::from_bits(self.voters.load(Ordering::Relaxed))
    }

    /// Returns a master's current standing.
    pub fn standing(&self, master: MasterId) -> MasterStanding {
        self.state().masters[master.index()].standing.clone()
    }

    /// Returns why a master does not vote, other than being out of reach, and the progress of copying.
    pub fn reason(&self, master: MasterId) -> Option<String> {
        let reason = self.standing(master).reason()?;
        Some(match self.progress(master).counts() {
            (_, 0) => reason,
            (copied, total) => format!("{reason}: copied {copied} of about {total} keys"),
        })
    }

    /// Returns the number of times that a master was put on probation, by [`Cause::kind`].
    pub fn probations(&self, master: MasterId) -> [u64; Cause::KINDS.len()] {
        self.seen[master.index()].probations.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Whether a master is on probation, so that waiting is enough.
    pub fn waits(&self, master: MasterId) -> bool {
        matches!(self.standing(master), MasterStanding::Probation(_))
    }

    /// Returns `; ADDRESS: why` for each of `masters` that must not vote for a reason other than being out of reach.
    pub fn why_not(&self, masters: MasterSet) -> String {
        let named = |master: MasterId| {
            let why = self.reason(master);
            why.map(|why| format!("; {}: {why}", self.name(master)))
        };
        masters.iter().filter_map(named).collect()
    }

    /// Returns the time at which the master's standing last changed.
    pub fn since(&self, master: MasterId) -> Instant {
        self.state().masters[master.index()].since
    }

    /// Returns the master's latest description of itself.
    pub fn facts(&self, master: MasterId) -> Option<Facts> {
        self.state().masters.get(master.index())?.facts.clone()
    }

    /// Returns why this proxy does not serve yet. `None` means that it serves or has not probed the masters yet.
    pub fn why_it_waits(&self) -> Option<Obstacle> {
        let state = self.state();
        if state.serves {
            if let Some(obstacle) = self.lacks_room(&state.roster) {
                return Some(obstacle);
            }
            return state.clocks.wants_notes().then(|| Obstacle::passing(CLOCKS.to_owned()));
        }
        state.refusal.clone().map(Obstacle::lasting).or_else(|| state.waits.clone())
    }

    /// Whether this proxy serves these masters, provided that enough of them vote.
    pub fn serves(&self) -> bool {
        self.state().serves
    }

    /// Returns the reason why this proxy will never serve these masters.
    pub fn refusal(&self) -> Option<String> {
        self.state().refusal.clone()
    }

    /// Whether the roster began anew after a quorum had forgotten, so that data may have been lost.
    pub fn may_have_lost_data(&self) -> bool {
        self.state().may_have_lost_data
    }

    /// Returns the quorum that decides now: that of the roster, or of the list while none is known.
    pub fn quorum(&self) -> Quorum {
        self.state().term.quorum().unwrap_or(self.terms.quorum)
    }

    /// Returns the latest decided roster.
    pub fn roster(&self) -> Roster {
        self.state().roster.clone()
    }

    /// Returns that roster, and the member that each master of the list is.
    pub fn followed(&self) -> (Roster, Seats) {
        let state = self.state();
        (state.roster.clone(), state.seats.clone())
    }

    /// Returns the probes of a master.
    pub fn looks(&self, master: MasterId) -> &Looks {
        &self.seen[master.index()].looks
    }

    /// Returns the progress of copying to a master.
    pub fn progress(&self, master: MasterId) -> Arc<Progress> {
        Arc::clone(&self.seen[master.index()].progress)
    }

    /// Waits until a probe finds something for the keeper to handle.
    pub async fn attention(&self) {
        self.attention.notified().await;
    }

    /// Has an order about the members carried out.
    ///
    /// Returns `None` if it is not known in time whether it was.
    pub async fn order(&self, order: MemberOrder) -> Option<Obeyed> {
        let outcome = self.orders.give(order);
        self.attend_to_roster();
        tokio::time::timeout(ORDER_TIMEOUT, outcome).await.ok()?.ok()
    }

    /// Returns the operator's orders.
    pub(super) fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Wakes the keeper regardless of what probes have found.
    pub(super) fn attend_to_roster(&self) {
        self.attention.notify_one();
    }

    /// Waits until a probe finds something that may concern the roster.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// Requests an immediate probe of a master whose vote lacked its proof.
    pub fn attend(&self, master: MasterId) {
        self.looks(master).want();
    }

    /// Records what a master answered about itself.
    pub fn observe(&self, master: MasterId, facts: Facts) {
        self.change(|state| {
            let known = &mut state.masters[master.index()];
            let doubt = known.facts.as_ref().and_then(|before| facts.doubt_since(before));
            if let Some(doubt) = doubt {
                known.doubt = Some(Cause::Doubted(doubt));
            }
            let is_another =
                known.facts.as_ref().is_some_and(|before| before.run_id != facts.run_id);
            if is_another {
                known.sight = None;
                self.attend(master);
            }
            known.facts = Some(facts);
        });
    }

    /// Whether a link, or the proxy that admitted the master, has since met a process other than `run_id` there.
    pub(super) fn is_another(&self, master: MasterId, run_id: &str) -> bool {
        let state = self.state();
        let known = &state.masters[master.index()];
        let member = state.seats[master.index()].and_then(|place| state.roster.member(place));
        known.facts.as_ref().is_some_and(|facts| facts.run_id != run_id)
            || member.is_some_and(|member| member.is_in() && member.run_id != run_id)
    }

    /// Whether the master's marks must be removed because something has happened that they do not show.
    pub fn is_doubted(&self, master: MasterId) -> bool {
        self.state().masters[master.index()].doubt.is_some()
    }

    /// Records the result of a probe and the reading of the master's clock.
    pub fn looked_at(&self, master: MasterId, sight: MasterSight, reading: Option<ClockReading>) {
        let is_news = self.change(|state| {
            // Clear the doubt before reading the clock: a clock that turns out to have been set may have been set
            // after this probe read the marks.
            if sight.marks.any().is_none() && sight.facts.bar.is_none() {
                state.masters[master.index()].doubt = None;
            }
            let whose = sight.marks.mark().and_then(|mark| mark.timekeeper());
            state.clocks.met(master, whose, sight.note.clone());
            if let Some(reading) = reading {
                self.read_clock(state, master, &reading);
            }
            if let Some(copying) = sight.marks.copying() {
                self.seen[master.index()].progress.is_told(copying);
            }
            let known = &mut state.masters[master.index()];
            let before = known.sight.as_ref();
            let is_news = before.is_none_or(|before| {
                before.marks != sight.marks
                    || before.has_older != sight.has_older
                    || before.facts.run_id != sight.facts.run_id
                    || before.facts.bar != sight.facts.bar
            });
            known.sight = Some(sight);
            is_news
        });
        if is_news {
            self.attention.notify_one();
            self.news.notify_one();
        }
    }

    /// Records that a master does not answer.
    pub fn lost_sight(&self, master: MasterId) {
        let was_seen = self.change(|state| {
            let shown = state.clocks.lost_sight(master);
            self.clocks_have_shown(state, shown);
            state.masters[master.index()].sight.take().is_some()
        });
        if was_seen {
            self.attention.notify_one();
            self.news.notify_one();
        }
    }

    /// Returns the current address of a master; `None` if nobody has its place.
    pub fn address(&self, master: MasterId) -> Option<MasterAddr> {
        self.addresses.read().unwrap_or_else(PoisonError::into_inner)[master.index()].clone()
    }

    /// Returns the current addresses of all masters, in list order, with their places.
    pub fn addresses(&self) -> Vec<(MasterId, MasterAddr)> {
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        let somebody = |(at, address): (usize, &Option<MasterAddr>)| {
            Some((MasterId::new(at), address.clone()?))
        };
        addresses.iter().enumerate().filter_map(somebody).collect()
    }

    /// Returns why a roster cannot be served for want of places: with fewer than seats, a quorum would look smaller than
    /// it is.
    pub(super) fn lacks_room(&self, roster: &Roster) -> Option<Obstacle> {
        let (seats, places) = (roster.seats(), self.places());
        (seats > places).then(|| Obstacle::lasting(LacksRoom { seats, places }.to_string()))
    }

    /// Returns the number of places.
    pub fn places(&self) -> usize {
        self.seen.len()
    }

    /// Returns the current address of a master as text; empty if nobody has its place.
    pub fn name(&self, master: MasterId) -> String {
        self.address(master).map(|address| address.to_string()).unwrap_or_default()
    }

    /// Resolves with the address of a master, once there is one.
    pub async fn somebody_at(&self, master: MasterId) -> MasterAddr {
        loop {
            let moved = self.moved();
            if let Some(address) = self.address(master) {
                return address;
            }
            moved.await;
        }
    }

    /// Records that the place of a master was given to an instance at another address, or to nobody. What the former
    /// instance has shown is forgotten.
    pub(super) fn move_to(&self, master: MasterId, address: Option<MasterAddr>) {
        let before = {
            let mut addresses = self.addresses.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut addresses[master.index()], address.clone())
        };
        match (before, address) {
            (Some(before), Some(address)) => tracing::warn!(
                "the master {before} was replaced by {address}: change the list of masters accordingly"
            ),
            (None, Some(address)) => tracing::warn!(
                "the master {address} was added: change the list of masters accordingly"
            ),
            (Some(before), None) => tracing::warn!(
                "the master {before} was removed: change the list of masters accordingly"
            ),
            (None, None) => return,
        }
        self.lost_sight(master);
        self.change(|state| {
            let known = &mut state.masters[master.index()];
            (known.facts, known.doubt) = (None, None);
        });
        self.attend(master);
        self.moved.notify_waiters();
    }

    /// Resolves at the next replacement of a master after this call.
    pub fn moved(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// Returns the result of each master's last probe.
    pub(super) fn sights(&self) -> Vec<Option<MasterSight>> {
        self.state().masters.iter().map(|known| known.sight.clone()).collect()
    }

    /// Switches vote counting to `roster`.
    pub(super) fn follow(&self, roster: &Roster, seats: &Seats) {
        self.change(|state| {
            state.roster = roster.clone();
            state.seats = seats.clone();
            if roster.seats() > 0 {
                state.clocks.count_by(roster.quorum());
            }
        });
    }

    /// Marks this proxy as serving.
    pub(super) fn serve(&self) {
        self.change(|state| (state.serves, state.waits) = (true, None));
    }

    /// Records why this proxy does not serve yet, and logs each new reason once.
    pub(super) fn wait_for(&self, obstacle: Obstacle) {
        let why = obstacle.why.clone();
        let is_new = self.change(|state| {
            let is_new = state.waits.as_ref() != Some(&obstacle);
            state.waits = Some(obstacle);
            is_new
        });
        if is_new {
            tracing::warn!("this proxy does not serve yet: {why}");
        }
    }

    /// Records why this proxy will never serve these masters.
    pub(super) fn refuse(&self, why: String) {
        self.change(|state| state.refusal = Some(why));
        self.changed.notify_waiters();
    }

    /// Records that some proxy began the roster anew from the surviving data.
    pub(super) fn has_begun_anew(&self) {
        self.change(|state| state.may_have_lost_data = true);
        tracing::warn!(
            "a quorum of the masters lost its data: the cluster restarts after --restart-wait with the surviving data. Locks with a longer TTL, and other data, may be lost"
        );
    }

    /// Resolves at the next change of any standing after this call.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the state of a master's clock.
    pub fn clock(&self, master: MasterId) -> Timekeeping {
        self.state().clocks.get(master)
    }

    /// Whether other proxies' notes about the clocks are still needed.
    pub(super) fn wants_notes(&self) -> bool {
        self.state().clocks.wants_notes()
    }

    /// Returns the note to leave on a master about all clocks, if the master votes.
    pub(super) fn note_for(&self, master: MasterId) -> Option<ClockNote> {
        let state = self.state();
        let voters = state.term.voters();
        let now_us = self.unix_time.elapsed_us(clock::now());
        let time_us = self.unix_time.at_start_us();
        if voters.contains(master) { state.clocks.note(voters, now_us, time_us) } else { None }
    }

    /// Returns the number of times that the clocks were begun anew.
    #[inline]
    pub fn clock_epoch(&self) -> u64 {
        self.clock_epoch.load(Ordering::Relaxed)
    }

    /// Counts `keys` more keys as copied to `master`.
    pub fn copied(&self, master: MasterId, keys: u64) {
        self.seen[master.index()].copied.fetch_add(keys, Ordering::Relaxed);
    }

    /// Returns the number of keys copied to a master since the process started.
    pub fn keys_copied(&self, master: MasterId) -> u64 {
        self.seen[master.index()].copied.load(Ordering::Relaxed)
    }

    /// Returns the duration of a master's last answer.
    pub fn latency(&self, master: MasterId) -> Duration {
        Duration::from_micros(self.seen[master.index()].latency_us.load(Ordering::Relaxed))
    }

    fn read_clock(&self, state: &mut State, master: MasterId, reading: &ClockReading) {
        let latency = reading.answered - reading.asked;
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.seen[master.index()].latency_us.store(micros, Ordering::Relaxed);
        let uncertain_us = self.unix_time.read(master, reading);
        // Until it is known how the clocks continue, nothing expires by this proxy's own estimate of the time of day.
        let is_open = state.clocks.wants_notes();
        let shown = state.clocks.read(master, reading.sample(&self.unix_time));
        self.clocks_have_shown(state, shown);
        let counted = if is_open { MasterSet::EMPTY } else { state.timekeepers() };
        self.unix_time.follow(counted.iter(), uncertain_us, is_open);
        if let Some(time_us) = state.clocks.noted_time_us() {
            self.unix_time.take_over(time_us);
        }
        state.masters[master.index()].is_ahead =
            self.unix_time.ahead_ms(master) > FARTHEST_AHEAD_MS;
    }

    fn clocks_have_shown(&self, state: &mut State, shown: ClockShown) {
        match shown {
            ClockShown::Nothing => {}
            ClockShown::Suspicion => self.look_at_all(),
            ClockShown::Unsure => tracing::warn!(
                "clocks disagree with another proxy's notes, and too few masters can be read to tell which were set: no vote counts until more can be read, or --restart-wait has passed"
            ),
            ClockShown::StoodStill(stopped_us) => {
                self.unix_time.make_up_for(stopped_us);
                tracing::warn!("this proxy was paused: measuring all clocks again");
                self.look_at_all();
            }
            ClockShown::Stepped(masters) => {
                for (master, by_us) in masters {
                    let known = &mut state.masters[master.index()];
                    known.doubt = Some(Cause::Clock(deviation(by_us)));
                    self.attend(master);
                }
            }
        }
        self.clock_epoch.store(state.clocks.epoch(), Ordering::Relaxed);
    }

    fn look_at_all(&self) {
        self.seen.iter().for_each(|seen| seen.looks.want());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change and updates standings and term. Each change of standing gets one log line.
    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let result = act(&mut state);
        let now = clock::now();
        for at in 0..self.seen.len() {
            let standing = state.standing(at);
            let known = &mut state.masters[at];
            if known.standing != standing {
                let before = std::mem::replace(&mut known.standing, standing);
                known.since = now;
                self.report(MasterId::new(at), &before, &known.standing);
                self.changed.notify_waiters();
            }
        }
        let term = state.next_term();
        if *state.term != term {
            self.voters.store(term.voters().bits(), Ordering::Relaxed);
            state.term = Arc::new(term);
            self.edition.fetch_add(1, Ordering::Release);
            self.changed.notify_waiters();
        }
        result
    }

    fn report(&self, master: MasterId, before: &MasterStanding, now: &MasterStanding) {
        let address = self.name(master);
        match (before, now) {
            (_, MasterStanding::Probation(cause)) => {
                self.seen[master.index()].probations[cause.kind()].fetch_add(1, Ordering::Relaxed);
                tracing::warn!(master = %address, "the master is on probation: {cause}");
            }
            (_, MasterStanding::Barred(bar)) => {
                tracing::warn!(master = %address, "the master must not vote: {bar}");
            }
            (_, MasterStanding::Stranger(why)) => {
                tracing::warn!(master = %address, "the master must not vote: {why}");
            }
            (MasterStanding::Probation(_), MasterStanding::Voter) => {
                tracing::info!(master = %address, "the master votes again");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
