//! Reading something of a composite type: the reply that a quorum of masters gives.

use bytes::Bytes;

use crate::client::reply::Reply;
use crate::command::table::Nothing;
use crate::master::reply::Answer;
use crate::operation::program::{Ballot, Times};
use crate::operation::verdict::{Trouble, is_reply};
use crate::operation::{Next, Received, Rules, Then};
use crate::quorum::MasterSet;
use crate::quorum::read::{Read, Verdict};

/// A command as the client sent it, which changes nothing.
#[derive(Debug)]
pub struct Query {
    request: Box<[u8]>,
    nothing: Nothing,
    items_each: usize,
    many_keys: bool,
    votes: Option<Read<Ballot>>,
    /// How often it has been asked in vain, which is also the round.
    contested: u8,
    trouble: Trouble,
}

impl Query {
    /// A query that nobody was asked yet.
    pub fn new(request: Box<[u8]>, nothing: Nothing) -> Self {
        let (items_each, many_keys, trouble) = (0, false, Trouble::default());
        Self { request, nothing, items_each, many_keys, votes: None, contested: 0, trouble }
    }

    /// Groups of so many elements of an array in its reply may come in any order; 0: they may not.
    pub fn unordered(self, items_each: usize) -> Self {
        Self { items_each, ..self }
    }

    /// It looks at more than the key of the operation.
    pub fn of_many_keys(self, many_keys: bool) -> Self {
        Self { many_keys, ..self }
    }

    pub(super) fn has_many_keys(&self) -> bool {
        self.many_keys
    }

    pub(super) fn round(&self) -> u8 {
        self.contested
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet) {
        self.votes = Some(Read::new(rules.quorum, asked));
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let Received { master, answer, raw, .. } = received;
        let Some(votes) = &mut self.votes else { return Next::WAIT };
        if received.round != self.contested {
            return Next::WAIT;
        }
        let verdict = match answer {
            None => votes.unknown(master),
            Some(Answer::Error(error)) if !is_reply(error) => {
                self.trouble.remember(error);
                votes.unknown(master)
            }
            Some(_) => {
                let vote = Ballot::reading(raw, self.items_each);
                votes.value(master, |known| *known == vote, || vote.clone())
            }
        };
        let Some(verdict) = verdict else { return Next::WAIT };
        let reply = match verdict {
            Verdict::Agreed(vote, _) => told(self.nothing, &vote.reply),
            Verdict::Contested => return self.contested(rules),
            Verdict::Missing | Verdict::Undecided => return self.open(rules),
        };
        Next::reply(reply)
    }

    pub(super) fn deadline(&mut self, rules: &Rules, is_last: bool) -> Next {
        let Some(votes) = &mut self.votes else { return Next::WAIT };
        if !is_last && rules.waits_on(votes, self.contested) {
            return Next::WAIT;
        }
        let reply = match votes.close() {
            Verdict::Agreed(vote, _) => told(self.nothing, &vote.reply),
            Verdict::Contested => return self.contested(rules),
            Verdict::Missing | Verdict::Undecided => return self.open(rules),
        };
        Next::reply(reply)
    }

    /// Masters that answered otherwise may agree in a moment: a key expires on one after the other.
    fn open(&mut self, rules: &Rules) -> Next {
        let answered = self.votes.as_ref().is_some_and(Read::quorum_answered);
        if answered && rules.try_again(&mut self.contested) {
            return Next::then(Then::Pause);
        }
        Next::reply(self.undecided(rules))
    }

    /// Whatever is changing just now is read again; if it stays like that the key does not exist.
    fn contested(&mut self, rules: &Rules) -> Next {
        if rules.try_again(&mut self.contested) {
            return Next::then(Then::Pause);
        }
        Next::reply(match self.nothing {
            Nothing::Nil => Reply::Nil,
            Nothing::Zero => Reply::Int(0),
            Nothing::List => Reply::Array(Vec::new()),
            Nothing::Map => Reply::Map(Vec::new()),
            Nothing::Set => Reply::Set(Vec::new()),
            Nothing::Again => self.undecided(rules),
        })
    }

    fn undecided(&self, rules: &Rules) -> Reply {
        let answered = self.votes.as_ref().map_or(0, Read::answered);
        self.trouble.undecided(rules, answered)
    }
}

/// Where an array belongs, null is a null array (`XRANGE ... COUNT 0`).
fn told(nothing: Nothing, reply: &Bytes) -> Reply {
    match nothing {
        Nothing::List if &reply[..] == b"_\r\n" => Reply::NilArray,
        _ => Reply::Raw(reply.clone()),
    }
}

impl Ballot {
    /// What one master answered to a question.
    fn reading(raw: &[u8], items_each: usize) -> Self {
        let reply = Bytes::copy_from_slice(raw);
        let (times, left) = (Times::default(), Vec::new());
        Self { changed: false, reply, times, left, items_each }
    }
}
