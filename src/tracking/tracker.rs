//! The clients of one worker that are told of changes, and what they may have cached.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use super::expiries::KeyEnds;
use super::gathering::{Changed, Gatherings};
use super::invalidation_feed::InvalidationFeed;
use super::is_complete;
use super::own_changes::OwnChanges;
use super::table::{MAX_BYTES, Table};
use super::tracked::Tracked;
use crate::catalogue::reserved::{STAMPS, is_reserved};
use crate::client::invalidation::Invalidation;
use crate::client::memory::ENTRY;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::engine::Engine;
use crate::operation::read::{Question, Read, TtlUnit};
use crate::operation::{Kind, Operation, verdict};
use crate::resp::flat;
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};

/// Time after the end of a key at which its readers are told: no clock shows it any more.
const AFTER_END: Duration = Duration::from_millis(2);

/// Ends further away than this are not waited for. A client with so old a value has long been told to drop it.
const FARTHEST_END: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Maximum keys whose ends are waited for although no client is known to have read them.
const MOST_ENDS: usize = 64 << 10;

/// The clients of one worker that are told of changes.
pub struct Tracker {
    engine: Rc<Engine>,
    feeds: Vec<Rc<InvalidationFeed>>,
    clients: RefCell<BTreeMap<u64, Rc<Tracked>>>,
    state: RefCell<State>,
    /// Whether clients could cache what they read, when that was last looked at.
    was_complete: Cell<bool>,
    /// Notified when a feed comes up or is refused.
    changed: Notify,
    /// Notified when there may be something to do earlier.
    sooner: Notify,
}

struct State {
    table: Table,
    gatherings: Gatherings,
    expiries: KeyEnds,
    own: OwnChanges,
    /// Registers that were changed and have yet to be told to clients that get all changes.
    registers: HashSet<Box<[u8]>>,
    /// Masters whose feed reports.
    live: MasterSet,
    /// The error of a master that does not report.
    refusal: Option<String>,
}

impl Tracker {
    /// Returns a tracker without clients, whose feeds are not connected.
    pub fn new(engine: &Rc<Engine>) -> Rc<Self> {
        let bound = engine.rules().vote_timeout;
        let feeds = engine.links().iter().map(|link| InvalidationFeed::new(Rc::clone(link)));
        Rc::new(Self {
            feeds: feeds.collect(),
            engine: Rc::clone(engine),
            clients: RefCell::default(),
            state: RefCell::new(State {
                table: Table::new(MAX_BYTES),
                gatherings: Gatherings::new(bound),
                expiries: KeyEnds::default(),
                own: OwnChanges::new(bound),
                registers: HashSet::new(),
                live: MasterSet::EMPTY,
                refusal: None,
            }),
            was_complete: Cell::new(false),
            changed: Notify::new(),
            sooner: Notify::new(),
        })
    }

    /// Returns the connections that report, in the order of the list of masters.
    pub fn feeds(&self) -> &[Rc<InvalidationFeed>] {
        &self.feeds
    }

    /// Whether no client is told.
    pub fn is_idle(&self) -> bool {
        self.clients.borrow().is_empty()
    }

