//! Reads that keep a master busy for as long as what they read is large.
//!
//! A master does one thing at a time, so while it lists a million members nobody gets its vote. All masters at the same
//! moment would leave no quorum. So the size is asked first. What is small is read as everything else is
//! ([`super::query`]); what is large, from one master after the other over the lanes, until a quorum has answered
//! alike. The others go on voting.

use std::hash::{BuildHasher, Hasher};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;

use super::aside::Asking;
use super::measure::Measure;
use super::query::Query;
use super::verdict::{self, Others, Trouble};
use super::{Kind, Operation, request};
use crate::client::outbox::Target;
use crate::client::reply::Reply;
use crate::command::table::Nothing;
use crate::master::lane::Lost;
use crate::quorum::read::{Read, Verdict};
use crate::resp3;

/// Up to so many bytes of memory on a master all are asked at once: some milliseconds at most.
const SMALL: i64 = 256 << 10;

/// Up to so many, all are asked at once if one after the other did not answer alike: it is written to all the time.
const MODERATE: i64 = 2 << 20;

/// A large reply is looked through in pieces of so many elements; in between it is the turn of others.
const ELEMENTS_AT_A_TIME: usize = 4096;

/// A read that may be large.
#[derive(Debug)]
pub struct Large {
    /// The database.
    pub db: u32,
    /// What it reads.
    pub keys: Vec<Box<[u8]>>,
    /// The client's words.
    pub request: Box<[u8]>,
    /// The reply when there is nothing.
    pub nothing: Nothing,
    /// Groups of so many elements of an array in its reply may come in any order; 0: they may not.
    pub items_each: usize,
    /// The same where the first key is a set, which `SORT` leaves in the order of each master; 0: it sorts.
    pub items_of_set: usize,
    /// Pairs are for a client that knows none: RESP2 has members and their scores one behind the other.
    pub flat: bool,
}

/// What one master said, in so many bits that two that differ do not look alike.
type Likeness = [u64; 2];

/// What the masters said, one after the other.
enum Heard {
    Agreed(Bytes),
    /// They answered, and differ.
    Differ,
    Unknown(Reply),
    /// Nobody waits any more.
    Gone,
}

impl Large {
    /// The key whose turn it is in its session.
    pub(super) fn key(&self) -> &[u8] {
        self.keys.first().map_or(b"", |key| key)
    }

