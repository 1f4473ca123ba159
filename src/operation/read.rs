//! Reading a key: the value, or something about it, of the register or the lease that a quorum shows
//! ([`crate::decision::keyspace::reading`]). What is not decided is settled by running the command as a program.

use bytes::Bytes;

use super::Asked;
use super::Kind;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::program::{Program, Rendering};
use super::register::snapshot::{self, FlushedBallot, Snapshot};
use super::request::Form;
use super::request::{self, Number};
use super::value_range::ValueRange;
use super::verdict::{Discarded, Trouble};
use super::{Next, Received, Rules, Then, settled_read};
use crate::client::outbox::Order;
use crate::decision::keyspace::reading::{Reading, Standing, Verdict, View};
use crate::decision::quorum::read::{comparable_ttl_ms, guaranteed_ttl_ms};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::lua::keyspace::SLACK_MS;
use crate::metrics;
use crate::resp::answer::Answer;
use crate::resp::flat;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// What the client wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// `GET`
    Value,
    /// `MGET`: as `GET`, but another type is nil.
    ValueOrNil,
    /// `GETRANGE`.
    Range(ValueRange),
    /// `STRLEN`
    Length,
    /// `EXISTS`, `TOUCH`
    Exists,
    /// `TYPE`
    Type,
    /// `TTL`, `PTTL`
    Remaining(TtlUnit),
    /// `EXPIRETIME`, `PEXPIRETIME`
    End(TtlUnit),
}

/// A unit of time in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlUnit {
    /// Seconds, rounded as Redis does.
    Seconds,
    /// Milliseconds.
    Millis,
}

/// What one master has under a key, as far as a reply is made of it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Its type, as stamps abbreviate it.
    kind: u8,
    /// The value, where that is asked for: a string less its tag.
    pub(super) value: Bytes,
    /// When it ends.
    end: End,
}

/// What one master shows of a key, and has there.
pub(super) type Seen = (View<FlushedBallot, Bytes>, Option<Held>);

#[derive(Clone, Copy, Debug)]
enum End {
    /// Of a register: Unix time in milliseconds at which masters clean it up; -1: never.
    Clean(i64),
    /// Of a lease: what remains on this master in milliseconds; -1: for ever.
    Left(i64),
}

/// How far apart, in milliseconds, masters may end a lease that the same commands gave its end: each counts from when
/// it executed them.
const SAME_END_MS: i64 = 100;

/// A read.
#[derive(Debug)]
pub struct Read {
    question: Question,
    reading: Option<Reading<FlushedBallot, Bytes>>,
    /// What each master has that has anything.
    held: Vec<(MasterId, Held)>,
    /// How often it has been read in vain.
    tried: u8,
    discarded: Discarded,
    trouble: Trouble,
}

/// What comes of an answer to who reads.
#[derive(Debug)]
pub(super) enum Looked {
    /// This.
    Next(Next),
    /// It is run as a program.
    Settle(Box<Program>),
}

impl Looked {
    pub(super) const WAIT: Self = Self::Next(Next::WAIT);
}

/// A read that takes more than to look goes on as a program.
impl From<Looked> for Next {
    fn from(looked: Looked) -> Self {
        match looked {
            Looked::Next(next) => next,
            Looked::Settle(program) => Self::go_on_as(Kind::Program(program)),
        }
    }
}

/// The rounds of a read are counted down from here, those of the program that it may become up from 1.
pub(super) fn round(tried: u8) -> u8 {
    u8::MAX - tried
}

/// How often what differs is read again before it is settled: mostly a program is on its way just then. Where a master is
/// silent, that has taken long enough.
pub(super) const LOOKS_AGAIN: u8 = 1;

/// How often several keys are looked at that somebody writes all the time, until a program reads them.
pub(super) const MOST_LOOKS: u8 = 4;

impl Read {
    /// A read that nobody was asked for yet.
    pub fn new(question: Question) -> Self {
        Self {
            question,
            reading: None,
            held: Vec::new(),
            tried: 0,
            discarded: Discarded::default(),
            trouble: Trouble::default(),
        }
    }

