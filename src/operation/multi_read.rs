//! Reading several keys at one moment (`MGET`, `EXISTS`, `TOUCH`).
//!
//! Each key's value is the one that a quorum shows, as in [`super::read`]. For registers, only values shown by two
//! looks in a row, or by all masters, count ([`Moment`]). A lease counts by itself.

use std::collections::HashMap;

use bytes::Bytes;

use super::Asked;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::program::{Program, Rendering};
use super::read::{self, Held, LOOKS_AGAIN, Looked, MOST_LOOKS, Seen, may_look_again, round};
use super::register::snapshot::{self, BEFORE, COMMANDS, FlushedBallot, Snapshot};
use super::request::Form;
use super::verdict::{Discarded, Trouble};
use super::{Next, Received, Rules, Then, settled_read};
use crate::client::outbox::Order;
use crate::decision::keyspace::reading::{Moment, Reading, Verdict};
use crate::decision::quorum::MasterId;
use crate::metrics;
use crate::resp::answer::Answer;
use crate::resp::flat;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// The client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// `MGET`: the strings.
    Values,
    /// `EXISTS`, `TOUCH`: the number of keys that exist.
    Count,
}

/// A read of several keys.
#[derive(Debug)]
pub struct Several {
    question: Question,
    /// The keys, without duplicates.
    keys: Box<[Box<[u8]>]>,
    /// For each word of the client, the index of its key.
    named: Box<[usize]>,
    readings: Vec<Reading<FlushedBallot, Bytes>>,
    /// Each master's value of each key.
    held: Vec<(MasterId, Vec<Option<Held>>)>,
    moment: Moment<Vec<Option<FlushedBallot>>>,
    /// Whether members have yet to vote.
    may_grow: bool,
    /// Number of inconclusive reads.
    tried: u8,
    discarded: Discarded,
    trouble: Trouble,
}

