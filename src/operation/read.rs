//! Reading a key: the value, or something about it, that a quorum agrees on.

use bytes::Bytes;
use redis_protocol::resp3::types::BytesFrame;

use crate::client::reply::Reply;
use crate::command::options::Range;
use crate::decision::lease::attempt::{Stored, Tag};
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::claim::held_as;
use crate::operation::request::{self, Form};
use crate::operation::verdict::Trouble;
use crate::operation::{Next, Received, Rules, Then};
use crate::quorum::read::{self as decision, Verdict, comparable_ttl_ms, guaranteed_ttl_ms};
use crate::quorum::{MasterId, MasterSet, Quorum};

/// What the client wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// `GET`
    Value,
    /// `MGET`: as `GET`, but another type is nil.
    ValueOrNil,
    /// `GETRANGE`.
    Range(Range),
    /// `STRLEN`
    Length,
    /// `EXISTS`, `TOUCH`
    Exists,
    /// `TYPE`
    Type,
    /// `TTL`, `PTTL`
    Remaining(Unit),
    /// `EXPIRETIME`, `PEXPIRETIME`
    End(Unit),
}

/// A unit of time in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, rounded as Redis does.
    Seconds,
    /// Milliseconds.
    Millis,
}

/// What one master, or a majority, holds under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The type: `string`, `hash`, ...
    pub kind: Bytes,
    /// The value, if it is a string.
    pub value: Option<Bytes>,
}

impl Sighting {
    /// A string.
    pub fn string(value: Bytes) -> Self {
        Self { kind: Bytes::from_static(STRING), value: Some(value) }
    }
}

/// How far apart, in milliseconds, masters may end a key that the same commands gave its end: each counts from when
/// it executed them.
const SAME_END_MS: i64 = 100;

/// The type of strings.
const STRING: &[u8] = b"string";

/// The answers of all masters to [`Canonical::Inspect`] or `GET`.
#[derive(Debug)]
pub struct Sightings {
    decision: decision::Read<Sighting>,
    /// Remaining TTLs by master, -1 for none.
    ttls_ms: Vec<(MasterId, i64)>,
    tags: Vec<Tag>,
    quorum: Quorum,
    trouble: Trouble,
}

/// What the masters as a whole hold.
#[derive(Debug, PartialEq)]
pub enum Seen {
    /// A quorum holds this, with this remaining TTL on the masters (-1: none).
    Key(Sighting, i64),
    /// No such key.
    Missing,
    /// Neither a value nor its absence has a quorum, perhaps because it is changing just now.
    Contested,
    /// It cannot be known now; the error for the client.
    Unknown(Reply),
}

impl Sightings {
    /// Those of a read that was just sent to `asked`.
    pub fn new(quorum: Quorum, asked: MasterSet) -> Self {
        let decision = decision::Read::new(quorum, asked);
        let (ttls_ms, tags, trouble) = Default::default();
        Self { decision, ttls_ms, tags, quorum, trouble }
    }

    /// One master has answered, or will not.
    pub fn received(
        &mut self,
        rules: &Rules,
        master: MasterId,
        answer: Option<&Answer<'_>>,
    ) -> Option<Seen> {
        let verdict = match answer {
            Some(Answer::Nil) => self.decision.missing(master),
            Some(Answer::Bulk(value)) => {
                let token = Stored::decode(value).token;
                self.decision.value(
                    master,
                    |seen| seen.value.as_deref() == Some(token),
                    || Sighting::string(Bytes::copy_from_slice(token)),
                )
            }
            Some(Answer::Error(error)) if error.starts_with(b"WRONGTYPE") => self.decision.value(
                master,
                |seen| seen.value.is_none(),
                || Sighting { kind: Bytes::from_static(b"other"), value: None },
            ),
            Some(Answer::Array(parts)) => match parts.elements().and_then(|parts| sighting(&parts))
            {
                Some((found, ttl_ms, tag)) => {
                    self.ttls_ms.push((master, ttl_ms));
                    if !self.tags.contains(&tag) {
                        self.tags.push(tag);
                    }
                    self.decision.value(master, |seen| *seen == found, || found.clone())
                }
                None => self.decision.unknown(master),
            },
            Some(Answer::Error(error)) => {
                self.trouble.remember(error);
                self.decision.unknown(master)
            }
            _ => self.decision.unknown(master),
        };
        let agreed = match verdict? {
            Verdict::Agreed(found, holders) => (found.clone(), holders),
            Verdict::Missing => return Some(Seen::Missing),
            Verdict::Contested => return Some(Seen::Contested),
            Verdict::Undecided => return Some(self.unknown(rules)),
        };
        (self.decision.is_complete() || self.agree_on_the_end(agreed.1))
            .then(|| self.agreed(agreed))
    }

    /// Whether another answer cannot turn out that a quorum keeps the key for longer. One of the first may be of a
    /// master that is late with what a quorum has already executed.
    fn agree_on_the_end(&self, holders: MasterSet) -> bool {
        let least = self.ttls_ms(holders).map(comparable_ttl_ms).min();
        let most = self.ttls_ms(holders).map(comparable_ttl_ms).max();
        least.zip(most).is_none_or(|(least, most)| most - least <= SAME_END_MS)
    }

    /// The deadline has come.
    pub fn deadline(&mut self, rules: &Rules) -> Seen {
        let agreed = match self.decision.close() {
            Verdict::Agreed(found, holders) => (found.clone(), holders),
            Verdict::Missing => return Seen::Missing,
            Verdict::Contested => return Seen::Contested,
            Verdict::Undecided => return self.unknown(rules),
        };
        self.agreed(agreed)
    }