    fn looked(&mut self, rules: &Rules, key: &[u8], received: Received<'_>) -> Looked {
        let Received { master, answer, raw, .. } = received;
        if received.round != self.round() {
            return Looked::WAIT;
        }
        if self.discarded.notes(rules, master, answer) {
            return Looked::Settle(self.program(rules, key));
        }
        if let Some(Answer::Error(error)) = answer {
            self.trouble.remember(error);
        }
        let seen = answer.and_then(|_| self.seen(raw, rules.unix_time.micros() as u64));
        let Some(reading) = &mut self.reading else { return Looked::WAIT };
        let (view, held) = seen.unzip();
        self.held.extend(held.flatten().map(|held| (master, held)));
        match reading.answer(master, view) {
            None => Looked::WAIT,
            Some(Verdict::Lease(holders)) if !self.agrees_on_the_end(holders) => Looked::WAIT,
            Some(verdict) => self.decided(rules, key, verdict),
        }
    }

    /// Who is silent is waited for if there is no quorum without it, or, once it is not read again, if it would decide
    /// which lease has one.
    fn waited(&mut self, rules: &Rules, key: &[u8], is_last: bool) -> Looked {
        let Some(reading) = &self.reading else { return Looked::WAIT };
        match reading.without_the_silent() {
            Verdict::TooFew if !is_last => Looked::WAIT,
            Verdict::Undecided if !is_last && !rules.may_try_again(self.tried) => Looked::WAIT,
            verdict => self.decided(rules, key, verdict),
        }
    }

    /// What a master shows; `None`: nothing that counts.
    fn seen(&self, raw: &[u8], now_us: u64) -> Option<Seen> {
        let replies = flat::items(raw)?;
        if self.question.is_of_string() {
            let [value, stamp, mark] = replies[..] else { return None };
            let flush = snapshot::last_flush(flat::bulk(mark))?;
            return Some(string_seen(flush, flat::bulk(value), flat::bulk(stamp), now_us));
        }
        let (mark, replies) = replies.split_first()?;
        let (left, replies) = replies.split_last()?;
        let look = Snapshot::of(replies)?;
        let flush = snapshot::last_flush(flat::bulk(mark))?;
        Some(seen(flush, &look, flat::int(left)?, now_us))
    }

    fn decided(&mut self, rules: &Rules, key: &[u8], verdict: Verdict) -> Looked {
        let reply = match verdict {
            Verdict::Plain(masters) | Verdict::Lease(masters) => match self.held_by(masters).next()
            {
                None => self.question.nothing(),
                // All types that Redis 7.0 has not are one here: masters know its name.
                Some(held) if held.kind == b'?' && self.question == Question::Type => {
                    return Looked::Settle(self.program(rules, key));
                }
                Some(held) => self.question.something(rules, held, self.left_ms(rules, masters)),
            },
            // A lock that changes hands must not be seen absent in between.
            Verdict::Contested | Verdict::Undecided if rules.may_try_again(self.tried) => {
                return self.again();
            }
            Verdict::Contested => self.question.nothing(),
            Verdict::Settle if self.tried < LOOKS_AGAIN && self.is_complete() => {
                return self.again();
            }
            Verdict::Settle => return Looked::Settle(self.program(rules, key)),
            Verdict::Undecided | Verdict::TooFew => self.undecided(rules),
        };
        self.reading = None;
        Looked::Next(Next::reply(reply))
    }

    fn is_complete(&self) -> bool {
        self.reading.as_ref().is_none_or(Reading::is_complete)
    }

    fn again(&mut self) -> Looked {
        (self.tried, self.reading) = (self.tried + 1, None);
        Looked::Next(Next::then(Then::Pause))
    }

    fn undecided(&self, rules: &Rules) -> Reply {
        self.trouble.undecided(rules, self.reading.as_ref().map_or(0, Reading::answered))
    }

