//! Existing keys on a page: those that a quorum shows as live registers, or as leases.
//!
//! Masters are asked one after the other, over the lanes, starting with the one that has the page. Undecided keys are
//! read like any other key, which settles them. A key stays in doubt only if masters do not answer: it is then shown.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;

use crate::decision::keyspace::reading::{Reading, Standing, Verdict, View};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::engine::Engine;
use crate::operation::read::{Question, Read};
use crate::operation::register::snapshot::{self, BEFORE, COMMANDS, FlushedBallot, Snapshot};
use crate::operation::{Kind, Operation};
use crate::resp::flat;
use crate::resp::reply::Reply;

/// A key on a page, and what masters show of it.
struct Poll {
    name: Bytes,
    reading: Reading<FlushedBallot, Bytes>,
    /// Masters with a live register.
    there: MasterSet,
}

/// Returns those of `names` that exist in this database; `holder` has shown them.
pub(super) async fn that_are_there(
    engine: &Rc<Engine>,
    db: u32,
    holder: MasterId,
    names: Vec<Bytes>,
) -> Vec<Bytes> {
    let quorum = engine.rules().quorum;
    let reading = || Reading::new(quorum, quorum.everybody());
    let poll = |name| Poll { name, reading: reading(), there: MasterSet::EMPTY };
    let mut polls: Vec<Poll> = names.into_iter().map(poll).collect();
    let others = quorum.everybody().without([holder].into_iter().collect());
    for master in std::iter::once(holder).chain(others.iter()) {
        let mut open: Vec<&mut Poll> =
            polls.iter_mut().filter(|poll| poll.reading.verdict().is_none()).collect();
        if open.is_empty() {
            break;
        }
        let looks = looks(engine, db, master, open.iter().map(|poll| &poll.name[..])).await;
        for (at, poll) in open.iter_mut().enumerate() {
            poll.hears(
                engine,
                master,
                looks.as_ref().and_then(|(flush, looks)| Some((*flush, looks.get(at)?))),
            );
        }
    }
    let are_there = join_all(polls.iter().map(|poll| is_there(engine, db, poll))).await;
    let polls = polls.into_iter().zip(are_there);
    polls.filter(|(_, is_there)| *is_there).map(|(poll, _)| poll.name).collect()
}

/// Returns what `master` shows of these keys, and its last flush before that, or `None` if it does not answer.
async fn looks<'a>(
    engine: &Engine,
    db: u32,
    master: MasterId,
    names: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Option<(u64, Vec<Snapshot>)> {
    let (mut request, parts) = (Vec::new(), BEFORE + COMMANDS * names.len());
    snapshot::begin(&mut request, names);
    snapshot::end(&mut request);
    let answer = engine.ask_aside(master, db, request, parts + 1).await?;
    let mut rest = &answer[..];
    for _ in 0..parts {
        (_, rest) = flat::split_frame(rest)?;
    }
    let replies = flat::items(rest)?;
    let (mark, replies) = replies.split_first()?;
    let looks = replies.chunks(COMMANDS).map(Snapshot::of).collect::<Option<_>>()?;
    Some((snapshot::last_flush(flat::bulk(mark))?, looks))
}

async fn is_there(engine: &Rc<Engine>, db: u32, poll: &Poll) -> bool {
    match poll.reading.without_the_silent() {
        Verdict::Plain(masters) => !masters.and(poll.there).is_empty(),
        Verdict::Lease(_) | Verdict::Undecided | Verdict::TooFew => true,
        Verdict::Contested => false,
        Verdict::Settle => exists(engine, db, &poll.name).await.unwrap_or(true),
    }
}

/// Returns whether a key exists, as any client reads it.
pub(super) async fn exists(engine: &Rc<Engine>, db: u32, key: &[u8]) -> Result<bool, Reply> {
    let kind = Kind::Read(Read::new(Question::Exists));
    let operation = Operation { db, key: key.into(), kind };
    match engine.run_now(operation).await {
        Reply::Int(count) => Ok(count > 0),
        error => Err(error),
    }
}

impl Poll {
    fn hears(&mut self, engine: &Engine, master: MasterId, look: Option<(u64, &Snapshot)>) {
        let now_us = engine.rules().unix_time.micros() as u64;
        let view = look.map(|(flush, look)| {
            let accepted = (flush, look.sight.state.accepted);
            match look.standing(now_us) {
                Standing::There => {
                    self.there.insert(master);
                    View::Plain(accepted)
                }
                Standing::Absent(None) => View::Plain(accepted),
                Standing::Absent(Some(lease)) => {
                    let token = lease.value.slice_ref(snapshot::token(&lease.value));
                    View::Lease(accepted, [&[look.kind][..], &token].concat().into())
                }
                Standing::Unclear => View::Unclear,
            }
        });
        self.reading.answer(master, view);
    }
}
