//! Commands about a whole database: `KEYS`, `SCAN`, `DBSIZE`, `FLUSHDB`, `FLUSHALL`.

use std::collections::HashMap;

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;

use crate::client::reply::Reply;
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::request::{self, Form};
use crate::operation::verdict::Trouble;
use crate::operation::{Next, Received, Rules};
use crate::quorum::{MasterId, MasterSet, Quorum};

/// What the client wants.
#[derive(Clone, Debug)]
pub enum What {
    /// `KEYS pattern`: those a majority holds.
    Keys(Bytes),
    /// `SCAN` in one page: those of a majority, of one type if it is named.
    Scan {
        /// `MATCH`
        pattern: Bytes,
        /// `TYPE`
        kind: Option<Bytes>,
    },
    /// `DBSIZE`: the number of keys that at least a quorum of masters has.
    Count,
    /// `FLUSHDB` or `FLUSHALL`.
    Flush {
        /// All databases.
        all: bool,
    },
}

/// A `COUNT` that lets a master answer `SCAN` in one page.
const ONE_PAGE: &[u8] = b"1000000000";

/// A question to all masters that every one of them answers in full.
#[derive(Debug)]
pub struct Everywhere {
    what: What,
    pending: MasterSet,
    answered: MasterSet,
    holders: HashMap<Bytes, u8>,
    counts: Vec<i64>,
    done: bool,
    trouble: Trouble,
}

impl Everywhere {
    /// A question that nobody was asked yet.
    pub fn new(what: What) -> Self {
        Self {
            what,
            pending: MasterSet::EMPTY,
            answered: MasterSet::EMPTY,
            holders: HashMap::new(),
            counts: Vec::new(),
            done: false,
            trouble: Trouble::default(),
        }
    }

    pub(super) fn ask(&mut self, asked: MasterSet) {
        self.pending = asked;
    }

    pub(super) fn encode(&self, form: Form, out: &mut Vec<u8>) {
        match &self.what {
            What::Keys(pattern) => request::encode(out, &[b"KEYS", pattern]),
            What::Scan { pattern, kind: None } => {
                request::encode(out, &[b"SCAN", b"0", b"MATCH", pattern, b"COUNT", ONE_PAGE]);
            }
            What::Scan { pattern, kind: Some(kind) } => {
                let words: [&[u8]; 8] =
                    [b"SCAN", b"0", b"MATCH", pattern, b"COUNT", ONE_PAGE, b"TYPE", kind];
                request::encode(out, &words);
            }
            What::Count => request::encode(out, &[b"DBSIZE"]),
            What::Flush { all } => {
                let verb: &[u8] = if *all { b"FLUSHALL" } else { b"FLUSHDB" };
                request::script(out, form, Canonical::Flush, b"", &[verb]);
            }
        }
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        if self.done || !self.pending.contains(received.master) {
            return Next::WAIT;
        }
        self.pending.remove(received.master);
        self.count(received.master, received.answer);
        if self.pending.is_empty() { self.decided(rules) } else { Next::WAIT }
    }

    pub(super) fn deadline(&mut self, rules: &Rules) -> Next {
        if self.done { Next::WAIT } else { self.decided(rules) }
    }

    fn count(&mut self, master: MasterId, answer: Option<&Answer<'_>>) {
        match answer {
            Some(Answer::Array(parts)) => {
                let Some(parts) = parts.elements() else { return };
                let keys = match &parts[..] {
                    [_, BytesFrame::Array { data: keys, .. }] => keys,
                    _ => &parts,
                };
                for key in keys {
                    if let BytesFrame::BlobString { data: key, .. } = key {
                        *self.holders.entry(key.clone()).or_default() += 1;
                    }
                }
            }
            Some(Answer::Int(count)) => self.counts.push(*count),
            Some(Answer::Simple(_)) => {}
            Some(Answer::Error(error)) => return self.trouble.remember(error),
            _ => return,
        }
        self.answered.insert(master);
    }

    fn decided(&mut self, rules: &Rules) -> Next {
        self.done = true;
        if !rules.quorum.reached_by(self.answered) {
            return Next::reply(self.trouble.unavailable(rules, self.answered.len()));
        }
        Next::reply(match &self.what {
            What::Keys(_) => Reply::Array(self.held_by_majority(rules.quorum)),
            What::Scan { .. } => {
                let keys = Reply::Array(self.held_by_majority(rules.quorum));
                Reply::Array(vec![Reply::bulk("0"), keys])
            }
            What::Count => Reply::Int(self.common_count(rules.quorum)),
            What::Flush { .. } => Reply::OK,
        })
    }

    fn held_by_majority(&self, quorum: Quorum) -> Vec<Reply> {
        let held = self.holders.iter().filter(|(_, n)| usize::from(**n) >= quorum.needed());
        held.map(|(key, _)| Reply::bulk(key.clone())).collect()
    }

    fn common_count(&mut self, quorum: Quorum) -> i64 {
        self.counts.sort_unstable_by(|a, b| b.cmp(a));
        self.counts.get(quorum.needed() - 1).copied().unwrap_or(0)
    }
}
