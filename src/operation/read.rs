//! Reading a key: the value or a property of the register or lease that a quorum shows
//! ([`crate::decision::keyspace::reading`]). Undecided keys are settled by running the command as a program.

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
use crate::decision::quorum::ttl::{comparable_ttl_ms, guaranteed_ttl_ms};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::lua::keyspace::SLACK_MS;
use crate::metrics;
use crate::resp::answer::Answer;
use crate::resp::flat;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// The client's question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// `GET`
    Value,
    /// `MGET`: like `GET`, but nil for other types.
    ValueOrNil,
    /// `GETRANGE`.
    Range(Box<ValueRange>),
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

/// One master's value of a key, as far as the reply needs it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Its type, as stamps abbreviate it.
    kind: u8,
    /// The value, if requested: a string without its tag.
    pub(super) value: Bytes,
    /// When it expires.
    end: End,
}

/// One master's view of a key, and its value there.
pub(super) type Seen = (View<FlushedBallot, Bytes>, Option<Held>);

#[derive(Clone, Copy, Debug)]
enum End {
    /// Of a register: Unix time in milliseconds at which masters clean it up; -1: never.
    Clean(i64),
    /// Of a lease: remaining milliseconds on this master; -1: no expiry.
    Left(i64),
}

/// Maximum difference in milliseconds between masters' expiries of a lease set by the same commands: each master counts
/// from its own execution.
const SAME_END_MS: i64 = 100;

/// A read.
#[derive(Debug)]
pub struct Read {
    question: Question,
    reading: Option<Reading<FlushedBallot, Bytes>>,
    /// Values of the masters that have one.
    held: Vec<(MasterId, Held)>,
    /// Whether members have yet to vote.
    may_grow: bool,
    /// Number of inconclusive reads.
    tried: u8,
    discarded: Discarded,
    trouble: Trouble,
}

/// The next step of a reader.
#[derive(Debug)]
pub(super) enum Looked {
    /// A plain step.
    Next(Next),
    /// Run the read as a program.
    Settle(Box<Program>),
}

impl Looked {
    pub(super) const WAIT: Self = Self::Next(Next::WAIT);
}

/// A read that needs more than looking continues as a program.
impl From<Looked> for Next {
    fn from(looked: Looked) -> Self {
        match looked {
            Looked::Next(next) => next,
            Looked::Settle(program) => Self::go_on_as(Kind::Program(program)),
        }
    }
}

/// Returns the number of a read's round. They count down from here; those of the program that it may become count up
/// from 1.
pub(super) fn round(tried: u8) -> u8 {
    u8::MAX - tried
}

/// Maximum repetitions of a read with differing answers before settling: usually a program is just in progress. With a
/// silent master, enough time has already passed.
pub(super) const LOOKS_AGAIN: u8 = 1;

/// Maximum looks at several constantly changing keys before a program reads them, and at keys of which too few masters
/// tell.
pub(super) const MOST_LOOKS: u8 = 4;

/// Maximum looks at a key in doubt while members have yet to vote: one in each vote timeout.
const MOST_WAITS: u8 = 100;

/// Whether a read of a lease in doubt waits for members that have yet to vote, after `tried` repetitions. It looks again
/// after each vote timeout.
pub(super) fn waits_for_members(rules: &Rules, may_grow: bool, tried: u8) -> bool {
    may_grow && tried < MOST_WAITS && !rules.may_try_again(tried)
}

/// Whether a read with too few answers looks again after `tried` repetitions. If nobody is waited for and nobody has
/// refused, links were lost or answers did not go together, as when the members change.
pub(super) fn may_look_again(is_complete: bool, trouble: &Trouble, tried: u8) -> bool {
    is_complete && trouble.is_none() && tried < MOST_LOOKS
}

impl Read {
    /// Creates a read that has not been sent yet.
    pub fn new(question: Question) -> Self {
        Self {
            question,
            reading: None,
            held: Vec::new(),
            may_grow: false,
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
            Some(Verdict::Undecided) if waits_for_members(rules, self.may_grow, self.tried) => {
                Looked::WAIT
            }
            Some(verdict) => self.decided(rules, key, verdict),
        }
    }

    /// Waits for silent masters if there is no quorum without them. Once retries are exhausted, it also waits if their
    /// answers would decide which lease has a quorum.
    fn waited(&mut self, rules: &Rules, key: &[u8], is_last: bool) -> Looked {
        let Some(reading) = &self.reading else { return Looked::WAIT };
        match reading.without_the_silent() {
            Verdict::TooFew if !is_last => Looked::WAIT,
            Verdict::Undecided
                if !is_last && waits_for_members(rules, self.may_grow, self.tried) =>
            {
                self.again()
            }
            Verdict::Undecided if !is_last && !rules.may_try_again(self.tried) => Looked::WAIT,
            verdict => self.decided(rules, key, verdict),
        }
    }

