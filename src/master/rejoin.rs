//! Giving a master on probation back what it has forgotten, so that it need not wait.
//!
//! Any lock that had counted its lost vote stands on `quorum - 1` of the others, and so at least on one
//! of every quorum of others. While such a quorum votes, everything that these masters hold is copied to
//! the one that has forgotten. It is not hot: the `redis` crate does it, with pauses as long as the work.
//!
//! Writes go to the master all along. So a key is settled when the master holds what the others hold, by
//! itself or because it was copied, or when the others do not hold it any more; `decide` tells that from two
//! looks.

mod decide;
mod image;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::RedisResult;

use super::dial::Dial;
use super::errand::{Errand, Errands, Failed};
use super::link::longest_silence;
use super::membership;
use super::probation::Sources;
use crate::clock::{self, Instant};
use crate::quorum::MasterId;
use decide::{Look, Move, Terms, Wished, decide, is_everywhere, may_replace};
use image::Wish;

/// How many keys a master is asked for at a time.
const BATCH: usize = 100;

/// About so many keys are looked at twice before others are: a look takes time, and has to be remembered.
const WINDOW: usize = 10_000;

/// Of so many keys it is remembered that they are settled, so that they are not looked at again.
const REMEMBERED: usize = 1_000_000;

/// How many are copied at a time: they may be large.
const DUMPS: usize = 25;

/// After so many pairs of looks it is known that no lock stays under a key that has changed in all of them.
const RESTLESS: u32 = 20;

/// The least pause between two batches; the rule is as long as the batch took.
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// How often an unsettled key, or a master that waits, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// So many passes over all keys: while a program is taken back, a key may be missing for a moment.
const PASSES: u32 = 2;

/// What brings masters back.
#[derive(Clone)]
pub struct Rejoin<D>(pub Errands<D>);