    /// Whether it is waited for masters although the vote timeout has passed; it was read `tried` times before.
    pub fn waits_on(&self, rules: &Rules, tried: u8) -> bool {
        rules.waits_on(&self.decision, tried)
    }

    /// The tags under which masters hold strings.
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// Whether enough masters answered at all. Then it may be known in a moment: a key that expires does so on
    /// one master after the other, and one that is being changed changes likewise.
    pub fn quorum_answered(&self) -> bool {
        self.decision.quorum_answered()
    }

    fn agreed(&self, (found, holders): (Sighting, MasterSet)) -> Seen {
        Seen::Key(found, guaranteed_ttl_ms(self.quorum, self.ttls_ms(holders)))
    }

    fn ttls_ms(&self, holders: MasterSet) -> impl Iterator<Item = i64> {
        let of_holders = self.ttls_ms.iter().filter(move |(master, _)| holders.contains(*master));
        of_holders.map(|(_, ttl_ms)| *ttl_ms)
    }

    fn unknown(&self, rules: &Rules) -> Seen {
        Seen::Unknown(self.trouble.undecided(rules, self.decision.answered()))
    }
}

/// `{type, value, remaining TTL, tag}`, the answer of [`Canonical::Inspect`].
fn sighting(parts: &[BytesFrame]) -> Option<(Sighting, i64, Tag)> {
    match parts {
        [
            BytesFrame::BlobString { data: kind, .. },
            value,
            BytesFrame::Number { data: ttl_ms, .. },
            tag,
        ] => {
            let text = |frame: &BytesFrame| match frame {
                BytesFrame::BlobString { data, .. } => Some(data.clone()),
                _ => None,
            };
            let tag = text(tag).map_or(Tag::NONE, |tag| held_as(&tag));
            Some((Sighting { kind: kind.clone(), value: text(value) }, *ttl_ms, tag))
        }
        _ => None,
    }
}

/// A read.
#[derive(Debug)]
pub struct Read {
    question: Question,
    sightings: Option<Sightings>,
    /// How often it has been read in vain, which is also the round.
    contested: u8,
}

impl Read {
    /// A read that nobody was asked for yet.
    pub fn new(question: Question) -> Self {
        Self { question, sightings: None, contested: 0 }
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet) {
        self.sightings = Some(Sightings::new(rules.quorum, asked));
    }

    pub(super) fn encode(&self, key: &[u8], form: Form, out: &mut Vec<u8>) {
        use Question::{Length, Range, Value, ValueOrNil};
        match self.question {
            Value | ValueOrNil | Range(..) | Length => request::encode(out, &[b"GET", key]),
            _ => request::script(out, form, Canonical::Inspect, key, &[]),
        }
    }

    pub(super) fn round(&self) -> u8 {
        self.contested
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let Some(sightings) = &mut self.sightings else { return Next::WAIT };
        if received.round != self.contested {
            return Next::WAIT;
        }
        match sightings.received(rules, received.master, received.answer) {
            None => Next::WAIT,
            Some(seen) => self.seen(rules, seen),
        }
    }

    pub(super) fn deadline(&mut self, rules: &Rules, is_last: bool) -> Next {
        let Some(sightings) = &mut self.sightings else { return Next::WAIT };
        if !is_last && sightings.waits_on(rules, self.contested) {
            return Next::WAIT;
        }
        let seen = sightings.deadline(rules);
        self.seen(rules, seen)
    }

    /// What is changing just now is read again after a pause, so that a lock that changes hands is
    /// never seen absent in between.
    fn seen(&mut self, rules: &Rules, seen: Seen) -> Next {
        let open = match seen {
            Seen::Contested => true,
            Seen::Unknown(_) => self.sightings.as_ref().is_some_and(Sightings::quorum_answered),
            Seen::Key(..) | Seen::Missing => false,
        };
        if open && rules.try_again(&mut self.contested) {
            return Next::then(Then::Pause);
        }
        Next::reply(self.question.reply(rules, seen))
    }
}

impl Question {
    fn reply(self, rules: &Rules, seen: Seen) -> Reply {
        match seen {
            Seen::Unknown(error) => error,
            Seen::Missing | Seen::Contested => self.nothing(),
            Seen::Key(found, ttl_ms) => self.something(rules, found, ttl_ms),
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

    fn something(self, rules: &Rules, found: Sighting, ttl_ms: i64) -> Reply {
        match (self, found.value) {
            (Self::Exists, _) => Reply::Int(1),
            (Self::Type, _) => Reply::Simple(type_name(&found.kind)),
            (Self::Remaining(_) | Self::End(_), _) if ttl_ms < 0 => Reply::Int(-1),
            (Self::Remaining(unit), _) => Reply::Int(unit.remaining(rules.pad.unpad(ttl_ms))),
            (Self::End(unit), _) => {
                let left_ms = rules.pad.unpad(ttl_ms);
                Reply::Int(unit.end(rules.unix_time.ms().saturating_add(left_ms)))
            }
            (Self::Value | Self::ValueOrNil, Some(value)) => Reply::bulk(value),
            (Self::Range(range), Some(value)) => Reply::bulk(value.slice_ref(range.of(&value))),
            (Self::Length, Some(value)) => Reply::Int(value.len() as i64),
            (Self::ValueOrNil, None) => Reply::Nil,
            (_, None) => crate::command::error::WRONG_TYPE,
        }
    }
}

impl Unit {
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
fn type_name(kind: &[u8]) -> &'static str {
    match kind {
        b"string" => "string",
        b"list" => "list",
        b"set" => "set",
        b"zset" => "zset",
        b"hash" => "hash",
        b"stream" => "stream",
        _ => "other",
    }
}
