//! Giving a master on probation back what it has forgotten, so that it need not wait.
//!
//! Any lock that had counted its lost vote stands on `quorum - 1` of the others, and so at least on one
//! of every quorum of others. While such a quorum votes, everything that these masters hold is copied to
//! the one that has forgotten. It is not hot: the `redis` crate does it, with pauses as long as the work.
//!
//! Writes go to the master all along. So a key is settled when the master holds what the others hold, by
//! itself or because it was copied, or when the others do not hold it any more.

mod image;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;

use super::dial::Dial;
use super::electorate::Electorate;
use super::errand::{Errand, Failed};
use super::probation::Sources;
use crate::clock::{self, Instant};
use crate::config::MasterAddr;
use crate::quorum::{MasterId, Quorum};
use image::{Image, State, Wish, choose};

/// How many keys are compared at a time.
const BATCH: usize = 100;

/// How many are copied at a time: they may be large.
const IMAGES: usize = 25;

/// The least pause between two batches; the rule is as long as the batch took.
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// How often an unsettled key, or a master that waits, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// So many passes over all keys: while a program is taken back, a key may be missing for a moment.
const PASSES: u32 = 2;

/// What brings masters back.
#[derive(Clone)]
pub struct Rejoin<D> {
    /// Opens connections.
    pub dial: D,
    /// All masters, in the order of the list.
    pub addresses: Arc<[MasterAddr]>,
    /// Who votes.
    pub electorate: Arc<Electorate>,
    /// How many others must remember.
    pub quorum: Quorum,
    /// How long one round of ballots may take.
    pub vote_timeout: Duration,
}

impl<D: Dial + Clone> Rejoin<D> {
    /// Brings `master` back whenever it is on probation.
    pub async fn run(self, master: MasterId) {
        let mut last_error = None;
        loop {
            let changed = self.electorate.changed();
            let Some(start) = self.electorate.may_copy_from(master, self.vote_timeout) else {
                last_error = None;
                changed.await;
                continue;
            };
            tokio::time::sleep(LOOK_AGAIN).await;
            let now = clock::now();
            if self.electorate.has_waited(master, now) || now < start {
                continue;
            }
            let Some(sources) = self.electorate.sources(master) else { continue };
            match self.copy(master, sources).await {
                Ok((sources, copied)) if self.electorate.has_copied(master, &sources) => {
                    let address = &self.addresses[master.index()];
                    tracing::info!(master = %address, copied, "what it may have forgotten was copied");
                }
                Ok(_) | Err(Failed::Overtaken) => {}
                Err(why) => {
                    let why = why.to_string();
                    if last_error.as_ref() != Some(&why) {
                        let address = &self.addresses[master.index()];
                        tracing::warn!(master = %address, "what it has forgotten cannot be copied yet: {why}");
                    }
                    last_error = Some(why);
                }
            }
        }
    }

    /// Copies from those of `sources` that can be reached, if they are a quorum. Says who they were, and how
    /// many keys were copied.
    async fn copy(&self, master: MasterId, mut sources: Sources) -> Result<(Sources, u64), Failed> {
        let target = self.connect(master).await?;
        let (mut others, mut missing) = (Vec::new(), None);
        for source in sources.masters.iter() {
            match self.connect(source).await {
                Ok(connection) => others.push(connection),
                Err(why) => {
                    sources.masters.remove(source);
                    missing = Some(why);
                }
            }
        }
        if let Some(why) = missing.filter(|_| !self.quorum.reached_by(sources.masters)) {
            return Err(why);
        }
        let strangers = HashMap::new();
        let adopted = Vec::new();
        let mut copying = Copying {
            rejoin: self,
            master,
            target,
            sources,
            others,
            strangers,
            adopted,
            copied: 0,
        };
        for _ in 0..PASSES {
            copying.pass().await?;
            tokio::time::sleep(2 * self.vote_timeout).await;
            copying.forget_what_has_ended().await?;
        }
        Ok((copying.sources, copying.copied))
    }

    async fn connect(&self, master: MasterId) -> Result<Rc<Errand>, Failed> {
        let address = &self.addresses[master.index()];
        Ok(Rc::new(Errand::to(master, address, &self.dial, &self.electorate).await?))
    }
}