impl Several {
    /// Creates a read of these keys that has not been sent yet.
    pub fn new<'a>(question: Question, words: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut keys, mut places) = (Vec::<Box<[u8]>>::new(), HashMap::new());
        let place = |word: &'a [u8]| {
            *places.entry(word).or_insert_with(|| {
                keys.push(word.into());
                keys.len() - 1
            })
        };
        let named = words.map(place).collect();
        Self {
            question,
            keys: keys.into(),
            named,
            readings: Vec::new(),
            held: Vec::new(),
            moment: Moment::NONE,
            may_grow: false,
            tried: 0,
            discarded: Discarded::default(),
            trouble: Trouble::default(),
        }
    }

    fn looked(&mut self, rules: &Rules, received: Received<'_>) -> Looked {
        let Received { master, answer, raw, .. } = received;
        if received.round != self.round() || self.readings.is_empty() {
            return Looked::WAIT;
        }
        if self.discarded.notes(rules, master, answer) {
            return Looked::Settle(self.program(rules));
        }
        if let Some(Answer::Error(error)) = answer {
            self.trouble.remember(error);
        }
        let seen = answer.and_then(|_| self.seen(raw, rules.unix_time.micros() as u64));
        let (views, held): (Vec<_>, Vec<_>) = seen.into_iter().flatten().unzip();
        let mut views = views.into_iter().map(Some).chain(std::iter::repeat(None));
        for (reading, view) in self.readings.iter_mut().zip(&mut views) {
            reading.answer(master, view);
        }
        self.held.push((master, held));
        let verdicts: Option<Vec<Verdict>> = self.readings.iter().map(Reading::verdict).collect();
        match verdicts {
            Some(verdicts) if !self.waits_for_members(rules, &verdicts) => {
                self.decided(rules, &verdicts)
            }
            _ => Looked::WAIT,
        }
    }

    fn waits_for_members(&self, rules: &Rules, verdicts: &[Verdict]) -> bool {
        let is_passing = |it: &Verdict| !matches!(it, Verdict::TooFew | Verdict::Settle);
        verdicts.contains(&Verdict::Undecided)
            && verdicts.iter().all(is_passing)
            && read::waits_for_members(rules, self.may_grow, self.tried)
    }

    /// Waits for silent masters like a read of a single key.
    fn waited(&mut self, rules: &Rules, is_last: bool) -> Looked {
        if self.readings.is_empty() {
            return Looked::WAIT;
        }
        let verdicts: Vec<_> = self.readings.iter().map(Reading::without_the_silent).collect();
        if !is_last && self.waits_for_members(rules, &verdicts) {
            return self.again(Then::Pause);
        }
        let waits = |verdict: &Verdict| match verdict {
            Verdict::TooFew => !is_last,
            Verdict::Undecided => !is_last && !rules.may_try_again(self.tried),
            _ => false,
        };
        if verdicts.iter().any(waits) { Looked::WAIT } else { self.decided(rules, &verdicts) }
    }

    /// Returns what a master shows of each key, or `None` if the answer does not count.
    fn seen(&self, raw: &[u8], now_us: u64) -> Option<Vec<Seen>> {
        let replies = flat::items(raw)?;
        match self.question {
            Question::Values => {
                let (mark, strings) = replies.split_last()?;
                let flush = snapshot::last_flush(flat::bulk(mark))?;
                let seen = |of: &[&[u8]]| {
                    read::string_seen(flush, flat::bulk(of[0]), flat::bulk(of[1]), now_us)
                };
                let (each, rest) = strings.as_chunks::<2>();
                (each.len() == self.keys.len() && rest.is_empty())
                    .then(|| each.iter().map(|of| seen(of)).collect())
            }
            Question::Count => {
                let (mark, shown) = replies.split_first()?;
                let flush = snapshot::last_flush(flat::bulk(mark))?;
                let seen = |of: &[&[u8]]| Some(read::seen(flush, &Snapshot::of(of)?, -1, now_us));
                shown.chunks(COMMANDS).map(seen).collect()
            }
        }
    }

    fn decided(&mut self, rules: &Rules, verdicts: &[Verdict]) -> Looked {
        let any = |wanted: fn(&Verdict) -> bool| verdicts.iter().any(wanted);
        let is_complete = self.readings.iter().all(Reading::is_complete);
        match () {
            () if any(|it| matches!(it, Verdict::TooFew)) => {
                match may_look_again(is_complete, &self.trouble, self.tried) {
                    true => self.again(Then::Pause),
                    false => Looked::Next(Next::reply(self.undecided(rules))),
                }
            }
            () if any(|it| matches!(it, Verdict::Settle)) => {
                match self.tried < LOOKS_AGAIN && is_complete {
                    true => self.again(Then::Pause),
                    false => Looked::Settle(self.program(rules)),
                }
            }
            // A lock that changes hands must not appear absent in between.
            () if any(|it| matches!(it, Verdict::Contested | Verdict::Undecided))
                && rules.may_try_again(self.tried) =>
            {
                self.again(Then::Pause)
            }
            () if any(|it| matches!(it, Verdict::Undecided)) => {
                Looked::Next(Next::reply(self.undecided(rules)))
            }
            () if self.is_one_moment(rules, verdicts) => {
                let reply = self.reply(verdicts);
                self.readings.clear();
                Looked::Next(Next::reply(reply))
            }
            () if self.tried < MOST_LOOKS => self.again(Then::Ask),
            () => Looked::Settle(self.program(rules)),
        }
    }

    fn is_one_moment(&mut self, rules: &Rules, verdicts: &[Verdict]) -> bool {
        let each = || self.readings.iter().zip(verdicts);
        let shown = |(reading, verdict): (&Reading<FlushedBallot, Bytes>, &Verdict)| match verdict {
            Verdict::Plain(masters) => reading.shown_by(masters.iter().next()?).copied(),
            _ => None,
        };
        let registers: Vec<_> = each().map(shown).collect();
        let everybody = rules.quorum.everybody();
        let by_all = |verdict: &Verdict| match verdict {
            Verdict::Plain(masters) => *masters == everybody,
            _ => true,
        };
        let is_alone = registers.iter().flatten().count() < 2;
        self.moment.is_one(registers, is_alone || verdicts.iter().all(by_all))
    }

    fn reply(&self, verdicts: &[Verdict]) -> Reply {
        let held: Vec<_> = verdicts.iter().enumerate().map(|(at, it)| self.held(at, it)).collect();
        let named = self.named.iter().map(|at| held[*at]);
        match self.question {
            Question::Values => {
                let string = |held: &Held| Reply::bulk(held.value.clone());
                Reply::Array(named.map(|held| held.map_or(Reply::Nil, string)).collect())
            }
            Question::Count => Reply::Int(named.flatten().count() as i64),
        }
    }

    fn held(&self, at: usize, verdict: &Verdict) -> Option<&Held> {
        let (Verdict::Plain(masters) | Verdict::Lease(masters)) = verdict else { return None };
        let mut held = self.held.iter().filter(|(master, _)| masters.contains(*master));
        held.find_map(|(_, held)| held.get(at)?.as_ref())
    }

    fn again(&mut self, then: Then) -> Looked {
        self.tried += 1;
        self.readings.clear();
        Looked::Next(Next::then(then))
    }

    fn undecided(&self, rules: &Rules) -> Reply {
        let answered = self.readings.iter().map(Reading::answered).min();
        self.trouble.undecided(rules, answered.unwrap_or(0))
    }

    /// Returns the command as a program.
    fn program(&self, rules: &Rules) -> Box<Program> {
        let verb: &[u8] = match self.question {
            Question::Values => b"MGET",
            Question::Count => b"EXISTS",
        };
        let named = self.named.iter().map(|at| &*self.keys[*at]);
        let words = std::iter::once(verb).chain(named);
        settled_read::program(rules, self.keys.iter().map(|key| &**key), words, Rendering::AsIs)
    }
}

impl Behaviour for Several {
    fn order(&self) -> Order {
        Order::Alone
    }

    fn question(&self) -> metrics::QuestionKind {
        metrics::QuestionKind::Read
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, .. } = on;
        self.may_grow = asked.may_grow(rules);
        let new = |_| Reading::new(rules.quorum, asked.voters);
        self.readings = self.keys.iter().map(new).collect();
        self.discarded = Discarded::default();
        self.held.clear();
    }

    fn round(&self) -> u8 {
        round(self.tried)
    }

    fn encode(&self, _: On<'_>, _: Form, out: &mut Vec<u8>) {
        let keys = self.keys.iter().map(|key| &**key);
        if self.question == Question::Values {
            return snapshot::strings(out, keys);
        }
        snapshot::begin(out, keys);
        snapshot::end(out);
    }

    /// Returns how many replies precede the one that counts.
    fn parts(&self) -> usize {
        match self.question {
            Question::Values => 0,
            Question::Count => BEFORE + COMMANDS * self.keys.len(),
        }
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        self.looked(on.rules, received).into()
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        self.waited(on.rules, is_last).into()
    }
}