    /// Returns what a master shows, or `None` if the answer does not count.
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
                // All types unknown to Redis 7.0 are one here; masters know the name.
                Some(held) if held.kind == b'?' && self.question == Question::Type => {
                    return Looked::Settle(self.program(rules, key));
                }
                Some(held) => self.question.something(rules, held, self.left_ms(rules, masters)),
            },
            // A lock that changes hands must not appear absent in between.
            Verdict::Contested | Verdict::Undecided if rules.may_try_again(self.tried) => {
                return self.again();
            }
            Verdict::TooFew if may_look_again(self.is_complete(), &self.trouble, self.tried) => {
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

    /// Returns the command as a program.
    fn program(&self, rules: &Rules, key: &[u8]) -> Box<Program> {
        use Question as Q;
        let mut numbers = [Number::default(), Number::default()];
        let mut words: Vec<&[u8]> = vec![self.question.verb(), key];
        if let Q::Range(range) = &self.question {
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

    /// Whether no further answer can show that a quorum keeps the lease for longer. One of the first answers may come
    /// from a master that lags behind commands a quorum has already executed.
    fn agrees_on_the_end(&self, holders: MasterSet) -> bool {
        let is_asked = matches!(self.question, Question::Remaining(_) | Question::End(_));
        let left = || self.left_on(holders).map(comparable_ttl_ms);
        let apart = left().min().zip(left().max()).map_or(0, |(least, most)| most - least);
        !is_asked || self.is_complete() || apart <= SAME_END_MS
    }

    /// Returns the remaining TTL, pad included; -1: no expiry.
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
        self.may_grow = asked.may_grow(rules);
        self.reading = Some(Reading::new(rules.quorum, asked.voters));
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

    /// Returns how many replies precede the one that counts.
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

/// Returns what a master shows of a key of any type. `left_ms` is the remaining TTL of a lease.
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
            // Other types have no value here.
            let name = [&[kind][..], &token].concat();
            (View::Lease(accepted, name.into()), held(End::Left(left_ms)))
        }
        Standing::Unclear => (View::Unclear, None),
    }
}

/// Returns what a master shows of a string.
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
    /// Whether the question concerns a string's value.
    fn is_of_string(&self) -> bool {
        matches!(self, Self::Value | Self::ValueOrNil | Self::Range(_) | Self::Length)
    }

    fn verb(&self) -> &'static [u8] {
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

    fn nothing(&self) -> Reply {
        match self {
            Self::Value | Self::ValueOrNil => Reply::Nil,
            Self::Range(..) => Reply::bulk(Bytes::new()),
            Self::Length | Self::Exists => Reply::Int(0),
            Self::Type => Reply::Simple("none"),
            Self::Remaining(_) | Self::End(_) => Reply::Int(-2),
        }
    }

    fn something(&self, rules: &Rules, held: &Held, left_ms: i64) -> Reply {
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

/// Returns the name of a Redis type.
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
    use crate::time::clock;

    /// Asks three masters, all of which give this answer.
    fn asked(read: &mut Read, rules: &Rules, answer: Option<&Answer<'_>>) -> Then {
        let (on, now) = (|| On::for_tests(rules), clock::now());
        read.ask(on(), Asked::for_tests(3), now);
        let mut answers = MasterSet::first(3).iter().map(|master| {
            let received = Received { master, round: read.round(), answer, raw: b"", now };
            read.received(on(), received).then
        });
        assert!(matches!(answers.next(), Some(Then::Wait)));
        assert!(matches!(answers.next(), Some(Then::Wait)));
        answers.next().expect("a step")
    }

    /// It ended with an error, although the members could decide again at once.
    #[test]
    fn a_read_whose_answers_do_not_count_asks_again_unless_it_was_refused() {
        let rules = Rules::for_tests();
        let mut read = Read::new(Question::Value);
        for _ in 0..MOST_LOOKS {
            assert!(matches!(asked(&mut read, &rules, None), Then::Pause));
        }
        assert!(matches!(asked(&mut read, &rules, None), Then::Reply(..)));
        let (mut read, refusal) = (Read::new(Question::Value), Answer::Error(b"NOPERM no"));
        assert!(matches!(asked(&mut read, &rules, Some(&refusal)), Then::Reply(..)));
    }

    /// Neither has the key, but one may have had it before a flush that the other has missed.
    #[test]
    fn what_masters_show_after_different_flushes_does_not_go_together() {
        let view = |flush| string_seen(flush, None, None, 0).0;
        assert_eq!(view(7), view(7));
        assert_ne!(view(7), view(8));
    }
}