    /// The command as a program.
    fn program(&self, rules: &Rules, key: &[u8]) -> Box<Program> {
        use Question as Q;
        let mut numbers = [Number::default(), Number::default()];
        let mut words: Vec<&[u8]> = vec![self.question.verb(), key];
        if let Q::Range(range) = self.question {
            let [start, end] = &mut numbers;
            words.extend([start.digits(range.start()), end.digits(range.end())]);
        }
        let is_lenient = self.question == Q::ValueOrNil;
        let rendering = if is_lenient { Rendering::OwnOrNil } else { Rendering::Own };
        settled_read::program(rules, std::iter::once(key), words.into_iter(), rendering)
    }

    fn held_by(&self, masters: MasterSet) -> impl Iterator<Item = &Held> {
        let held = self.held.iter().filter(move |(master, _)| masters.contains(*master));
        held.map(|(_, held)| held)
    }

    fn left_on(&self, masters: MasterSet) -> impl Iterator<Item = i64> {
        self.held_by(masters).filter_map(|held| match held.end {
            End::Left(left_ms) => Some(left_ms),
            End::Clean(_) => None,
        })
    }

    /// Whether another answer cannot turn out that a quorum keeps a lease for longer. One of the first may be of a
    /// master that is late with what a quorum has already executed.
    fn agrees_on_the_end(&self, holders: MasterSet) -> bool {
        let is_asked = matches!(self.question, Question::Remaining(_) | Question::End(_));
        let left = || self.left_on(holders).map(comparable_ttl_ms);
        let apart = left().min().zip(left().max()).map_or(0, |(least, most)| most - least);
        !is_asked || self.is_complete() || apart <= SAME_END_MS
    }

    /// What is left of it, pad included; -1: it never ends.
    fn left_ms(&self, rules: &Rules, masters: MasterSet) -> i64 {
        match self.held_by(masters).next().map(|held| held.end) {
            Some(End::Clean(clean_ms)) if clean_ms < 0 => -1,
            Some(End::Clean(clean_ms)) => {
                (clean_ms - SLACK_MS as i64).saturating_sub(rules.unix_time.ms()).max(0)
            }
            _ => guaranteed_ttl_ms(rules.quorum, self.left_on(masters)),
        }
    }
}

impl Behaviour for Read {
    fn order(&self) -> Order {
        Order::Read
    }

    fn question(&self) -> metrics::QuestionKind {
        metrics::QuestionKind::Read
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, .. } = on;
        let asked = asked.voters;
        self.reading = Some(Reading::new(rules.quorum, asked));
        self.discarded = Discarded::default();
        self.held.clear();
    }

    fn encode(&self, on: On<'_>, _: Form, out: &mut Vec<u8>) {
        let On { key, .. } = on;
        if self.question.is_of_string() {
            return snapshot::strings(out, std::iter::once(key));
        }
        snapshot::begin(out, std::iter::once(key));
        request::encode(out, &[b"PTTL", key]);
        snapshot::end(out);
    }

    /// How many replies come before the one that counts.
    fn parts(&self) -> usize {
        if self.question.is_of_string() { 0 } else { snapshot::BEFORE + snapshot::COMMANDS + 1 }
    }

    fn round(&self) -> u8 {
        round(self.tried)
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        self.looked(on.rules, on.key, received).into()
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        self.waited(on.rules, on.key, is_last).into()
    }
}

/// What a master shows of a key, whatever its type. `left_ms` is what remains of a lease.
pub(super) fn seen(flush: u64, look: &Snapshot, left_ms: i64, now_us: u64) -> Seen {
    let (accepted, kind) = ((flush, look.sight.state.accepted), look.kind);
    let held = |end| Some(Held { kind, value: Bytes::new(), end });
    match look.standing(now_us) {
        Standing::There => {
            let clean_ms = look.sight.state.value.clean_ms;
            (View::Plain(accepted), held(End::Clean(clean_ms)))
        }
        Standing::Absent(None) => (View::Plain(accepted), None),
        Standing::Absent(Some(lease)) => {
            let token = lease.value.slice_ref(snapshot::token(&lease.value));
            // Something of another type has no value here.
            let name = [&[kind][..], &token].concat();
            (View::Lease(accepted, name.into()), held(End::Left(left_ms)))
        }
        Standing::Unclear => (View::Unclear, None),
    }
}