/// What is to be copied to a key.
enum Wanted {
    /// It is settled as it is.
    Nothing,
    /// It cannot be told yet.
    Later,
    /// This.
    Image(Image),
}

/// One attempt.
struct Copying<'a, D> {
    rejoin: &'a Rejoin<D>,
    master: MasterId,
    target: Rc<Errand>,
    sources: Sources,
    others: Vec<Rc<Errand>>,
    /// Keys of the master that hold something that the others do not know, what it is, and since when it is
    /// known to hold it.
    strangers: HashMap<(u32, Vec<u8>), (Vec<u8>, Instant)>,
    /// What was copied in this pass: database, key and digest.
    adopted: Vec<(u32, Vec<u8>, Vec<u8>)>,
    copied: u64,
}

impl<D: Dial + Clone> Copying<'_, D> {
    async fn pass(&mut self) -> Result<(), Failed> {
        for source in self.others.clone() {
            for db in image::databases(&mut source.connection.clone()).await? {
                self.select(db).await?;
                self.scan(&source, db).await?;
            }
        }
        Ok(())
    }

    async fn select(&self, db: u32) -> RedisResult<()> {
        for each in self.others.iter().chain([&self.target]) {
            redis::cmd("SELECT").arg(db).query_async::<()>(&mut each.connection.clone()).await?;
        }
        Ok(())
    }

    async fn scan(&mut self, source: &Errand, db: u32) -> Result<(), Failed> {
        let mut cursor = 0u64;
        loop {
            let started = clock::now();
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(BATCH);
            let (next, keys): (u64, Vec<Vec<u8>>) =
                scan.query_async(&mut source.connection.clone()).await?;
            for keys in keys.chunks(BATCH) {
                self.compare(source, db, keys).await?;
            }
            if !self.may_go_on() {
                return Err(Failed::Overtaken);
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
            tokio::time::sleep((clock::now() - started).max(LEAST_PAUSE)).await;
        }
    }

    /// Most keys are the same, and are seen to be at a glance, or are missing and copied many at a time.
    async fn compare(&mut self, source: &Errand, db: u32, keys: &[Vec<u8>]) -> Result<(), Failed> {
        let theirs = image::states(&mut source.connection.clone(), keys).await?;
        let ours = image::states(&mut self.target.connection.clone(), keys).await?;
        let pairs = keys.iter().zip(theirs.iter().zip(ours));
        let differ: Vec<(&[u8], State)> = pairs
            .filter(|(_, (theirs, ours))| !theirs.is_missing() && !self.is_settled(ours, theirs))
            .map(|(key, (_, ours))| (&key[..], ours))
            .collect();
        for keys in differ.chunks(IMAGES) {
            let adopted = self.adopt(db, keys).await?;
            let others = keys.iter().zip(adopted).filter(|(_, adopted)| !adopted);
            for ((key, _), _) in others {
                self.settle(db, key).await?;
            }
        }
        Ok(())
    }

    /// What was written to both at the same time may end a little earlier on one.
    fn is_settled(&self, ours: &State, theirs: &State) -> bool {
        let slack_ms = self.rejoin.vote_timeout.as_millis() as i64;
        let lasts = match (ours.ttl_ms, theirs.ttl_ms) {
            (-1, _) => true,
            (_, -1) => false,
            (ours, theirs) => ours + slack_ms >= theirs,
        };
        ours.digest == theirs.digest && lasts
    }

    /// Looks at a key until the master holds what the others do.
    async fn settle(&mut self, db: u32, key: &[u8]) -> Result<(), Failed> {
        loop {
            if !self.may_go_on() {
                return Err(Failed::Overtaken);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            let target = &mut self.target.connection.clone();
            let ours = image::states(target, &[key.to_vec()]).await?.into_iter();
            let ours: Vec<(&[u8], State)> = ours.map(|ours| (key, ours)).collect();
            if self.adopt(db, &ours).await?.contains(&true) {
                return Ok(());
            }
        }
    }

    /// Gives the master what the others hold under `keys`, each with what it holds itself. Says which of them
    /// are settled by that.
    async fn adopt(&mut self, db: u32, keys: &[(&[u8], State)]) -> Result<Vec<bool>, Failed> {
        let names: Vec<&[u8]> = keys.iter().map(|(key, _)| *key).collect();
        let mut images = vec![Vec::new(); keys.len()];
        for other in &self.others {
            let theirs = image::images(&mut other.connection.clone(), &names).await?;
            images.iter_mut().zip(theirs).for_each(|(all, theirs)| all.extend(theirs));
        }
        let mut settled = vec![false; keys.len()];
        let mut wanted = Vec::new();
        for (at, ((key, ours), images)) in keys.iter().zip(images).enumerate() {
            match self.wanted(db, key, ours, images) {
                Wanted::Nothing => settled[at] = true,
                Wanted::Later => {}
                Wanted::Image(image) => wanted.push((at, image)),
            }
        }
        let wishes: Vec<Wish<'_>> = wanted
            .iter()
            .map(|(at, wanted)| Wish { key: names[*at], ours: &keys[*at].1, wanted })
            .collect();
        let adopted = image::adopt(&mut self.target.connection.clone(), &wishes).await?;
        for ((at, image), _) in wanted.iter().zip(adopted).filter(|(_, adopted)| *adopted) {
            settled[*at] = true;
            self.copied += 1;
            self.adopted.push((db, names[*at].to_vec(), image.state.digest.clone()));
            self.rejoin.electorate.copied(self.master);
        }
        Ok(settled)
    }

    /// What the master should hold under `key` instead of `ours`, where the others hold `images`.
    fn wanted(&mut self, db: u32, key: &[u8], ours: &State, images: Vec<Image>) -> Wanted {
        if images.is_empty() {
            return Wanted::Nothing;
        }
        let Some(wanted) = choose(images) else { return Wanted::Later };
        if self.is_settled(ours, &wanted.state) {
            return Wanted::Nothing;
        }
        let is_other = !ours.is_missing() && ours.digest != wanted.state.digest;
        if is_other && !self.is_stranger_for_long(db, key, ours) {
            return Wanted::Later;
        }
        Wanted::Image(wanted)
    }

    /// A lock that was released, or a claim that was rolled back, just before it was copied would stay here
    /// as a ghost.
    async fn forget_what_has_ended(&mut self) -> Result<(), Failed> {
        let adopted = std::mem::take(&mut self.adopted);
        for same_db in adopted.chunk_by(|(one, ..), (other, ..)| one == other) {
            self.select(same_db[0].0).await?;
            for batch in same_db.chunks(BATCH) {
                self.forget_unheld(batch).await?;
            }
        }
        Ok(())
    }

    async fn forget_unheld(&self, adopted: &[(u32, Vec<u8>, Vec<u8>)]) -> Result<(), Failed> {
        let keys: Vec<Vec<u8>> = adopted.iter().map(|(_, key, _)| key.clone()).collect();
        let mut held = vec![false; keys.len()];
        for other in &self.others {
            let theirs = image::states(&mut other.connection.clone(), &keys).await?;
            for (at, theirs) in theirs.iter().enumerate() {
                held[at] |= theirs.digest == adopted[at].2;
            }
        }
        for ((_, key, digest), _) in adopted.iter().zip(held).filter(|(_, held)| !held) {
            image::forget(&mut self.target.connection.clone(), key, digest).await?;
        }
        Ok(())
    }

    /// A claim that is on its way, and about to be refused or granted, does not stay what it is.
    fn is_stranger_for_long(&mut self, db: u32, key: &[u8], ours: &State) -> bool {
        let now = clock::now();
        let seen = self.strangers.entry((db, key.to_vec())).or_insert((ours.digest.clone(), now));
        if seen.0 != ours.digest {
            *seen = (ours.digest.clone(), now);
        }
        now >= seen.1 + 2 * self.rejoin.vote_timeout
    }

    /// Not when the master has waited long enough meanwhile, or something happens to a source.
    fn may_go_on(&self) -> bool {
        let electorate = &self.rejoin.electorate;
        !electorate.has_waited(self.master, clock::now()) && electorate.are_as_before(&self.sources)
    }
}
