//! Gives a master the registers that it has forgotten, as [`copying`](crate::decision::keyspace::copying) specifies.
//! States that a quorum of the sources holds are given unchanged, and the rest once it is settled.

use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use redis::{RedisResult, Value};

use super::page::{malformed, read_mark};
use super::{Copying, Source};
use crate::decision::keyspace::copying::{Given, known, unknown};
use crate::decision::keyspace::early::Early;
use crate::decision::keyspace::proposer::{MasterAnswer, Request};
use crate::decision::keyspace::settle::{Contested, Copied, copy};
use crate::decision::keyspace::slot::{Adopt, Adopted, Sight, State};
use crate::decision::register::ballot::Ballot;
use crate::decision::roster::mark::Mark;
use crate::lua::keyspace::{CLEAR, GIVE, HELD, SHOW};
use crate::masters::side_connection::{Errand, Failed};
use crate::operation::register::answer::{self, Said};
use crate::operation::register::ask::{self, RequestWords};
use crate::operation::register::{Job, Place, stamp};

/// Maximum bytes of values fetched at a time; one more value may exceed this.
const AT_ONCE: usize = 1 << 20;

/// Number of registers settled at the same time.
const SETTLED_AT_ONCE: usize = 16;

/// Maximum attempts of an operation on the sources, each with a higher ballot, before it yields to others.
const ROUNDS: usize = 3;

/// One master's copy of a register.
struct Kept {
    promised: Ballot,
    sight: Sight<Job>,
}

/// State given to the target under one key.
struct Gift {
    key: Vec<u8>,
    given: Given<Job>,
    /// Serialized content, if the register lives.
    dump: Option<Bytes>,
}

/// Outcome of a pass over some registers.
#[derive(Default)]
pub(super) struct Looked {
    /// Registers that change or that others are settling; they are read again.
    pub(super) open: Vec<Vec<u8>>,
    /// Registers that are absent and may have a lease next to them.
    pub(super) absent: Vec<Vec<u8>>,
}

/// Outcome for one register.
enum Settled {
    Gift(Gift),
    Contested(Gift),
    /// Another proxy or client was faster.
    Open(Vec<u8>),
}

