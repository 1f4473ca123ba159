//! Gives a master what it has forgotten.
//!
//! The copy reads each source page by page, asks the other sources about the same keys, and lets [`choose`] decide
//! what the master gets. The marks of its sources prove each page. A page is written only while the master still has
//! the provisional mark that it was given before. A last pass then walks the keys of the master: locks released
//! meanwhile are removed, and keys removed since they were given do not come back. No key makes the copy stop, and no
//! timer ends it.

pub(super) mod level;
mod page;
mod registers;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::RedisResult;

use self::page::{Entry, Found, Kind as Keys, Over, Page, Write};
use crate::catalogue::reserved::{COPYING, MARK, STAMPS, is_reserved};
use crate::decision::lease::attempt::{Attempt, encode};
use crate::decision::quorum::{MasterId, Quorum};
use crate::decision::roster::copying::{
    Choice, Held, KeyContent, choose, choose_again, living, steady,
};
use crate::decision::roster::mark::{Mark, MarkKind, Tail};
use crate::lua::keyspace::FLOORS;
use crate::masters::side_connection::{Errand, Failed};

/// Number of keys requested from a master at a time: about a millisecond of its time.
const PAGE: usize = 250;

/// Number of values fetched at a time if they are too large for a page.
const LARGE_AT_ONCE: usize = 8;

/// Maximum repeated reads of a key under which the sources hold the claims of two holders. Usually one of them has
/// lost and is about to go.
const LOOKS_AGAIN: usize = 5;

/// Maximum number of keys that are read again.
const MAX_OPEN: usize = 10_000;

/// Maximum lifetime of nobody's value under a key for which the sources hold values that never expire. The key's
/// holder may be one of them, and meanwhile a value that a minority keeps forever is not removed.
const NOBODYS_MS: u64 = 24 * 3600 * 1000;

/// Time for which other proxies believe a proxy's announcement that it is copying.
const SAID_FOR: Duration = Duration::from_secs(4);

const SAY: &str =
    "redis.call('SELECT', 0) return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])";

/// Progress of a copy.
#[derive(Debug, Default)]
pub struct Progress {
    copied: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Returns the number of keys copied since the copy began.
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Takes over the progress announced by a copying proxy.
    pub fn is_told(&self, (copied, total): (u64, u64)) {
        // Announcements by this proxy itself are older than what it knows, or were made before it had counted.
        self.copied.fetch_max(copied, Ordering::Relaxed);
        if total > 0 {
            self.total.store(total, Ordering::Relaxed);
        }
    }

    /// Returns the number of keys copied since the copy began, and the approximate number in all: 0 until they are
    /// counted.
    ///
    /// They are counted once. Keys that are written, or change, during the copy are copied in addition, so the number in
    /// all grows with those.
    pub fn counts(&self) -> (u64, u64) {
        let copied = self.copied();
        match self.total.load(Ordering::Relaxed) {
            0 => (copied, 0),
            counted => (copied, counted.max(copied)),
        }
    }
}

/// A key under which the sources hold the claims of two holders.
struct Open {
    key: Vec<u8>,
    kind: Keys,
    /// The content of each source at each read.
    looks: Vec<Vec<Option<KeyContent>>>,
}

impl Open {
    fn new(key: &[u8], kind: Keys) -> Self {
        Self { key: key.to_vec(), kind, looks: Vec::new() }
    }
}

/// Returns the keys whose stamps are among `keys`.
fn stamped(keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let name = |key: &Vec<u8>| key.strip_prefix(STAMPS.as_bytes()).map(<[u8]>::to_vec);
    keys.iter().filter_map(name).collect()
}

/// One walk through a database.
struct Walk<'a> {
    db: u32,
    /// Attempts known to be over.
    over: &'a HashSet<Attempt>,
    look: Look,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// First pass: the target gets what it should hold, whatever it holds.
    First,
    /// Last pass: the target has been given everything, and lease commands have reached it since.
    Last,
}

impl Look {
    /// Returns what a target that held `here` gets, and the condition for writing it.
    fn at(self, choice: Choice, held: &[Option<Held>], here: Option<&Entry>) -> (Choice, Over) {
        if self == Self::First {
            return (choice, Over::Whatever);
        }
        let content = here.map(|here| here.held().content);
        let over = here.map_or(Over::Something, Entry::that_it_is);
        (choose_again(choice, held, content.as_ref()), over)
    }
}