    /// Returns the number of keys that clients may have cached, and that of keys counted for each of their clients.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state.borrow();
        (state.table.len(), state.table.items())
    }

    /// Tells a client of changes from now on.
    pub fn enter(&self, tracked: &Rc<Tracked>) {
        if self.is_idle() {
            // Masters may have been told to allow it.
            self.state.borrow_mut().refusal = None;
        }
        self.clients.borrow_mut().insert(tracked.id(), Rc::clone(tracked));
        self.feeds.iter().for_each(|feed| feed.is_wanted());
    }

    /// Ends that.
    pub fn leave(&self, tracked: &Tracked) {
        tracked.end();
        self.clients.borrow_mut().remove(&tracked.id());
        if self.is_idle() {
            let state = &mut *self.state.borrow_mut();
            state.table.clear();
            state.forget_all();
        }
    }

    /// Resolves when clients can cache what they read, or a master that may vote has not begun to report for as long as
    /// a client's patience.
    ///
    /// # Errors
    /// Returns the reply for a client if masters refuse to report.
    pub async fn caught_up(&self) -> Result<(), Reply> {
        let caught_up = async {
            loop {
                let changed = self.changed.notified();
                if self.is_complete() || self.state.borrow().refusal.is_some() {
                    return;
                }
                changed.await;
            }
        };
        let _ = timeout(self.engine.rules().patience, caught_up).await;
        let state = self.state.borrow();
        match &state.refusal {
            Some(why) if state.live.is_empty() => Err(verdict::cannot_track(why)),
            _ => Ok(()),
        }
    }

    /// Notes that the client is about to read `keys`, before masters are asked.
    pub fn reads<'a>(
        self: &Rc<Self>,
        tracked: &Tracked,
        db: u32,
        keys: impl Iterator<Item = &'a [u8]>,
    ) {
        if !self.look() {
            let keys: Vec<_> = keys.map(Bytes::copy_from_slice).collect();
            return tell_of_reads(tracked, keys);
        }
        tracked.reads();
        for key in keys {
            self.read(tracked, db, key);
        }
        self.evict();
    }

    fn read(self: &Rc<Self>, tracked: &Tracked, db: u32, key: &[u8]) {
        let clients = self.clients.borrow();
        let is_there = |id: u64| clients.contains_key(&id);
        let state = &mut *self.state.borrow_mut();
        if state.table.remember(key, tracked.id(), is_there) {
            tracked.holds_more(key.len() + ENTRY);
            tokio::task::spawn_local(Rc::clone(self).learn_end(db, key.into()));
        }
    }

    /// Asks when a key ends, and tells clients then.
    async fn learn_end(self: Rc<Self>, db: u32, key: Box<[u8]>) {
        let question = Question::End(TtlUnit::Millis);
        let kind = Kind::Read(Read::new(question));
        let end_ms = match self.engine.run_now(Operation { db, key: key.clone(), kind }).await {
            Reply::Int(end_ms) => end_ms,
            Reply::Raw(frame) => flat::int(&frame).unwrap_or(-1),
            _ => -1,
        };
        let left_ms = end_ms.saturating_sub(self.engine.rules().unix_time.ms());
        let left = Duration::from_millis(left_ms.max(0) as u64);
        let state = &mut *self.state.borrow_mut();
        let is_awaited = state.table.has(&key) || state.expiries.count() < MOST_ENDS;
        if end_ms >= 0 && left < FARTHEST_END && is_awaited {
            state.expiries.set(&key, clock::now() + left + AFTER_END);
            self.sooner.notify_one();
        }
    }

    /// Gives up keys while there are too many.
    fn evict(&self) {
        loop {
            let state = &mut *self.state.borrow_mut();
            let Some((key, readers)) = state.table.evict() else { return };
            state.expiries.remove(&key);
            self.tell_readers(&key, &readers, &[]);
        }
    }

    /// Whether the client may cache what it reads now.
    fn is_complete(&self) -> bool {
        is_complete(self.engine.voters(), self.state.borrow().live)
    }

    /// The same. If that has ended, clients are told to drop what they have cached: a master votes whose changes are
    /// not reported.
    pub(super) fn look(&self) -> bool {
        let is_complete = self.is_complete();
        if self.was_complete.replace(is_complete) && !is_complete {
            self.drop_all(Tracked::tell_to_drop_all);
        }
        is_complete
    }

    /// Notes that a request of a client with `NOLOOP` is about to change a key.
    pub fn begins_to_change(&self, tracked: &Tracked, key: &[u8]) {
        let state = &mut *self.state.borrow_mut();
        state.own.begin(key, tracked.id(), state.live);
    }

    /// Notes that this request was answered, and whether it has certainly changed that key and no other.
    pub fn has_changed(&self, tracked: &Tracked, key: &[u8], has_changed: bool) {
        let state = &mut *self.state.borrow_mut();
        let is_told = state.own.answered(key, tracked.id(), has_changed, clock::now());
        if is_told && (tracked.is_broadcast() || state.table.forget(key, tracked.id())) {
            tell_of_reads(tracked, vec![Bytes::copy_from_slice(key)]);
        }
        self.sooner.notify_one();
    }

    /// Notes that a feed reports from now on. Its master may have voted before.
    pub(super) fn went_live(&self, master: MasterId) {
        {
            let state = &mut *self.state.borrow_mut();
            state.live.insert(master);
            state.refusal = None;
        }
        self.drop_all(Tracked::tell_to_drop_all);
        self.was_complete.set(self.is_complete());
        self.changed.notify_waiters();
    }

    /// Notes that a feed was lost.
    pub(super) fn lost(&self, master: MasterId) {
        let was_live = {
            let state = &mut *self.state.borrow_mut();
            let was_live = state.live.contains(master);
            state.live.remove(master);
            was_live
        };
        if was_live {
            self.drop_all(Tracked::tell_to_drop_all);
        }
    }

    /// Notes that a master refuses to report, e.g. because of a lack of permission.
    pub(super) fn refused(&self, why: &str) {
        self.state.borrow_mut().refusal = Some(why.to_owned());
        self.changed.notify_waiters();
    }

    /// Notes what a master reports, and tells clients what all have reported.
    pub(super) fn reported(self: &Rc<Self>, by: MasterId, reports: Vec<Changed>) {
        let now = clock::now();
        let mut changed = Vec::new();
        for report in reports {
            let state = &mut *self.state.borrow_mut();
            match &report {
                Changed::Key(key) if is_reserved(key) => {
                    state.note_register(key);
                    continue;
                }
                Changed::Key(key) => state.own.reported(key, by),
                Changed::Everything => {}
            }
            if let Some(reports) = state.gatherings.reported(&report, by, state.live, now) {
                changed.push((report, reports));
            }
        }
        self.tell(changed);
        self.sooner.notify_one();
    }

    /// Does what is due, again and again.
    pub async fn keep_time(self: Rc<Self>) {
        loop {
            let sooner = self.sooner.notified();
            match self.next_due() {
                Some(due) => tokio::select! {
                    biased;
                    () = sleep_until(due) => self.on_time(),
                    () = sooner => {}
                },
                None => sooner.await,
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let state = &mut *self.state.borrow_mut();
        let ends = [state.gatherings.next_end(), state.expiries.next(), state.own.next_end()];
        ends.into_iter().flatten().min()
    }

    fn on_time(self: &Rc<Self>) {
        let now = clock::now();
        let due = self.state.borrow_mut().gatherings.due(now);
        self.tell(due);
        let mut ended = Vec::new();
        while let Some(key) = self.state.borrow_mut().expiries.ended(now) {
            ended.push((Changed::Key(key), 0));
        }
        self.tell(ended);
        self.state.borrow_mut().own.forget_old(now);
    }

    /// Tells clients of changes, each with the number of reports about it.
    fn tell(self: &Rc<Self>, changed: Vec<(Changed, u32)>) {
        let mut keys = Vec::new();
        for (changed, reports) in changed {
            match changed {
                Changed::Everything => {
                    self.drop_all(|tracked| tracked.tell(Invalidation::Everything));
                    keys.clear();
                }
                Changed::Key(key) => {
                    let own = self.tell_of_key(&key, reports);
                    keys.push((Bytes::from(key), own));
                }
            }
        }
        if !keys.is_empty() {
            self.broadcast(&keys);
        }
    }

    /// Tells the readers of a key. Returns the clients that are not told, because the change is their own.
    fn tell_of_key(&self, key: &[u8], reports: u32) -> Vec<u64> {
        let state = &mut *self.state.borrow_mut();
        let own = if reports > 0 { state.own.told(key, reports) } else { Vec::new() };
        let readers = state.table.take(key);
        state.expiries.remove(key);
        for reader in readers.iter().filter(|reader| own.contains(reader)) {
            // It may have read the key since: then another's change is still to be told.
            state.table.remember(key, *reader, |_| true);
        }
        self.tell_readers(key, &readers, &own);
        own
    }

    /// Tells these readers of a key, without those that get all changes anyway.
    fn tell_readers(&self, key: &[u8], readers: &[u64], own: &[u64]) {
        let clients = self.clients.borrow();
        let told = readers.iter().filter(|reader| !own.contains(reader));
        for tracked in told.filter_map(|reader| clients.get(reader)) {
            tracked.holds_less(key.len() + ENTRY);
            if !tracked.is_broadcast() {
                tracked.tell(Invalidation::Keys(vec![Bytes::copy_from_slice(key)]));
            }
        }
    }

    /// Tells the clients that get all changes, without their own.
    fn broadcast(self: &Rc<Self>, keys: &[(Bytes, Vec<u64>)]) {
        let clients = self.clients.borrow();
        if !clients.values().any(|tracked| tracked.is_broadcast()) {
            return self.state.borrow_mut().registers.clear();
        }
        for (key, _) in keys {
            // Connections of which the proxy does not know that they are read for a cache may read its new value.
            if self.state.borrow_mut().registers.remove(&key[..]) {
                tokio::task::spawn_local(Rc::clone(self).learn_end(0, key[..].into()));
            }
        }
        for tracked in clients.values().filter(|tracked| tracked.is_broadcast()) {
            let others = keys.iter().filter(|(_, own)| !own.contains(&tracked.id()));
            let keys: Vec<_> = others.map(|(key, _)| key.clone()).collect();
            let broadcasts = tracked.options().broadcasts(&keys);
            broadcasts.into_iter().for_each(|keys| tracked.tell(Invalidation::Keys(keys)));
        }
    }

    /// Forgets everything, and tells each client.
    fn drop_all(&self, tell: impl Fn(&Tracked)) {
        {
            let state = &mut *self.state.borrow_mut();
            state.table.clear();
            state.forget_all();
        }
        for tracked in self.clients.borrow().values() {
            tracked.holds_nothing();
            tell(tracked);
        }
    }
}

impl State {
    /// Notes which key a stamp belongs to: a register ends before masters delete it.
    fn note_register(&mut self, stamp: &[u8]) {
        if let Some(key) = stamp.strip_prefix(STAMPS.as_bytes())
            && self.registers.len() < MOST_ENDS
        {
            self.registers.insert(key.into());
        }
    }

    /// Forgets what is about keys that nobody has cached any more.
    fn forget_all(&mut self) {
        self.gatherings.clear();
        self.expiries.clear();
        self.own.clear();
    }
}

/// Tells a client to drop what it is about to read, right behind the replies.
fn tell_of_reads(tracked: &Tracked, keys: Vec<Bytes>) {
    if tracked.is_broadcast() {
        let broadcasts = tracked.options().broadcasts(&keys);
        return broadcasts.into_iter().for_each(|keys| tracked.tell(Invalidation::Keys(keys)));
    }
    keys.into_iter().for_each(|key| tracked.tell(Invalidation::Keys(vec![key])));
}