    /// The reply.
    pub(super) async fn run(mut self, asking: &Asking, target: &Target) -> Reply {
        if self.items_of_set > 0 && self.is_of_set(asking).await {
            self.items_each = self.items_of_set;
        }
        if self.items_each > 0 {
            // Parts of what has no order may differ, which does not mean that there is nothing.
            self.nothing = Nothing::Again;
        }
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

    async fn is_of_set(&self, asking: &Asking) -> bool {
        let words = [&b"TYPE"[..], self.key()];
        let query = Query::new(request::of(words.into_iter()), Nothing::Again);
        let reply = self.ask(asking, query).await;
        matches!(reply, Reply::Raw(frame) if frame == b"+set\r\n"[..])
    }

    async fn ask_all(&self, asking: &Asking) -> Reply {
        let query = Query::new(self.request.clone(), self.nothing).unordered(self.items_each);
        self.ask(asking, query.of_many_keys(self.keys.len() != 1)).await
    }

    async fn ask(&self, asking: &Asking, query: Query) -> Reply {
        let kind = Kind::Query(Box::new(query));
        let operation = Operation { db: self.db, key: self.key().into(), kind };
        let fingerprint = asking.engine.fingerprint(self.db, self.key());
        asking.engine.run(operation, fingerprint).await
    }

    /// Masters that are asked at different moments may differ because somebody is writing; only the same answer of a
    /// quorum is one.
    async fn one_after_the_other(&self, asking: &Asking, size: i64, target: &Target) -> Reply {
        let alone = Rc::clone(&asking.client);
        let _alone = alone.acquire().await;
        target.has_read().await;
        for _ in 0..=asking.engine.rules().split_vote_retries {
            // While so many masters are busy, a quorum of others votes. Who has waited so long may be answered soon, and
            // only so many hold what one master has said.
            let Some(busy) = asking.busy.acquire(target).await else { return Reply::Nil };
            let heard = self.heard(asking, target).await;
            drop(busy);
            match heard {
                Heard::Agreed(reply) => return Reply::Raw(reply),
                Heard::Unknown(error) => return error,
                Heard::Gone => return Reply::Nil,
                Heard::Differ if size <= MODERATE => return self.ask_all(asking).await,
                Heard::Differ => {}
            }
        }
        verdict::changes_all_the_time()
    }

    async fn heard(&self, asking: &Asking, target: &Target) -> Heard {
        let rules = asking.engine.rules();
        if let Some(reply) = asking.engine.lacks_quorum() {
            return Heard::Unknown(reply);
        }
        let mut votes = Read::new(rules.quorum, rules.quorum.everybody());
        let (mut replies, mut trouble) = (Vec::new(), Trouble::default());
        let states = [(); 2].map(|()| foldhash::quality::RandomState::default());
        for master in asking.engine.least_busy_first() {
            target.look_for_client().await;
            if target.is_closed() {
                return Heard::Gone;
            }
            let request = self.request.to_vec();
            let answer = match asking.engine.ask_large_aside(master, self.db, request).await {
                // It is still at it. With another one there might be no quorum.
                Err(Lost::TimedOut) => return Heard::Unknown(verdict::too_large_to_read()),
                Err(Lost::Unreachable) => None,
                Ok(answer) => Some(answer).filter(|answer| is_an_answer(answer, &mut trouble)),
            };
            let Some(answer) = answer else {
                votes.unknown(master);
                continue;
            };
            target.hold(answer.len());
            let likeness = self.likeness(&states, &answer).await;
            if !replies.iter().any(|(known, _)| *known == likeness) {
                replies.push((likeness, answer));
            }
            let verdict = votes.value(master, |known| *known == likeness, || likeness);
            if let Some(Verdict::Agreed(agreed, _)) = verdict {
                let mut alike = replies.iter().filter(|(known, _)| known == agreed);
                return alike
                    .next()
                    .map_or(Heard::Differ, |(_, reply)| Heard::Agreed(reply.clone()));
            }
        }
        if votes.quorum_answered() {
            return Heard::Differ;
        }
        Heard::Unknown(trouble.unavailable(rules, votes.answered(), Others::Gone))
    }

    /// Members and pairs without an order are added up, so that none of them need be sorted.
    async fn likeness(
        &self,
        states: &[foldhash::quality::RandomState; 2],
        reply: &[u8],
    ) -> Likeness {
        let group = match reply.first() {
            Some(b'~') => 1,
            Some(b'%') => 2,
            Some(b'*') => self.items_each,
            _ => 0,
        };
        if group == 0 {
            return each(states, |hasher| hasher.write(reply));
        }
        let mut elements = resp3::elements(reply);
        let header = elements.next().map_or(&b""[..], |header| header.bytes);
        let mut sum = each(states, |hasher| hasher.write(header));
        let mut looked = 0;
        loop {
            let item: Vec<&[u8]> = elements.by_ref().take(group).map(|it| it.bytes).collect();
            if item.is_empty() {
                return sum;
            }
            let of_item = each(states, |hasher| item.iter().for_each(|it| hasher.write(it)));
            sum = [0, 1].map(|half: usize| sum[half].wrapping_add(of_item[half]));
            looked += 1;
            if looked % ELEMENTS_AT_A_TIME == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

fn each(
    states: &[foldhash::quality::RandomState; 2],
    mut write: impl FnMut(&mut foldhash::quality::FoldHasher<'_>),
) -> Likeness {
    [&states[0], &states[1]].map(|state| {
        let mut hasher = state.build_hasher();
        write(&mut hasher);
        hasher.finish()
    })
}

/// An array of pairs as one of what is in them.
fn flattened(pairs: &Bytes) -> Bytes {
    let is_pair = |element: &resp3::Element<'_>| element.bytes == b"*2\r\n";
    let count = resp3::elements(pairs).skip(1).filter(is_pair).count();
    if count == 0 {
        return pairs.clone();
    }
    let mut flat = format!("*{}\r\n", 2 * count).into_bytes();
    flat.reserve(pairs.len());
    for element in resp3::elements(pairs).skip(1).filter(|element| !is_pair(element)) {
        flat.extend_from_slice(element.bytes);
    }
    flat.into()
}

fn is_an_answer(answer: &[u8], trouble: &mut Trouble) -> bool {
    let Some(error) = answer.strip_prefix(b"-") else { return true };
    let is_reply = verdict::is_reply(error);
    if !is_reply {
        trouble.remember(error.trim_ascii_end());
    }
    is_reply
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn are_alike(items_each: usize, one: &str, other: &str) -> bool {
        let large = Large {
            db: 0,
            keys: Vec::new(),
            request: Box::default(),
            nothing: Nothing::List,
            items_each,
            items_of_set: 0,
            flat: false,
        };
        let states = [(); 2].map(|()| foldhash::quality::RandomState::default());
        let likeness = large.likeness(&states, one.as_bytes()).await;
        likeness == large.likeness(&states, other.as_bytes()).await
    }

    #[test]
    fn pairs_are_flat_for_a_client_that_knows_none() {
        let flat = |frame: &'static str| flattened(&Bytes::from(frame));
        let pairs = "*2\r\n*2\r\n$1\r\na\r\n,1\r\n*2\r\n$4\r\n*2\r\n\r\n,2\r\n";
        assert_eq!(flat(pairs), "*4\r\n$1\r\na\r\n,1\r\n$4\r\n*2\r\n\r\n,2\r\n");
        assert_eq!(flat("*0\r\n"), "*0\r\n");
        assert_eq!(flat("-WRONGTYPE x\r\n"), "-WRONGTYPE x\r\n");
    }

    #[tokio::test]
    async fn members_and_pairs_have_no_order_and_lists_have() {
        assert!(are_alike(0, "~2\r\n+a\r\n+b\r\n", "~2\r\n+b\r\n+a\r\n").await);
        assert!(!are_alike(0, "~2\r\n+a\r\n+b\r\n", "~2\r\n+b\r\n+c\r\n").await);
        let (one, other) = ("%2\r\n+a\r\n+1\r\n+b\r\n+2\r\n", "%2\r\n+b\r\n+2\r\n+a\r\n+1\r\n");
        assert!(are_alike(0, one, other).await);
        assert!(!are_alike(0, one, "%2\r\n+a\r\n+2\r\n+b\r\n+1\r\n").await, "pairs stay pairs");
        assert!(!are_alike(0, "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n").await);
        assert!(are_alike(1, "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n").await);
        assert!(!are_alike(0, "~1\r\n+a\r\n", "*1\r\n+a\r\n").await);
    }
}
