//! Continuous comparison of the stamps of all masters, page by page: slowly, and fast once a master is back.
//!
//! Each pass walks over the companions of every master, because undecided state may be on a minority only. If a master
//! is behind on a key, it is checked again a moment later: it may only have been slower. State still missing then is
//! recorded for that master, and settled ([`super::settling`]). The sweep of tombstones uses the same pages
//! ([`super::sweeping`]).

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use super::Engine;
use super::sweeping::Sweeping;
use crate::catalogue::reserved::STAMPS;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::register::ballot::Ballot;
use crate::operation::register::answer::{self, StampHead};
use crate::operation::register::ask::{self, RequestWords};
use crate::operation::register::{Lease, Place};
use crate::operation::request::{self, Form, Number};
use crate::resp::flat;
use crate::time::clock::{self, Instant};

/// Keys per page: showing them takes a master a fraction of a millisecond.
const PAGE: usize = 100;

/// Keys that a master walks over for one page. About every second or third is a companion.
const WALKED: i64 = 250;

/// Pauses after a page: when idle, and after changes.
const SLOW: Duration = Duration::from_millis(100);
const FAST: Duration = Duration::from_millis(1);

/// Pause between two passes.
const REST: Duration = Duration::from_secs(2);

/// Time for which a master may lag behind because it is slow. Beyond the vote timeout, nobody waits for it.
const SLOWNESS: Duration = Duration::from_millis(50);

/// Each master's stamps of some keys; `None`: unknown.
pub(super) type Shown = Vec<Option<Vec<StampHead>>>;

/// Keys to check once more, each with the newest ballot seen.
struct Doubts {
    due: Instant,
    db: u32,
    keys: Vec<(Place, Ballot)>,
}

/// A running comparison.
struct Comparing {
    engine: Rc<Engine>,
    doubts: VecDeque<Doubts>,
    sweeping: Sweeping,
    /// Voters at the last check.
    voters: MasterSet,
    /// Whether to hurry: there were changes since the last whole pass began.
    hurries: bool,
}

/// Ends a pass that must start over: a master cannot be walked now, or another one is back.
struct Interrupted;

impl Engine {
    /// Compares continuously. One worker does that for all.
    pub async fn keep_comparing(self: Rc<Self>) {
        let sweeping = Sweeping::new(&self);
        let (doubts, voters) = (VecDeque::new(), MasterSet::EMPTY);
        let mut comparing = Comparing { engine: self, doubts, sweeping, voters, hurries: true };
        loop {
            let was_whole = comparing.pass().await.is_ok();
            comparing.rest(was_whole).await;
        }
    }

    /// Returns each master's stamps of `places` in database `db`; `None`: it cannot vote, or has not answered.
    pub async fn heads(&self, db: u32, places: &[Place]) -> Vec<Option<Vec<StampHead>>> {
        let words = ask::heads(places);
        let masters = self.rules().quorum.everybody();
        let heads = masters.iter().map(|master| {
            let words = &words;
            async move { answer::heads(&self.ask_words(master, db, words).await?, places) }
        });
        join_all(heads).await
    }

    /// Returns each master's string at `place`, which is a lease if the master holds no register there; `None`: none,
    /// or unknown.
    pub async fn leases(&self, place: &Place) -> Vec<Option<Lease>> {
        let masters = self.rules().quorum.everybody();
        join_all(masters.iter().map(|master| self.lease_on(master, place))).await
    }

    async fn lease_on(&self, master: MasterId, place: &Place) -> Option<Lease> {
        let mut request = Vec::new();
        request::encode(&mut request, &[b"GET", &place.key]);
        request::encode(&mut request, &[b"PEXPIRETIME", &place.key]);
        let answer = self.ask_aside(master, place.db.into(), request, 2).await?;
        let (value, end) = flat::split_frame(&answer)?;
        let value = Bytes::copy_from_slice(flat::bulk(value)?);
        Some(Lease { value, kept_until_ms: flat::int(end)?, ahead_ms: 0 })
    }

    /// Returns a master's answer to one of our scripts, whether or not the master still has the script loaded.
    pub(super) async fn ask_words(
        &self,
        master: MasterId,
        db: u32,
        words: &RequestWords,
    ) -> Option<Bytes> {
        for form in [Form::Sha, Form::Text] {
            let mut request = Vec::new();
            words.encode(form, &mut request);
            let answer = self.ask_aside(master, db, request, 1).await?;
            if !answer.starts_with(b"-NOSCRIPT") {
                return Some(answer);
            }
        }
        None
    }
}

impl Comparing {
    /// Compares everything that reachable masters hold.
    async fn pass(&mut self) -> Result<(), Interrupted> {
        self.voters = self.engine.voters();
        let has_overflowed = !self.engine.rules().registers.behind.overflowed().is_empty();
        self.hurries |= has_overflowed || self.sweeping.has_many();
        self.sweeping.begin(&self.engine);
        for master in self.voters.iter() {
            for db in self.databases(master).await.ok_or(Interrupted)? {
                self.database(master, db).await?;
            }
        }
        while let Some(doubts) = self.doubts.pop_front() {
            tokio::time::sleep_until(doubts.due).await;
            self.look_again(doubts).await;
        }
        self.hurries = false;
        self.sweeping.end(&self.engine).await;
        Ok(())
    }

