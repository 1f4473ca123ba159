//! Reads that keep a master busy for a time that grows with their size.
//!
//! A master does one thing at a time, so it cannot vote while it lists a million members. If all masters did that
//! simultaneously, there would be no quorum. So the size is measured first. Small keys are read as usual
//! ([`crate::operation::verbatim_read`]). Large ones are read from one master after the other over the lanes, until a
//! quorum has given the same answer. The other masters keep voting.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;

use super::Asking;
use crate::catalogue::table::Nothing;
use crate::client::outbox::Target;
use crate::decision::keyspace::reading::{Moment, Reading, Verdict};
use crate::engine::lane::LostAnswer;
use crate::operation::memory_usage::Measure;
use crate::operation::program::Rendering;
use crate::operation::verbatim_read::{self, Query, Registers, Said};
use crate::operation::verdict::{self, Others, Trouble};
use crate::operation::{Kind, Operation, request, settled_read};
use crate::resp::reply::Reply;

use crate::resp::flat;

/// Maximum memory on a master, in bytes, at which all are asked at once: a few milliseconds at most.
const SMALL: i64 = 256 << 10;

/// Maximum memory at which all are asked at once after conflicting answers one by one, as the key is constantly written
/// to.
const MODERATE: i64 = 2 << 20;

/// A read that may be large.
#[derive(Debug)]
pub struct Large {
    /// The database.
    pub db: u32,
    /// The keys to read.
    pub keys: Vec<Box<[u8]>>,
    /// The client's words, if the command looks up keys that it does not name.
    pub request: Box<[u8]>,
    /// The client's words, if it looks up keys that it does not name.
    pub words: Option<Box<[u8]>>,
    /// The reply if there is nothing.
    pub nothing: Nothing,
    /// Whether to flatten pairs for a client without them: RESP2 lists members and scores alternately.
    pub flat: bool,
}

/// The result of asking the masters one after the other.
enum Heard {
    Agreed(Bytes, Registers),
    /// Their answers differ.
    Differ,
    /// They do not accept it as a command.
    Wrong,
    Unknown(Reply),
    /// The client has gone.
    Gone,
}

impl Large {
    /// Returns the key that counts for the order within the session.
    pub(super) fn key(&self) -> &[u8] {
        self.keys.first().map_or(b"", |key| key)
    }

    /// Returns the reply.
    pub(crate) async fn run(&self, asking: &Asking, target: &Target) -> Reply {
        let reply = match self.size(asking).await {
            Err(error) => error,
            Ok(size) if size <= SMALL => self.ask_all(asking).await,
            Ok(size) => self.one_after_the_other(asking, size, target).await,
        };
        match reply {
            Reply::Raw(frame) if self.flat => Reply::Raw(flattened(&frame)),
            reply => reply,
        }
    }

    async fn size(&self, asking: &Asking) -> Result<i64, Reply> {
        let measures = self.keys.iter().map(|key| {
            let kind = Kind::Measure(Measure::default());
            let operation = Operation { db: self.db, key: key.clone(), kind };
            let fingerprint = asking.engine.fingerprint(self.db, key);
            asking.engine.run(operation, fingerprint)
        });
        let mut sum = 0i64;
        for measured in join_all(measures).await {
            match measured {
                Reply::Int(size) => sum = sum.saturating_add(size),
                error => return Err(error),
            }
        }
        Ok(sum)
    }

    async fn ask_all(&self, asking: &Asking) -> Reply {
        let query = Query::new(self.request.clone(), self.nothing).on_keys(self.names());
        self.ask(asking, Kind::Query(Box::new(query.looking_up(self.words.clone())))).await
    }

    /// Makes a quorum agree on the keys, by a program that reads little of them.
    async fn settle(&self, asking: &Asking) {
        let words = [&b"EXISTS"[..]].into_iter().chain(self.names());
        let rules = asking.engine.rules();
        let program = settled_read::program(&rules, self.names(), words, Rendering::Own);
        self.ask(asking, Kind::Program(program)).await;
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }

    async fn ask(&self, asking: &Asking, kind: Kind) -> Reply {
        let operation = Operation { db: self.db, key: self.key().into(), kind };
        let fingerprint = asking.engine.fingerprint(self.db, self.key());
        asking.engine.run(operation, fingerprint).await
    }

    /// Reads from one master after the other. Masters asked at different moments may differ because of concurrent
    /// writes; only the same answer from a quorum counts.
    async fn one_after_the_other(&self, asking: &Asking, size: i64, target: &Target) -> Reply {
        let alone = Rc::clone(&asking.client);
        let _alone = alone.acquire().await;
        target.has_read().await;
        for _ in 0..=asking.engine.rules().split_vote_retries {
            // The limit on busy masters leaves a quorum of others that vote. A client that has waited here may soon be
            // answered, and only this many callers hold a master's answer.
            let Some(busy) = asking.busy.acquire(target).await else { return Reply::Nil };
            let heard = self.heard_at_one_moment(asking, target).await;
            drop(busy);
            match heard {
                Heard::Agreed(reply, _) => return verbatim_read::told(self.nothing, &reply),
                Heard::Unknown(error) => return error,
                Heard::Gone => return Reply::Nil,
                Heard::Wrong => return self.ask_all(asking).await,
                Heard::Differ if size <= MODERATE => return self.ask_all(asking).await,
                Heard::Differ => self.settle(asking).await,
            }
        }
        verdict::changes_all_the_time()
    }