impl<P: Fn(&Source, Option<&Mark>) -> bool> Copying<'_, P> {
    /// Brings the target up to date for these registers. A state that is still undecided after the last read is given
    /// as unknown.
    pub(super) async fn registers(
        &self,
        db: u32,
        keys: &[Vec<u8>],
        is_last_look: bool,
    ) -> Result<Looked, Failed> {
        let mut looked = Looked::default();
        if keys.is_empty() {
            return Ok(looked);
        }
        let now_us = (self.now_us)();
        let read = self.sources.iter().map(|source| self.kept(source, db, keys));
        let (theirs, (_, ours)) = tokio::try_join!(try_join_all(read), async {
            Ok(shown(&self.target, db, keys).await?)
        })?;
        let (mut gifts, mut unsettled, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for (at, key) in keys.iter().enumerate() {
            let kept: Vec<&Kept> = theirs.iter().map(|kept| &kept[at].1).collect();
            let here = ours[at].as_ref();
            if theirs.iter().all(|kept| !kept[at].0) {
                late.extend(here.map(|_| key.clone()));
                looked.absent.push(key.clone());
                continue;
            }
            let sights: Vec<&Sight<Job>> = kept.iter().map(|kept| &kept.sight).collect();
            let promised = kept.iter().map(|kept| kept.promised).max().unwrap_or_default();
            let state = known(self.quorum, &sights, now_us);
            if state.as_ref().is_some_and(|state| !state.stays(now_us)) {
                looked.absent.push(key.clone());
            }
            match state {
                Some(state)
                    if here.is_some_and(|here| here.is_enough(&state, promised, now_us)) => {}
                Some(state) => {
                    let given = Given { state, promised, lease: None };
                    gifts.push(Gift { key: key.clone(), given, dump: None });
                }
                None => unsettled.push(key.clone()),
            }
        }
        let (all, given) = (keys.len(), gifts.len());
        tracing::debug!(all, given, unsettled = unsettled.len(), late = late.len(), "registers");
        self.clear(db, &late).await?;
        // A state that no source holds any more was decided without the target, which may have missed that decision.
        unsettled.extend(self.fetch_values(db, &mut gifts, now_us).await?);
        let settle = |key: Vec<u8>| async move {
            match self.settle_one(db, &key).await? {
                Settled::Open(key) if is_last_look => self.give_unknown(db, key).await,
                settled => Ok::<_, Failed>(settled),
            }
        };
        let settling = stream::iter(unsettled).map(settle).buffer_unordered(SETTLED_AT_ONCE);
        for settled in settling.try_collect::<Vec<_>>().await? {
            match settled {
                Settled::Gift(gift) => {
                    looked.absent.push(gift.key.clone());
                    gifts.push(gift);
                }
                // The target gets the lease that other clients may have been told about.
                Settled::Contested(gift) => gifts.push(gift),
                Settled::Open(key) => looked.open.push(key),
            }
        }
        self.give(db, &gifts, now_us).await?;
        Ok(looked)
    }

    /// Settles the registers whose state no quorum of the sources is seen to hold. Returns those that others are
    /// changing or settling.
    pub(super) async fn settle_differing(
        &self,
        db: u32,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, Failed> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let now_us = (self.now_us)();
        let read = self.sources.iter().map(|source| self.kept(source, db, keys));
        let theirs = try_join_all(read).await?;
        let is_known = |at: usize| {
            let sights: Vec<&Sight<Job>> = theirs.iter().map(|kept| &kept[at].1.sight).collect();
            known(self.quorum, &sights, now_us).is_some()
        };
        let differing = (0..keys.len()).filter(|at| !is_known(*at)).map(|at| keys[at].clone());
        let settle = |key: Vec<u8>| async move {
            Ok::<_, Failed>(match self.settle_one(db, &key).await? {
                Settled::Gift(_) => None,
                Settled::Contested(_) | Settled::Open(_) => Some(key),
            })
        };
        let settling = stream::iter(differing).map(settle).buffer_unordered(SETTLED_AT_ONCE);
        Ok(settling.try_collect::<Vec<_>>().await?.into_iter().flatten().collect())
    }

    /// Returns a source's copy of each key, and whether it has a stamp. A key without a stamp counts as promised at
    /// the floor.
    async fn kept(
        &self,
        source: &Source,
        db: u32,
        keys: &[Vec<u8>],
    ) -> Result<Vec<(bool, Kept)>, Failed> {
        let (mark, kept) = shown(&source.errand, db, keys).await?;
        self.require_proof(source, mark.as_ref(), db)?;
        let floor = mark.map(|mark| mark.tail.floor).unwrap_or_default();
        let floor = Ballot { epoch: 0, counter: floor, worker: u64::MAX };
        let floor = if floor.counter == 0 { Ballot::NONE } else { floor };
        let or_floor = |kept: Option<Kept>| {
            let state = State::default();
            let sight = Sight { state, floor, is_gone: false, lease: None, flush: 0 };
            (kept.is_some(), kept.unwrap_or(Kept { promised: floor, sight }))
        };
        Ok(kept.into_iter().map(or_floor).collect())
    }

    /// Fetches the values of living registers. Removes from `gifts` those whose value no source holds any more, and
    /// returns their keys.
    async fn fetch_values(
        &self,
        db: u32,
        gifts: &mut Vec<Gift>,
        now_us: u64,
    ) -> Result<Vec<Vec<u8>>, Failed> {
        let stays = |gift: &&mut Gift| gift.given.state.stays(now_us);
        let mut wanted: Vec<&mut Gift> = gifts.iter_mut().filter(stays).collect();
        for source in &self.sources {
            while !wanted.is_empty() {
                let asked: Vec<_> =
                    wanted.iter().map(|gift| (&gift.key[..], gift.given.state.accepted)).collect();
                let (mark, held) = held(&source.errand, db, &asked).await?;
                self.require_proof(source, mark.as_ref(), db)?;
                let is_cut_off = held.contains(&Held::Later);
                for (gift, held) in wanted.iter_mut().zip(held) {
                    if let Held::Here(dump) = held {
                        gift.dump = Some(dump);
                    }
                }
                wanted.retain(|gift| gift.dump.is_none());
                if !is_cut_off {
                    break;
                }
            }
        }
        let missing: Vec<Vec<u8>> = wanted.into_iter().map(|gift| gift.key.clone()).collect();
        gifts.retain(|gift| !missing.contains(&gift.key));
        Ok(missing)
    }

    /// Settles a register on which the sources differ, under a separate ballot.
    async fn settle_one(&self, db: u32, key: &[u8]) -> Result<Settled, Failed> {
        let open = || Ok(Settled::Open(key.to_vec()));
        let place = |key: &[u8]| Place { db: db as u16, key: Bytes::copy_from_slice(key) };
        let (mut keys, mut highest) = (vec![place(key)], Ballot::NONE);
        let mut early: Option<Early> = None;
        for _ in 0..ROUNDS {
            let now_us = (self.now_us)();
            let ballot = match early.take() {
                Some(early) => early.next(Ballot::NONE, now_us, self.worker),
                None => Ballot::above(highest, now_us, self.worker),
            };
            highest = ballot;
            let asked: Vec<(Place, u64)> = keys.iter().map(|key| (key.clone(), 0)).collect();
            let request = Request::Prepare(asked.clone(), ballot);
            let mut promises = Vec::new();
            for said in self.ask_all(db, &request, &ask::prepare(&asked, ballot, db as u16)).await?
            {
                match said {
                    Said::Answer(MasterAnswer::Promised(sights)) => promises.push(sights),
                    Said::Answer(MasterAnswer::Refused(refusal)) => {
                        highest = highest.max(refusal.promised);
                        Early::hear(&mut early, refusal);
                    }
                    Said::Failed(error) => return Err(refused(&error)),
                    _ => return Err(malformed().into()),
                }
            }
            // Fewer than a quorum can settle nothing; the state can only be left unknown.
            if promises.len() < self.sources.len() || promises.len() < self.quorum.needed() {
                continue;
            }
            let sights: Vec<&[Sight<Job>]> = promises.iter().map(|sights| &sights[..]).collect();
            let firsts: Vec<&Sight<Job>> = sights.iter().map(|sights| &sights[0]).collect();
            if let Some(state) = known(self.quorum, &firsts, ballot.counter) {
                let (under, now_us) = (state.accepted, ballot.counter);
                let given = Given { state, promised: ballot, lease: None };
                return self.fetch_gift(db, key, under, given, now_us).await;
            }
            match copy(self.quorum, ballot, &keys, &sights) {
                Copied::More(more) => keys.extend(more),
                Copied::Settled(states, _) => return self.adopt(db, key, ballot, states).await,
                Copied::Contested(contested) => {
                    return self.give_contested(db, key, ballot, *contested).await;
                }
            }
        }
        open()
    }

    /// Gives a register as unknown, because others keep changing or settling it.
    async fn give_unknown(&self, db: u32, key: Vec<u8>) -> Result<Settled, Failed> {
        let (keys, mut rounds) = ([key], ROUNDS);
        loop {
            rounds -= 1;
            let read = self.sources.iter().map(|source| self.kept(source, db, &keys));
            let theirs = try_join_all(read).await?;
            let kept = theirs.iter().flatten().map(|(_, kept)| kept);
            let sights: Vec<&Sight<Job>> = kept.clone().map(|kept| &kept.sight).collect();
            let promised = kept.map(|kept| kept.promised).max().unwrap_or_default();
            let unknown = unknown(&sights, (self.now_us)());
            let from = unknown.from;
            match self.give_contested(db, &keys[0], promised, unknown).await? {
                Settled::Open(_) if rounds > 0 => {}
                Settled::Open(key) => {
                    let given = Given { state: State::unknown_up_to(from), promised, lease: None };
                    return Ok(Settled::Gift(Gift { key, given, dump: None }));
                }
                settled => return Ok(settled),
            }
        }
    }

    /// Gives a state although nobody can tell whether it counts.
    async fn give_contested(
        &self,
        db: u32,
        key: &[u8],
        promised: Ballot,
        Contested { from, state, lease }: Contested<Job>,
    ) -> Result<Settled, Failed> {
        let now_us = (self.now_us)();
        let is_absent = !state.stays(now_us) && lease.is_none();
        let given = Given { state, promised, lease };
        Ok(match self.fetch_gift(db, key, from, given, now_us).await? {
            Settled::Gift(gift) if !is_absent => Settled::Contested(gift),
            settled => settled,
        })
    }

    /// Fetches the given value, which a source has accepted `under` a ballot. If no source holds it any more, the key
    /// is read again.
    async fn fetch_gift(
        &self,
        db: u32,
        key: &[u8],
        under: Ballot,
        given: Given<Job>,
        now_us: u64,
    ) -> Result<Settled, Failed> {
        let place = Place { db: db as u16, key: Bytes::copy_from_slice(key) };
        let dump = self.fetch_one(db, &place, under).await?;
        let key = key.to_vec();
        Ok(match dump.is_none() && given.state.stays(now_us) {
            true => Settled::Open(key),
            false => Settled::Gift(Gift { key, given, dump }),
        })
    }

    /// Makes a quorum of the sources adopt these states, and gives the first one to the target.
    async fn adopt(
        &self,
        db: u32,
        key: &[u8],
        ballot: Ballot,
        states: Vec<Adopted<Job>>,
    ) -> Result<Settled, Failed> {
        let next = Ballot::above(ballot, 0, self.worker);
        let state = State { open: None, ..states[0].state.clone() };
        let mut held: Vec<Option<Bytes>> = vec![None; states.len()];
        let adopt = Adopt { states, next };
        let request = Request::Adopt(adopt.clone());
        let mut adopted = vec![false; self.sources.len()];
        // Sources that have the states adopt them without receiving the values. The others get the values in a second
        // round.
        for _ in 0..2 {
            let said = self.ask_all(db, &request, &ask::adopt(&adopt, &held, db as u16)).await?;
            for (adopted, said) in adopted.iter_mut().zip(&said) {
                *adopted |= *said == Said::Answer(MasterAnswer::Adopted);
            }
            let lacks = |said: &Said| matches!(said, Said::Lacking(_));
            if !said.iter().any(lacks) {
                break;
            }
            for (held, Adopted { key, state, .. }) in held.iter_mut().zip(&adopt.states) {
                *held = self.fetch_one(db, key, state.accepted).await?;
            }
        }
        if adopted.iter().filter(|adopted| **adopted).count() < self.quorum.needed() {
            return Ok(Settled::Open(key.to_vec()));
        }
        let (under, given) = (state.accepted, Given { state, promised: next, lease: None });
        self.fetch_gift(db, key, under, given, ballot.counter).await
    }

    /// Fetches a key's value from any source that has accepted it under this ballot.
    async fn fetch_one(
        &self,
        db: u32,
        key: &Place,
        accepted: Ballot,
    ) -> Result<Option<Bytes>, Failed> {
        let words = ask::fetch_under(&[(key.clone(), accepted)], db as u16);
        for source in &self.sources {
            let frame = self.ask(source, db, &words).await?;
            if let Some(Some(dump)) = answer::fetched(&frame).and_then(|mut held| held.pop()) {
                return Ok(Some(dump));
            }
        }
        Ok(None)
    }

    async fn ask_all(
        &self,
        db: u32,
        request: &Request<Job>,
        words: &RequestWords,
    ) -> Result<Vec<Said>, Failed> {
        let ask = |source| async move {
            let frame = self.ask(source, db, words).await?;
            answer::said(request, &frame).ok_or_else(|| Failed::from(malformed()))
        };
        try_join_all(self.sources.iter().map(ask)).await
    }

    /// Asks a source, and reads its proof after the answer.
    async fn ask(&self, source: &Source, db: u32, words: &RequestWords) -> Result<Vec<u8>, Failed> {
        let mut pipe = redis::pipe();
        let (text, words) = words.script();
        pipe.cmd("EVAL").arg(text).arg(words).cmd("GET").arg(crate::catalogue::reserved::MARK);
        let (answer, mark): (Value, Value) =
            pipe.query_async(&mut source.errand.connection.clone()).await?;
        self.require_proof(source, read_mark(&mark)?.as_ref(), db)?;
        let mut frame = Vec::new();
        write_frame(&answer, &mut frame)?;
        Ok(frame)
    }

    async fn give(&self, db: u32, gifts: &[Gift], now_us: u64) -> Result<(), Failed> {
        let mut rest = gifts;
        while !rest.is_empty() {
            let mut length = 0;
            let fits = rest.iter().take_while(|gift| {
                let is_first = length == 0;
                length += gift.dump.as_ref().map_or(0, Bytes::len) + gift.key.len() + 100;
                is_first || length < AT_ONCE
            });
            let (now, later) = rest.split_at(fits.count());
            rest = later;
            let mut eval = redis::cmd("EVAL");
            eval.arg(&GIVE.text).arg(now.len());
            now.iter().for_each(|gift| _ = eval.arg(&gift.key));
            eval.arg(db).arg(self.head(db)).arg(now_us);
            for Gift { key, given, dump } in now {
                // No other proxy has this promise: no program takes the shortest path until the master is admitted.
                let promised = Ballot::above(given.promised, 0, self.worker);
                let place = Place { db: db as u16, key: Bytes::copy_from_slice(key) };
                eval.arg(&stamp::ballot(promised)).arg(stamp::write(&given.state, &place));
                eval.arg(dump.as_deref().unwrap_or_default());
                eval.arg(given.lease.as_ref().map(stamp::lease).unwrap_or_default());
            }
            self.has_changed(eval.query_async(&mut self.target.connection.clone()).await?)?;
        }
        Ok(())
    }

    async fn clear(&self, db: u32, keys: &[Vec<u8>]) -> Result<(), Failed> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut eval = redis::cmd("EVAL");
        eval.arg(&CLEAR.text).arg(keys.len()).arg(keys);
        eval.arg(db).arg(self.head(db));
        self.has_changed(eval.query_async(&mut self.target.connection.clone()).await?)
    }
}