    async fn rest(&self, was_whole: bool) {
        let until = clock::now() + if was_whole && !self.sweeping.has_many() { REST } else { SLOW };
        while clock::now() < until && !self.is_anybody_back() {
            tokio::time::sleep(SLOW).await;
        }
    }

    fn is_anybody_back(&self) -> bool {
        !self.engine.voters().without(self.voters).is_empty()
    }

    /// Returns the databases in which a master has more keys than its mark.
    async fn databases(&self, master: MasterId) -> Option<Vec<u32>> {
        let mut request = Vec::new();
        request::encode(&mut request, &[b"INFO", b"keyspace"]);
        let answer = self.engine.ask_aside(master, 0, request, 1).await?;
        let text = String::from_utf8_lossy(flat::bulk(&answer)?).into_owned();
        let used = text.lines().filter_map(|line| {
            let (db, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
            let keys: u64 = rest.split(',').next()?.parse().ok()?;
            db.parse().ok().filter(|_| keys > 1)
        });
        Some(used.collect())
    }

    async fn database(&mut self, master: MasterId, db: u32) -> Result<(), Interrupted> {
        let mut cursor = Bytes::from_static(b"0");
        loop {
            let (next, places) = self.walked(master, db, &cursor).await.ok_or(Interrupted)?;
            for places in places.chunks(PAGE) {
                self.look_at(db, places).await;
            }
            while self.doubts.front().is_some_and(|doubts| doubts.due <= clock::now()) {
                let Some(doubts) = self.doubts.pop_front() else { break };
                self.look_again(doubts).await;
            }
            if next == b"0"[..] {
                return Ok(());
            }
            cursor = next;
            self.pause().await?;
        }
    }

    async fn pause(&mut self) -> Result<(), Interrupted> {
        tokio::time::sleep(if self.hurries { FAST } else { SLOW }).await;
        if self.is_anybody_back() {
            self.hurries = true;
            return Err(Interrupted);
        }
        Ok(())
    }

    /// Returns the next keys with stamps, and the cursor after them.
    async fn walked(
        &self,
        master: MasterId,
        db: u32,
        cursor: &[u8],
    ) -> Option<(Bytes, Vec<Place>)> {
        let mut request = Vec::new();
        let (pattern, mut count) = ([STAMPS.as_bytes(), b"*"].concat(), Number::default());
        let words = [b"SCAN", cursor, b"MATCH", &pattern, b"COUNT", count.digits(WALKED)];
        request::encode(&mut request, &words);
        let answer = self.engine.ask_aside(master, db, request, 1).await?;
        let [next, keys] = flat::items(&answer)?[..] else { return None };
        let place = |key: &&[u8]| {
            let key = flat::bulk(key)?.strip_prefix(STAMPS.as_bytes())?;
            Some(Place { db: u16::try_from(db).ok()?, key: Bytes::copy_from_slice(key) })
        };
        let places = flat::items(keys)?.iter().filter_map(place).collect();
        Some((Bytes::copy_from_slice(flat::bulk(next)?), places))
    }

    async fn look_at(&mut self, db: u32, places: &[Place]) {
        let shown = self.engine.heads(db, places).await;
        let now_us = self.engine.rules().unix_time.micros() as u64;
        let doubted = places.iter().enumerate().filter_map(|(at, place)| {
            let newest = newest(&shown, at)?;
            let is_behind = !behind(&shown, at, newest, now_us).is_empty();
            is_behind.then(|| (place.clone(), newest))
        });
        let keys: Vec<_> = doubted.collect();
        if !keys.is_empty() {
            let due = clock::now() + self.engine.rules().vote_timeout + SLOWNESS;
            self.doubts.push_back(Doubts { due, db, keys });
        }
        self.sweeping.look_at(&self.engine, db, places, &shown).await;
    }

    /// Records masters that still lack the state that was newest.
    async fn look_again(&self, doubts: Doubts) {
        let places: Vec<Place> = doubts.keys.iter().map(|(place, _)| place.clone()).collect();
        let shown = self.engine.heads(doubts.db, &places).await;
        let now_us = self.engine.rules().unix_time.micros() as u64;
        let register = &self.engine.rules().registers.behind;
        for (at, (place, newest)) in doubts.keys.into_iter().enumerate() {
            let masters = behind(&shown, at, newest, now_us);
            if masters.is_empty() {
                continue;
            }
            while !register.has_room() && register.has_any(self.engine.voters()) {
                tokio::time::sleep(FAST).await;
            }
            register.note(place, masters);
        }
    }
}

/// Returns the newest ballot that any master shows for the key at this index.
fn newest(shown: &Shown, at: usize) -> Option<Ballot> {
    shown.iter().flatten().map(|heads| heads[at].sight.state.accepted).max()
}

/// Returns the masters that lack the state accepted under this ballot, or have lost its value.
fn behind(shown: &Shown, at: usize, newest: Ballot, now_us: u64) -> MasterSet {
    let is_behind = |heads: &[StampHead]| {
        let sight = &heads[at].sight;
        sight.state.accepted < newest || sight.is_lost(now_us)
    };
    let of_all = shown.iter().enumerate();
    let behind = of_all.filter(|(_, heads)| heads.as_deref().is_some_and(is_behind));
    behind.map(|(master, _)| MasterId::new(master)).collect()
}
