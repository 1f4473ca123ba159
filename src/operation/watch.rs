//! `WATCH`: what a quorum holds under a key now, for an `EXEC` to compare.

use std::cell::RefCell;
use std::rc::Rc;

use crate::client::reply::Reply;
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::changes::Listener;
use crate::operation::request::{self, Form};
use crate::operation::verdict::Trouble;
use crate::operation::{Next, Received, Rules, Then};
use crate::quorum::MasterSet;
use crate::quorum::read::{Read, Verdict};

/// A key that a session watches.
#[derive(Debug)]
pub struct Watched {
    /// Its database.
    pub db: u32,
    /// Itself.
    pub key: Box<[u8]>,
    /// The digest of what a quorum holds; none while that is not known.
    digest: RefCell<Option<Box<[u8]>>>,
    /// Hears of changes that this worker makes, also of such that leave the digest as it was.
    changes: Listener,
}

impl Watched {
    /// A key that nobody was asked about yet.
    pub fn new(db: u32, key: &[u8], changes: Listener) -> Rc<Self> {
        Rc::new(Self { db, key: key.into(), digest: RefCell::default(), changes })
    }

    /// The digest that the key must have for `EXEC` to run; `None`: it must not run.
    pub fn expected(&self) -> Option<Box<[u8]>> {
        if self.changes.has_heard() { None } else { self.digest.borrow().clone() }
    }
}

/// A `WATCH` of one key.
#[derive(Debug)]
pub struct Watch {
    watched: Rc<Watched>,
    votes: Option<Read<Box<[u8]>>>,
    /// How often there was no majority, which is also the round.
    contested: u8,
    trouble: Trouble,
}

impl Watch {
    /// Finds out what `watched` holds.
    pub fn new(watched: Rc<Watched>) -> Self {
        Self { watched, votes: None, contested: 0, trouble: Trouble::default() }
    }

    pub(super) fn round(&self) -> u8 {
        self.contested
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet) {
        self.votes = Some(Read::new(rules.quorum, asked));
    }

    pub(super) fn encode(&self, key: &[u8], form: Form, out: &mut Vec<u8>) {
        request::script(out, form, Canonical::Digest, key, &[]);
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let Some(votes) = &mut self.votes else { return Next::WAIT };
        if received.round != self.contested {
            return Next::WAIT;
        }
        let verdict = match received.answer {
            Some(Answer::Bulk(digest)) => {
                votes.value(received.master, |known| **known == **digest, || (*digest).into())
            }
            other => {
                if let Some(Answer::Error(error)) = other {
                    self.trouble.remember(error);
                }
                votes.unknown(received.master)
            }
        };
        match verdict {
            None => Next::WAIT,
            Some(Verdict::Agreed(digest, _)) => {
                *self.watched.digest.borrow_mut() = Some(digest.clone());
                Next::reply(Reply::OK)
            }
            Some(_) => self.open(rules),
        }
    }

    pub(super) fn deadline(&mut self, rules: &Rules, is_last: bool) -> Next {
        let Some(votes) = &mut self.votes else { return Next::WAIT };
        if !is_last && rules.waits_on(votes, self.contested) {
            return Next::WAIT;
        }
        if let Verdict::Agreed(digest, _) = votes.close() {
            *self.watched.digest.borrow_mut() = Some(digest.clone());
            return Next::reply(Reply::OK);
        }
        self.open(rules)
    }

    /// Masters that answered otherwise may agree in a moment.
    fn open(&mut self, rules: &Rules) -> Next {
        let answered = self.votes.as_ref().is_some_and(Read::quorum_answered);
        if answered && rules.try_again(&mut self.contested) {
            return Next::then(Then::Pause);
        }
        let answered = self.votes.as_ref().map_or(0, Read::answered);
        Next::reply(self.trouble.undecided(rules, answered))
    }
}