    /// Looks at several keys twice, the first time without their contents.
    async fn heard_at_one_moment(&self, asking: &Asking, target: &Target) -> Heard {
        if self.keys.len() < 2 {
            return self.heard(&self.request, asking, target).await;
        }
        let words: Vec<_> = [&b"EXISTS"[..]].into_iter().chain(self.names()).collect();
        let look = request::of(words.into_iter());
        let mut moment = Moment::NONE;
        if let Heard::Agreed(_, shown) = self.heard(&look, asking, target).await {
            moment.is_one(shown, false);
        }
        match self.heard(&self.request, asking, target).await {
            Heard::Agreed(reply, shown) => match moment.is_one(shown.clone(), false) {
                true => Heard::Agreed(reply, shown),
                false => Heard::Differ,
            },
            heard => heard,
        }
    }

    async fn heard(&self, asked: &[u8], asking: &Asking, target: &Target) -> Heard {
        let rules = asking.engine.rules();
        if let Some(reply) = asking.engine.lacks_quorum() {
            return Heard::Unknown(reply);
        }
        let mut reading = Reading::new(rules.quorum, rules.quorum.everybody());
        let (mut replies, mut trouble, mut aborted) = (Vec::new(), Trouble::default(), 0);
        let mut request = Vec::new();
        verbatim_read::encode(self.names(), asked, &mut request);
        let parts = verbatim_read::parts(self.keys.len());
        for master in asking.engine.least_busy_first() {
            target.look_for_client().await;
            if target.is_closed() {
                return Heard::Gone;
            }
            let request = request.clone();
            let answer = asking.engine.ask_large_aside(master, self.db, request, parts + 1).await;
            let answer = match answer {
                // The master is still busy. Asking another one could leave no quorum.
                Err(LostAnswer::TimedOut) => return Heard::Unknown(verdict::too_large_to_read()),
                Err(LostAnswer::Unreachable) => None,
                Ok(answer) => last(&answer, parts),
            };
            // A master that is out of memory queues no commands either.
            if answer.as_ref().is_some_and(|answer| answer.starts_with(b"-EXECABORT")) {
                aborted += 1;
                if aborted > rules.quorum.tolerates() {
                    return Heard::Wrong;
                }
            }
            let now_us = rules.unix_time.micros() as u64;
            let said = answer.and_then(|answer| self.said(&answer, now_us, &mut trouble));
            let view = said.map(|Said { view, reply, .. }| {
                target.hold(reply.len());
                replies.push((master, reply));
                view
            });
            if let Some(Verdict::Plain(masters)) = reading.answer(master, view) {
                let mut alike = replies.into_iter().filter(|(it, _)| masters.contains(*it));
                let agreed = alike.next().and_then(|(master, reply)| {
                    let shown = reading.shown_by(master)?;
                    Some(Heard::Agreed(reply, shown.registers()))
                });
                return agreed.unwrap_or(Heard::Differ);
            }
        }
        if reading.answered() >= rules.quorum.needed() {
            return Heard::Differ;
        }
        Heard::Unknown(trouble.unavailable(&rules, reading.answered(), Others::Gone))
    }

    fn said(&self, answer: &Bytes, now_us: u64, trouble: &mut Trouble) -> Option<Said> {
        if let Some(error) = answer.strip_prefix(b"-") {
            trouble.remember(error.trim_ascii_end());
            return None;
        }
        verbatim_read::said(answer, self.keys.len(), self.words.is_some(), now_us, trouble)
    }
}

/// Returns the reply after this number of others.
fn last(replies: &Bytes, parts: usize) -> Option<Bytes> {
    let mut rest = &replies[..];
    for _ in 0..parts {
        (_, rest) = flat::split_frame(rest)?;
    }
    Some(replies.slice_ref(rest))
}

/// Flattens an array of pairs.
fn flattened(pairs: &Bytes) -> Bytes {
    let is_pair = |element: &flat::Element<'_>| element.bytes == b"*2\r\n";
    let count = flat::elements(pairs).skip(1).filter(is_pair).count();
    if count == 0 {
        return pairs.clone();
    }
    let mut flat = format!("*{}\r\n", 2 * count).into_bytes();
    flat.reserve(pairs.len());
    for element in flat::elements(pairs).skip(1).filter(|element| !is_pair(element)) {
        flat.extend_from_slice(element.bytes);
    }
    flat.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_flat_for_a_client_that_knows_none() {
        let flat = |frame: &'static str| flattened(&Bytes::from(frame));
        let pairs = "*2\r\n*2\r\n$1\r\na\r\n,1\r\n*2\r\n$4\r\n*2\r\n\r\n,2\r\n";
        assert_eq!(flat(pairs), "*4\r\n$1\r\na\r\n,1\r\n$4\r\n*2\r\n\r\n,2\r\n");
        assert_eq!(flat("*0\r\n"), "*0\r\n");
        assert_eq!(flat("-WRONGTYPE x\r\n"), "-WRONGTYPE x\r\n");
    }
}