impl Kept {
    /// Whether a master with this copy needs nothing that the others hold.
    fn is_enough(&self, state: &State<Job>, promised: Ballot, now_us: u64) -> bool {
        let is_lost = self.sight.is_gone && self.sight.state.stays(now_us);
        let has_it = self.sight.state.accepted >= state.accepted && !is_lost;
        has_it && self.promised >= promised
    }
}

/// Reads a master's mark and its copies of registers.
async fn shown(
    errand: &Errand,
    db: u32,
    keys: &[Vec<u8>],
) -> RedisResult<(Option<Mark>, Vec<Option<Kept>>)> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(&SHOW.text).arg(keys.len()).arg(keys).arg(db);
    let values: Vec<Value> = eval.query_async(&mut errand.connection.clone()).await?;
    let Some((mark, values)) = values.split_first() else { return Err(malformed()) };
    let kept = values.iter().zip(keys).map(|(value, key)| {
        let words: Vec<Value> = redis::from_redis_value_ref(value)?;
        let [promised, rest @ ..] = &words[..] else { return Ok(None) };
        let promised: Vec<u8> = redis::from_redis_value_ref(promised)?;
        let mut frame = Vec::new();
        write_frame(&Value::Array(rest.to_vec()), &mut frame)?;
        let place = Place { db: db as u16, key: Bytes::copy_from_slice(key) };
        let promised = stamp::parse_ballot(&promised).ok_or_else(malformed)?;
        let sight = answer::sight(&frame, &place).ok_or_else(malformed)?;
        Ok(Some(Kept { promised, sight }))
    });
    Ok((read_mark(mark)?, kept.collect::<RedisResult<_>>()?))
}