/// What a master shows of a string.
pub(super) fn string_seen(
    flush: u64,
    value: Option<&[u8]>,
    stamp: Option<&[u8]>,
    now_us: u64,
) -> Seen {
    let (accepted, _, standing) = snapshot::of_string(value, stamp, now_us);
    let accepted = (flush, accepted);
    let value = value.unwrap_or_default();
    let held = |value: Bytes| Some(Held { kind: b's', value, end: End::Left(-1) });
    match standing {
        Standing::There => (View::Plain(accepted), held(Bytes::copy_from_slice(value))),
        Standing::Absent(None) => (View::Plain(accepted), None),
        Standing::Absent(Some(())) => {
            let token = Bytes::copy_from_slice(snapshot::token(value));
            (View::Lease(accepted, token.clone()), held(token))
        }
        Standing::Unclear => (View::Unclear, None),
    }
}

impl Question {
    /// Whether it is about what a string holds.
    fn is_of_string(self) -> bool {
        matches!(self, Self::Value | Self::ValueOrNil | Self::Range(_) | Self::Length)
    }

    fn verb(self) -> &'static [u8] {
        match self {
            Self::Value | Self::ValueOrNil => b"GET",
            Self::Range(_) => b"GETRANGE",
            Self::Length => b"STRLEN",
            Self::Exists => b"EXISTS",
            Self::Type => b"TYPE",
            Self::Remaining(TtlUnit::Seconds) => b"TTL",
            Self::Remaining(TtlUnit::Millis) => b"PTTL",
            Self::End(TtlUnit::Seconds) => b"EXPIRETIME",
            Self::End(TtlUnit::Millis) => b"PEXPIRETIME",
        }
    }

    fn nothing(self) -> Reply {
        match self {
            Self::Value | Self::ValueOrNil => Reply::Nil,
            Self::Range(..) => Reply::bulk(Bytes::new()),
            Self::Length | Self::Exists => Reply::Int(0),
            Self::Type => Reply::Simple("none"),
            Self::Remaining(_) | Self::End(_) => Reply::Int(-2),
        }
    }

    fn something(self, rules: &Rules, held: &Held, left_ms: i64) -> Reply {
        let value = &held.value;
        match self {
            Self::Exists => Reply::Int(1),
            Self::Type => Reply::Simple(type_name(held.kind)),
            Self::Remaining(_) | Self::End(_) if left_ms < 0 => Reply::Int(-1),
            Self::Remaining(unit) => Reply::Int(unit.remaining(rules.pad.unpad(left_ms))),
            Self::End(unit) => {
                let left_ms = rules.pad.unpad(left_ms);
                Reply::Int(unit.end(rules.unix_time.ms().saturating_add(left_ms)))
            }
            Self::Value | Self::ValueOrNil => Reply::bulk(value.clone()),
            Self::Range(range) => Reply::bulk(value.slice_ref(range.of(value))),
            Self::Length => Reply::Int(value.len() as i64),
        }
    }
}

impl TtlUnit {
    /// `TTL` rounds to the nearest second (`expire.c`, `ttlGenericCommand`).
    fn remaining(self, ms: i64) -> i64 {
        match self {
            Self::Seconds => ms.saturating_add(500) / 1000,
            Self::Millis => ms,
        }
    }

    fn end(self, unix_ms: i64) -> i64 {
        self.remaining(unix_ms)
    }
}

/// The types Redis has, as words that live for ever.
fn type_name(kind: u8) -> &'static str {
    match kind {
        b's' => "string",
        b'l' => "list",
        b'e' => "set",
        b'z' => "zset",
        b'h' => "hash",
        b'x' => "stream",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither has the key, and one may have had it before a flush that the other has missed.
    #[test]
    fn what_masters_show_after_different_flushes_does_not_go_together() {
        let view = |flush| string_seen(flush, None, None, 0).0;
        assert_eq!(view(7), view(7));
        assert_ne!(view(7), view(8));
    }
}