/// A value that is too large for a page.
struct Wanted<'a> {
    source: usize,
    key: &'a [u8],
    over: Over,
    ttl_ms: Option<u64>,
}

/// A master to copy from.
pub(super) struct Source {
    pub(super) master: MasterId,
    pub(super) errand: Errand,
}

/// One full copy to one master.
pub(super) struct Copying<'a, P> {
    pub(super) quorum: Quorum,
    pub(super) sources: Vec<Source>,
    pub(super) target: Errand,
    /// Address of the target, for the log.
    pub(super) address: String,
    /// Number of databases on each master.
    pub(super) databases: u32,
    /// Nonce of the target's provisional mark.
    pub(super) nonce: u64,
    /// Worker number in the ballots of this copy.
    pub(super) worker: u64,
    /// Microseconds since the epoch, by the masters' clocks.
    pub(super) now_us: &'a dyn Fn() -> u64,
    pub(super) progress: Arc<Progress>,
    /// Pause between two reads of keys that are about to change.
    pub(super) pause: Duration,
    /// Returns whether a source's mark proves the data read with it.
    pub(super) is_proof: &'a P,
    /// The last flush of each database that all sources have done. Data read before and after another flush does not
    /// go together.
    pub(super) flushes: RefCell<Vec<u64>>,
    /// Called with the number of keys that were copied.
    pub(super) copied: &'a dyn Fn(u64),
}