#[derive(PartialEq)]
enum Held {
    Here(Bytes),
    Not,
    Later,
}

/// Reads a master's mark and the values of registers that it has accepted under these ballots.
async fn held(
    errand: &Errand,
    db: u32,
    asked: &[(&[u8], Ballot)],
) -> RedisResult<(Option<Mark>, Vec<Held>)> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(&HELD.text).arg(asked.len());
    asked.iter().for_each(|(key, _)| _ = eval.arg(*key));
    eval.arg(db).arg(AT_ONCE);
    asked.iter().for_each(|(_, accepted)| _ = eval.arg(&stamp::ballot(*accepted)));
    let values: Vec<Value> = eval.query_async(&mut errand.connection.clone()).await?;
    let Some((mark, values)) = values.split_first() else { return Err(malformed()) };
    let held = values.iter().map(|value| match value {
        Value::BulkString(dump) => Held::Here(Bytes::copy_from_slice(dump)),
        Value::Int(1) => Held::Later,
        _ => Held::Not,
    });
    Ok((read_mark(mark)?, held.collect()))
}

/// Re-encodes a parsed reply as it was sent.
fn write_frame(value: &Value, out: &mut Vec<u8>) -> RedisResult<()> {
    match value {
        Value::Nil => out.extend(b"_\r\n"),
        Value::Int(number) => out.extend(format!(":{number}\r\n").bytes()),
        Value::BulkString(text) => {
            out.extend(format!("${}\r\n", text.len()).bytes());
            out.extend(text);
            out.extend(b"\r\n");
        }
        Value::Array(items) => {
            out.extend(format!("*{}\r\n", items.len()).bytes());
            items.iter().try_for_each(|item| write_frame(item, out))?;
        }
        _ => return Err(malformed()),
    }
    Ok(())
}

fn refused(error: &[u8]) -> Failed {
    let error = String::from_utf8_lossy(error).trim().to_owned();
    redis::RedisError::from((redis::ErrorKind::UnexpectedReturnType, "refused", error)).into()
}