impl<D: Dial + Clone> Rejoin<D> {
    /// Brings `master` back whenever it is on probation.
    pub async fn run(self, master: MasterId) {
        let mut last_error = None;
        loop {
            let changed = self.0.electorate.changed();
            let Some(start) = self.0.electorate.may_copy_from(master, self.0.vote_timeout) else {
                last_error = None;
                changed.await;
                continue;
            };
            tokio::time::sleep(LOOK_AGAIN).await;
            let now = clock::now();
            if self.0.electorate.has_waited(master, now) || now < start {
                continue;
            }
            let Some(sources) = self.0.electorate.sources(master) else { continue };
            match self.copy(master, sources).await {
                Ok((sources, copied)) if self.0.electorate.has_copied(master, &sources) => {
                    let address = &self.0.addresses[master.index()];
                    tracing::info!(master = %address, copied, "what it may have forgotten was copied");
                }
                Ok(_) | Err(Failed::Overtaken) => {}
                Err(why) => {
                    let why = why.to_string();
                    if last_error.as_ref() != Some(&why) {
                        let address = &self.0.addresses[master.index()];
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
        let target = self.0.to(master).await?;
        let (mut others, mut missing) = (Vec::new(), None);
        for source in sources.masters.iter() {
            match self.0.to(source).await {
                Ok(errand) => others.push(Rc::new(errand)),
                Err(why) => {
                    sources.masters.remove(source);
                    missing = Some(why);
                }
            }
        }
        if let Some(why) = missing.filter(|_| !self.0.quorum.reached_by(sources.masters)) {
            return Err(why);
        }
        let mut copying = Copying {
            errands: &self.0,
            master,
            target,
            sources,
            others,
            settled: HashMap::new(),
            copied: 0,
        };
        for pass in 0..PASSES {
            if pass > 0 {
                tokio::time::sleep(2 * self.0.vote_timeout).await;
            }
            copying.pass().await?;
        }
        Ok((copying.sources, copying.copied))
    }
}

/// The masters work for clients at least half of the time.
async fn rest_after(started: Instant) {
    tokio::time::sleep((clock::now() - started).max(LEAST_PAUSE)).await;
}

/// Two looks at the same keys.
#[derive(Clone, Copy)]
struct Looks<'a> {
    before: &'a [Look],
    now: &'a [Look],
}

/// One attempt.
struct Copying<'a, D> {
    errands: &'a Errands<D>,
    master: MasterId,
    target: Errand,
    sources: Sources,
    others: Vec<Rc<Errand>>,
    /// The keys of each database that need no other look.
    settled: HashMap<u32, HashSet<Vec<u8>>>,
    copied: u64,
}

impl<D: Dial + Clone> Copying<'_, D> {
    async fn pass(&mut self) -> Result<(), Failed> {
        for source in self.others.clone() {
            for db in image::databases(&mut source.connection.clone()).await? {
                self.select(db).await?;
                self.scan(db, &source).await?;
            }
        }
        Ok(())
    }

    async fn select(&self, db: u32) -> RedisResult<()> {
        for each in self.others.iter().map(Rc::as_ref).chain([&self.target]) {
            redis::cmd("SELECT").arg(db).query_async::<()>(&mut each.connection.clone()).await?;
        }
        Ok(())
    }

    async fn scan(&mut self, db: u32, source: &Errand) -> Result<(), Failed> {
        let (mut cursor, mut keys) = (0u64, Vec::new());
        loop {
            let started = clock::now();
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(BATCH);
            let (next, found): (u64, Vec<Vec<u8>>) =
                scan.query_async(&mut source.connection.clone()).await?;
            keys.extend(found.into_iter().filter(|key| !self.is_settled(db, key)));
            if next == 0 || keys.len() >= WINDOW {
                self.settle(db, std::mem::take(&mut keys)).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
            rest_after(started).await;
        }
    }

    /// Looks at `keys` until the master holds what the others do.
    async fn settle(&mut self, db: u32, mut keys: Vec<Vec<u8>>) -> Result<(), Failed> {
        let mut copied = HashMap::new();
        for round in 0.. {
            if keys.is_empty() {
                break;
            }
            let was_alone = self.is_alone().await;
            let before = self.look(&keys).await?;
            tokio::time::sleep(2 * self.errands.vote_timeout).await;
            let now = self.look(&keys).await?;
            if !self.may_go_on() {
                return Err(Failed::Overtaken);
            }
            let is_alone = was_alone && self.is_alone().await;
            let terms = Terms { is_alone, ..self.terms(round) };
            let looks = before.iter().zip(&now);
            let moves = keys.iter().zip(looks).map(|(key, (before, now))| {
                decide(before, now, terms, copied.get(key).map(Vec::as_slice))
            });
            let moves: Vec<Move> = moves.collect();
            let looks = Looks { before: &before, now: &now };
            self.copy_all(&keys, looks, &moves, terms, &mut copied).await?;
            self.forget_all(&keys, &now, &moves).await?;
            let mut open = Vec::new();
            for (at, key) in keys.into_iter().enumerate() {
                match moves[at] {
                    Move::LookAgain | Move::Copy { .. } => open.push(key),
                    Move::Settled if is_everywhere(&before[at], &now[at], terms) => {
                        self.remember(db, key);
                    }
                    Move::Settled | Move::Forget => {}
                }
            }
            keys = open;
        }
        Ok(())
    }

    fn remember(&mut self, db: u32, key: Vec<u8>) {
        if self.settled.values().map(HashSet::len).sum::<usize>() < REMEMBERED {
            self.settled.entry(db).or_default().insert(key);
        }
    }

    fn is_settled(&self, db: u32, key: &[u8]) -> bool {
        self.settled.get(&db).is_some_and(|keys| keys.contains(key))
    }

    fn terms(&self, round: u32) -> Terms {
        let quorum = self.errands.quorum;
        let vote_timeout = self.errands.vote_timeout;
        let reach = longest_silence(vote_timeout, self.errands.patience) + 2 * vote_timeout;
        // Without the master itself, and with all that cannot be read.
        let not_read = quorum.masters() - self.others.len();
        Terms {
            least_holders: quorum.needed().saturating_sub(not_read).max(1),
            quorum: quorum.needed(),
            slack_ms: vote_timeout.as_millis() as i64,
            reach_ms: reach.as_millis() as i64,
            is_restless: round >= RESTLESS,
            is_alone: false,
        }
    }

    /// Whether no other proxy can be seen on any of the masters. Where that cannot be told there may be one.
    async fn is_alone(&self) -> bool {
        let everybody = std::iter::once(&self.target).chain(self.others.iter().map(Rc::as_ref));
        for each in everybody {
            match membership::announced(&mut each.connection.clone()).await {
                Ok(announced) if self.errands.electorate.is_alone(&announced) => {}
                _ => return false,
            }
        }
        true
    }

    /// What everybody holds under `keys`, at this moment or a little later.
    async fn look(&self, keys: &[Vec<u8>]) -> Result<Vec<Look>, Failed> {
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(BATCH) {
            let started = clock::now();
            let everybody = std::iter::once(&self.target).chain(self.others.iter().map(Rc::as_ref));
            let states = everybody.map(|each| image::states(each.connection.clone(), keys));
            let mut states = try_join_all(states).await?.into_iter();
            let ours = states.next().into_iter().flatten();
            let mut seen: Vec<Look> = ours.map(|ours| Look { ours, theirs: Vec::new() }).collect();
            for theirs in states {
                seen.iter_mut().zip(theirs).for_each(|(seen, theirs)| seen.theirs.push(theirs));
            }
            all.extend(seen);
            rest_after(started).await;
        }
        Ok(all)
    }

    async fn copy_all(
        &mut self,
        keys: &[Vec<u8>],
        looks: Looks<'_>,
        moves: &[Move],
        terms: Terms,
        copied: &mut HashMap<Vec<u8>, Vec<u8>>,
    ) -> Result<(), Failed> {
        for (number, other) in self.others.clone().iter().enumerate() {
            let from_here = moves.iter().enumerate().filter_map(|(at, chosen)| match chosen {
                Move::Copy { source, ttl_ms } if *source == number => Some((at, *ttl_ms)),
                _ => None,
            });
            let from_here: Vec<(usize, i64)> = from_here.collect();
            for chunk in from_here.chunks(DUMPS) {
                let started = clock::now();
                let names: Vec<Vec<u8>> = chunk.iter().map(|(at, _)| keys[*at].clone()).collect();
                let dumps = image::dumps(&mut other.connection.clone(), &names).await?;
                // Claims come and go: what is not to stay may be another one by now.
                let ours = image::states(self.target.connection.clone(), &names).await?;
                let each = chunk.iter().zip(dumps.into_iter().zip(ours));
                let wishes = each.filter_map(|((at, ttl_ms), (dump, ours))| {
                    let (digest, dump) = dump?;
                    let (before, now) = (&looks.before[*at], &looks.now[*at]);
                    let wished = Wished { digest: &digest, ttl_ms: *ttl_ms };
                    let may_go = digest == now.theirs[number].digest
                        && may_replace(before, now, &ours, wished, terms);
                    may_go.then_some(Wish { key: &keys[*at], ours, digest, dump, ttl_ms: *ttl_ms })
                });
                self.adopt(&wishes.collect::<Vec<_>>(), copied).await?;
                rest_after(started).await;
            }
        }
        Ok(())
    }

    async fn adopt(
        &mut self,
        wishes: &[Wish<'_>],
        copied: &mut HashMap<Vec<u8>, Vec<u8>>,
    ) -> Result<(), Failed> {
        if wishes.is_empty() {
            return Ok(());
        }
        let adopted = image::adopt(&mut self.target.connection.clone(), wishes).await?;
        for (wish, _) in wishes.iter().zip(adopted).filter(|(_, adopted)| *adopted) {
            if copied.insert(wish.key.to_vec(), wish.digest.clone()).is_none() {
                self.copied += 1;
                self.errands.electorate.copied(self.master);
            }
        }
        Ok(())
    }

    async fn forget_all(
        &self,
        keys: &[Vec<u8>],
        now: &[Look],
        moves: &[Move],
    ) -> Result<(), Failed> {
        for (at, _) in moves.iter().enumerate().filter(|(_, chosen)| **chosen == Move::Forget) {
            let target = &mut self.target.connection.clone();
            image::forget(target, &keys[at], &now[at].ours).await?;
        }
        Ok(())
    }

    /// Not when the master has waited long enough meanwhile, or something happens to a source.
    fn may_go_on(&self) -> bool {
        let electorate = &self.errands.electorate;
        !electorate.has_waited(self.master, clock::now()) && electorate.are_as_before(&self.sources)
    }
}