impl<P: Fn(&Source, Option<&Mark>) -> bool> Copying<'_, P> {
    /// Copies everything. The copy is complete once this returns.
    ///
    /// # Errors
    /// Returns an error if a master cannot be reached, a page is not proved, or the target has forgotten again.
    pub(super) async fn run(&self) -> Result<(), Failed> {
        self.say(&self.target).await?;
        tokio::select! {
            biased;
            done = self.copy() => done,
            failed = self.keep_saying() => failed,
        }
    }

    /// Keeps announcing the copy, so that other proxies do not start one.
    async fn keep_saying(&self) -> Result<(), Failed> {
        loop {
            tokio::time::sleep(SAID_FOR / 4).await;
            self.say(&self.target).await?;
            let (copied, total) = self.progress.counts();
            tracing::info!(master = %self.address, copied, total, "restoring data that the master may have lost");
        }
    }

    async fn say(&self, target: &Errand) -> Result<(), Failed> {
        let (copied, total) = self.progress.counts();
        let text = format!("{copied} {total}");
        // The selected database changes during the copy, so the script selects its own.
        let mut say = redis::cmd("EVAL");
        say.arg(SAY).arg(1).arg(COPYING).arg(text).arg(SAID_FOR.as_millis() as u64);
        Ok(say.query_async(&mut target.connection.clone()).await?)
    }

    async fn copy(&self) -> Result<(), Failed> {
        self.raise_floors().await?;
        let databases = self.databases().await?;
        for db in &databases {
            self.unless_flushed(*db, self.database(*db)).await?;
        }
        // Requests that were on their way to a source while its page was read have arrived.
        tokio::time::sleep(self.pause).await;
        for db in &databases {
            self.unless_flushed(*db, self.once_more(*db)).await?;
        }
        // Anything the sources have dropped is now below these floors, or still there.
        self.raise_floors().await?;
        for db in &databases {
            self.unless_flushed(*db, self.last_look(*db)).await?;
        }
        Ok(())
    }

    /// Copies one part of a database. If all sources flush the database meanwhile, the part is no longer needed:
    /// whatever exists since then was decided without the target.
    async fn unless_flushed(
        &self,
        db: u32,
        part: impl Future<Output = Result<(), Failed>>,
    ) -> Result<(), Failed> {
        let last = || self.flushes.borrow().get(db as usize).copied();
        let before = last();
        match part.await {
            Err(Failed::Overtaken) => {
                self.raise_floors().await?;
                if last() == before { Err(Failed::Overtaken) } else { Ok(()) }
            }
            done => done,
        }
    }

    /// Gives the target what was written during the copy, so that it does not start out behind: registers, and keys that
    /// it does not hold because proxies had no connection to it yet. The last pass removes what is released meanwhile.
    async fn once_more(&self, db: u32) -> Result<(), Failed> {
        let Some(first) = self.sources.first() else { return Ok(()) };
        self.select(db).await?;
        let over = self.over(db).await?;
        let walk = Walk { db, over: &over, look: Look::First };
        let (mut cursor, mut open) = (0, Vec::new());
        loop {
            let (onwards, mut keys) = page::scan(&first.errand, cursor, PAGE).await?;
            for names in stamped(&keys).chunks(PAGE) {
                self.registers(db, names, false).await?;
            }
            keys.retain(|key| !is_reserved(key));
            for keys in keys.chunks(PAGE) {
                let held = page::read(&self.target, db, Keys::Bare, keys).await?.entries;
                let missing = keys.iter().zip(held).filter(|(_, held)| held.is_none());
                let missing = missing.map(|(key, _)| Open::new(key, Keys::Bare)).collect();
                open.extend(self.settle(&walk, missing).await?);
            }
            cursor = onwards;
            if cursor == 0 {
                break;
            }
        }
        open.truncate(MAX_OPEN);
        self.look_again(&walk, open).await
    }

    /// Raises the target's floors, so that it refuses late requests like the others and drops what they have flushed.
    async fn raise_floors(&self) -> Result<(), Failed> {
        let tails = self.tails().await?;
        *self.flushes.borrow_mut() = tails.iter().map(|tail| tail.last_flush).collect();
        let mut eval = redis::cmd("EVAL");
        eval.arg(&FLOORS.text).arg(1).arg(MARK);
        for (db, tail) in (0..).zip(tails) {
            eval.arg(self.head(db)).arg(tail.floor).arg(tail.last_flush);
        }
        self.has_changed(eval.query_async::<i64>(&mut self.target.connection.clone()).await?.min(0))
    }

    /// Returns the highest floor and the last flush of each database. Nothing is copied while a source has missed that
    /// flush.
    async fn tails(&self) -> Result<Vec<Tail>, Failed> {
        for _ in 0..LOOKS_AGAIN {
            let theirs = try_join_all(self.sources.iter().map(|it| self.tails_of(it))).await?;
            let of = |db: usize| theirs.iter().map(move |tails| tails[db]);
            let all = 0..self.databases as usize;
            let is_alike = |db| {
                let mut flushes = of(db).map(|tail| tail.last_flush);
                let first = flushes.next();
                flushes.all(|last| Some(last) == first)
            };
            if all.clone().all(is_alike) {
                let highest = |db| of(db).max_by_key(|tail| tail.floor).unwrap_or_default();
                return Ok(all.map(highest).collect());
            }
            tokio::time::sleep(self.pause).await;
        }
        Err(Failed::Overtaken)
    }

    /// Returns the tails of one source.
    async fn tails_of(&self, source: &Source) -> Result<Vec<Tail>, Failed> {
        Ok(self.databases_of(source).await?.into_iter().map(|(mark, _)| mark.tail).collect())
    }

    /// Returns each database's mark on a source, all of which must be proofs, and its number of keys including the
    /// proxies' own.
    async fn databases_of(&self, source: &Source) -> Result<Vec<(Mark, u64)>, Failed> {
        let found = page::databases(&source.errand, self.databases).await?;
        let proved = |(db, (mark, keys)): (u32, (Option<Mark>, u64))| {
            Ok((self.proof(source, mark.as_ref(), db)?.clone(), keys))
        };
        (0..).zip(found).map(proved).collect()
    }

    /// Returns the target's mark up to its tail.
    fn head(&self, db: u32) -> String {
        let kind = MarkKind::Provisional { nonce: self.nonce };
        Mark { kind, database: db, tail: Tail::default() }.head()
    }

    /// Counts the keys that the target has taken over.
    fn has_changed(&self, changed: i64) -> Result<(), Failed> {
        let Ok(changed) = u64::try_from(changed) else { return Err(Failed::Overtaken) };
        self.progress.copied.fetch_add(changed, Ordering::Relaxed);
        (self.copied)(changed);
        Ok(())
    }

    /// Returns the databases that hold any keys, and sets the approximate total. An empty database needs proof like
    /// any page.
    async fn databases(&self) -> Result<Vec<u32>, Failed> {
        let theirs = self.sources.iter().map(|source| self.databases_of(source));
        let (theirs, ours) = tokio::try_join!(try_join_all(theirs), async {
            Ok(page::databases(&self.target, self.databases).await?)
        })?;
        // The mark is also a key, but is not copied.
        fn keys<M>(found: &[(M, u64)], db: u32) -> u64 {
            found.get(db as usize).map_or(0, |(_, keys)| keys.saturating_sub(1))
        }
        let most = |db| theirs.iter().map(|found| keys(found, db)).max().unwrap_or_default();
        self.progress.total.store((0..self.databases).map(most).sum(), Ordering::Relaxed);
        self.progress.copied.store(0, Ordering::Relaxed);
        Ok((0..self.databases).filter(|db| most(*db) > 0 || keys(&ours, *db) > 0).collect())
    }

    /// Walks the target's keys in the last pass.
    async fn last_look(&self, db: u32) -> Result<(), Failed> {
        self.select(db).await?;
        let over = self.over(db).await?;
        let walk = Walk { db, over: &over, look: Look::Last };
        self.scan(&walk, &self.target, None).await
    }

    async fn database(&self, db: u32) -> Result<(), Failed> {
        self.select(db).await?;
        let over = self.over(db).await?;
        let walk = Walk { db, over: &over, look: Look::First };
        for (at, source) in self.sources.iter().enumerate() {
            let first = self.sources.first().filter(|_| at > 0);
            self.scan(&walk, &source.errand, first.map(|first| (source, first))).await?;
        }
        Ok(())
    }

    /// Returns the attempts that any source knows to be over, and notes them on the target as well. An attempt once
    /// over stays over.
    async fn over(&self, db: u32) -> Result<HashSet<Attempt>, Failed> {
        let mut over = HashMap::<Attempt, i64>::new();
        for source in &self.sources {
            let mut cursor = Vec::from(*b"0");
            loop {
                let page = page::over(&source.errand, db, &cursor, PAGE).await?;
                self.require_proof(source, page.mark.as_ref(), db)?;
                for (attempt, left_ms) in page.notes {
                    let longest = over.entry(attempt).or_insert(left_ms);
                    *longest = left_ms.max(*longest);
                }
                cursor = page.next;
                if cursor == b"0" {
                    break;
                }
            }
        }
        let notes: Vec<_> = over.iter().map(|(attempt, left_ms)| (*attempt, *left_ms)).collect();
        for some in notes.chunks(PAGE) {
            page::note(&self.target, some).await?;
        }
        Ok(over.into_keys().collect())
    }

    async fn select(&self, db: u32) -> RedisResult<()> {
        let sources = self.sources.iter().map(|source| &source.errand);
        let select = |errand: &Errand| {
            let mut connection = errand.connection.clone();
            async move { redis::cmd("SELECT").arg(db).query_async::<()>(&mut connection).await }
        };
        try_join_all(sources.chain([&self.target]).map(select)).await?;
        Ok(())
    }

    /// Copies the keys of `walked`, except those that both sources in `alike` hold alike.
    async fn scan(
        &self,
        walk: &Walk<'_>,
        walked: &Errand,
        alike: Option<(&Source, &Source)>,
    ) -> Result<(), Failed> {
        let (mut cursor, mut keys) = page::scan(walked, 0, PAGE).await?;
        let (mut open, mut registers) = (Vec::new(), Vec::new());
        loop {
            let next = async {
                if cursor == 0 {
                    return Ok(None);
                }
                page::scan(walked, cursor, PAGE).await.map(Some)
            };
            let settled = self.settle_new(walk, std::mem::take(&mut keys), alike);
            let (next, still_open) = tokio::join!(next, settled);
            let (still_open, changing) = still_open?;
            open.extend(still_open);
            open.truncate(MAX_OPEN);
            registers.extend(changing);
            match next? {
                Some((onwards, found)) => (cursor, keys) = (onwards, found),
                None => break,
            }
        }
        for look in 1..=LOOKS_AGAIN {
            if registers.is_empty() {
                break;
            }
            tokio::time::sleep(self.pause).await;
            let is_last = look == LOOKS_AGAIN;
            let again = std::mem::take(&mut registers);
            for keys in again.chunks(PAGE) {
                registers.extend(self.settle_registers(walk, keys, is_last, &mut open).await?);
            }
        }
        self.look_again(walk, open).await
    }

    /// Gives registers to the target, then the content next to absent ones. Returns the registers that change
    /// meanwhile.
    async fn settle_registers(
        &self,
        walk: &Walk<'_>,
        keys: &[Vec<u8>],
        is_last_look: bool,
        open: &mut Vec<Open>,
    ) -> Result<Vec<Vec<u8>>, Failed> {
        let looked = self.registers(walk.db, keys, is_last_look).await?;
        let beside = looked.absent.iter().map(|key| Open::new(key, Keys::Stamped)).collect();
        open.extend(self.settle(walk, beside).await?);
        Ok(looked.open)
    }

    async fn settle_new(
        &self,
        walk: &Walk<'_>,
        mut keys: Vec<Vec<u8>>,
        alike: Option<(&Source, &Source)>,
    ) -> Result<(Vec<Open>, Vec<Vec<u8>>), Failed> {
        let registers = stamped(&keys);
        keys.retain(|key| !is_reserved(key));
        if let Some((walked, first)) = alike {
            keys = self.differing(walk.db, walked, first, keys).await?;
        }
        let (mut open, mut changing) = (Vec::new(), Vec::new());
        for keys in keys.chunks(PAGE) {
            let keys = keys.iter().map(|key| Open::new(key, Keys::Bare));
            open.extend(self.settle(walk, keys.collect()).await?);
        }
        for keys in registers.chunks(PAGE) {
            changing.extend(self.settle_registers(walk, keys, false, &mut open).await?);
        }
        Ok((open, changing))
    }

    /// Returns the keys that two sources do not hold alike. A key that the first source holds alike was copied when
    /// that source was walked, or was written there since. In the latter case the first source takes the place of the
    /// master that has forgotten. Merely holding some value proves nothing: it may be the rest of a claim that is
    /// about to lose.
    async fn differing(
        &self,
        db: u32,
        walked: &Source,
        first: &Source,
        keys: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, Failed> {
        if keys.is_empty() {
            return Ok(keys);
        }
        let (theirs, firsts) = tokio::try_join!(
            self.read(walked, db, Keys::Bare, &keys),
            self.read(first, db, Keys::Bare, &keys)
        )?;
        let content = |entry: &Option<Entry>| Some(entry.as_ref()?.held().content);
        let is_alike = |(one, other): (&Option<Entry>, &Option<Entry>)| {
            let (one, other) = (content(one), content(other));
            one.zip(other).is_some_and(|(one, other)| one.is_same_state(&other))
        };
        let alike: Vec<bool> = theirs.entries.iter().zip(&firsts.entries).map(is_alike).collect();
        let keys = keys.into_iter().zip(alike).filter(|(_, is_alike)| !is_alike);
        Ok(keys.map(|(key, _)| key).collect())
    }

    async fn look_again(&self, walk: &Walk<'_>, mut open: Vec<Open>) -> Result<(), Failed> {
        for _ in 0..LOOKS_AGAIN {
            if open.is_empty() {
                break;
            }
            tokio::time::sleep(self.pause).await;
            let mut still_open = Vec::new();
            while let Some(Open { kind, .. }) = open.first() {
                let kind = *kind;
                let some = open.iter().take(PAGE).take_while(|open| open.kind == kind).count();
                let some: Vec<Open> = open.drain(..some).collect();
                still_open.extend(self.settle(walk, some).await?);
            }
            open = still_open;
        }
        Ok(())
    }

    /// Makes the target hold what it should under these keys. Returns the keys under which it holds nobody's value for
    /// now.
    async fn settle(&self, walk: &Walk<'_>, all: Vec<Open>) -> Result<Vec<Open>, Failed> {
        let keys: Vec<Vec<u8>> = all.iter().map(|open| open.key.clone()).collect();
        let (db, keys) = (walk.db, &keys[..]);
        let Some(Open { kind, .. }) = all.first() else { return Ok(Vec::new()) };
        let kind = *kind;
        let read = self.sources.iter().map(|source| self.read(source, db, kind, keys));
        let (theirs, ours) = tokio::try_join!(try_join_all(read), async {
            Ok(page::read(&self.target, db, kind, keys).await?)
        })?;
        let (mut writes, mut large, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for (at, mut looked) in all.into_iter().enumerate() {
            let key = &keys[at];
            // The walk meets the stamp under the stamp's own name.
            let mut shown =
                theirs.iter().chain([&ours]).filter_map(|page| page.entries[at].as_ref());
            if shown.any(|entry| entry.found == Found::Stamp) {
                continue;
            }
            let held = theirs.iter().map(|page| page.entries[at].as_ref().map(Entry::held));
            let held: Vec<Option<Held>> = living(held.collect(), walk.over);
            let here = ours.entries[at].as_ref();
            let is_last_look = looked.looks.len() == LOOKS_AGAIN;
            let choice = match choose(self.quorum, &held) {
                // A value that changed between reads is no lock.
                Choice::Nobody { .. } if is_last_look => {
                    match choose(self.quorum, &steady(&held, &looked.looks)) {
                        Choice::Nothing => choose(self.quorum, &held),
                        steady => steady,
                    }
                }
                choice => choice,
            };
            let (choice, over) = walk.look.at(choice, &held, here);
            match choice {
                Choice::Nothing => writes.extend(here.map(|here| Write::remove(key, here))),
                Choice::Nobody { ttl_ms } => {
                    let ttl_ms = ttl_ms.unwrap_or(NOBODYS_MS);
                    writes.push(Write::text(key, over, nobody(), Some(ttl_ms)));
                    if !is_last_look {
                        let content = |held: &Option<Held>| Some(held.as_ref()?.content.clone());
                        looked.looks.push(held.iter().map(content).collect());
                        open.push(looked);
                    }
                }
                Choice::Take { source, ttl_ms } => {
                    let Some(entry) = &theirs[source].entries[at] else { continue };
                    if here.is_some_and(|here| here.lasts_as_long(entry, ttl_ms)) {
                        continue;
                    }
                    match &entry.found {
                        Found::Text(text) => {
                            writes.push(Write::text(key, over, text.clone(), ttl_ms));
                        }
                        Found::Stamp => {}
                        Found::Large(_) => large.push(Wanted { source, key, over, ttl_ms }),
                    }
                }
            }
        }
        self.write(db, &writes).await?;
        for some in large.chunks(LARGE_AT_ONCE) {
            self.fetch(db, some).await?;
        }
        Ok(open)
    }

    /// Reads a page of a source, with its proof.
    async fn read(
        &self,
        source: &Source,
        db: u32,
        kind: Keys,
        keys: &[Vec<u8>],
    ) -> Result<Page, Failed> {
        let page = page::read(&source.errand, db, kind, keys).await?;
        self.require_proof(source, page.mark.as_ref(), db)?;
        Ok(page)
    }

    fn require_proof(&self, source: &Source, mark: Option<&Mark>, db: u32) -> Result<(), Failed> {
        let mark = self.proof(source, mark, db)?;
        let is_after = self.flushes.borrow().get(db as usize) == Some(&mark.tail.last_flush);
        if is_after { Ok(()) } else { Err(Failed::Overtaken) }
    }

    /// Returns the mark if it proves the data read with it.
    fn proof<'m>(
        &self,
        source: &Source,
        mark: Option<&'m Mark>,
        db: u32,
    ) -> Result<&'m Mark, Failed> {
        let mark = mark.filter(|mark| mark.database == db).ok_or(Failed::Overtaken)?;
        let in_first = Mark { database: 0, ..mark.clone() };
        let is_proof = (self.is_proof)(source, Some(&in_first));
        if is_proof { Ok(mark) } else { Err(Failed::Overtaken) }
    }

    async fn fetch(&self, db: u32, wanted: &[Wanted<'_>]) -> Result<(), Failed> {
        for (at, source) in self.sources.iter().enumerate() {
            let here: Vec<_> = wanted.iter().filter(|wanted| wanted.source == at).collect();
            if here.is_empty() {
                continue;
            }
            let keys: Vec<_> = here.iter().map(|wanted| wanted.key.to_vec()).collect();
            let (mark, dumps) = page::dumps(&source.errand, db, &keys).await?;
            self.require_proof(source, mark.as_ref(), db)?;
            let mut writes = Vec::new();
            for (Wanted { key, over, ttl_ms, .. }, dump) in here.into_iter().zip(dumps) {
                if !dump.is_empty() {
                    writes.push(Write::dump(key, *over, dump, *ttl_ms));
                }
            }
            self.write(db, &writes).await?;
        }
        Ok(())
    }

    async fn write(&self, db: u32, writes: &[Write<'_>]) -> Result<(), Failed> {
        if writes.is_empty() {
            return Ok(());
        }
        self.has_changed(page::paste(&self.target, db, &self.head(db), writes).await?)
    }
}

/// Returns a value that nobody holds: a separate attempt with a token that no client receives.
fn nobody() -> Vec<u8> {
    let attempt = Attempt::of_nobody(fastrand::u64(..));
    encode(attempt.fresh(), format!("{:032x}", fastrand::u128(..)).as_bytes())
}
