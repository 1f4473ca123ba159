//! Replacing a value: `SET` without `NX`, `GETSET`, `GETDEL`, `GETEX`, `INCR`, `APPEND`, ...
//!
//! Read what a majority holds, decide what it becomes, compare-and-set it from exactly that value.
//! What it becomes is the pure [`Update::plan`], in which each command is a single Redis's own rule.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::client::reply::Reply;
use crate::clock::{self, Instant};
use crate::command::error;
use crate::command::number::parse_i64;
use crate::decision::lease::attempt::{self, Tag};
use crate::decision::lease::holders::Holders;
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::claim::held_as;
use crate::operation::read::{Seen, Sighting, Sightings};
use crate::operation::request::{self, Expected, Form, NewTtl};
use crate::operation::verdict::{self, Others, Trouble};
use crate::operation::{Next, Owed, Received, Rules, Then};
use crate::quorum::swap::{self as decision, Step};
use crate::quorum::{Ballot, MasterId, MasterSet, turn};

/// How often a swap reads and compares before it gives up. Inside one worker swaps take turns, so
/// only other proxies interfere, and each of their successes is progress for somebody.
const TRIES: u32 = 32;

/// What becomes of the value.
#[derive(Clone, Debug)]
pub enum Update {
    /// `SET`, `SETEX`, `GETSET`, ...
    Set {
        /// The new value and its TTL on the masters; `None` when its time has already passed.
        new: Option<(Bytes, NewTtl)>,
        /// When it is set at all.
        condition: Condition,
        /// What the client gets.
        answer: Answered,
    },
    /// `GETDEL`
    Delete,
    /// `GETEX` with an option: the value stays, its TTL changes.
    Expire(NewTtl),
    /// `GETEX` with an expiry that has passed.
    ExpireNow,
    /// `GETEX` with a bad expiry, which Redis notices only when there is a value.
    Refuse(Reply),
    /// `INCR`, `DECRBY`, ...
    Add(i64),
    /// `APPEND`
    Append(Bytes),
}

/// When a `SET` takes place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// `XX`
    Exists,
    /// `NX`
    Missing,
    /// `IFEQ value`
    Equals(Bytes),
}

/// What a `SET` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// `OK`, or nil when the condition did not hold.
    Ok,
    /// The value there was (`SET ... GET`, `GETSET`).
    OldValue,
}

/// What to do, once it is known what the key holds.
#[derive(Debug, PartialEq)]
pub enum Plan {
    /// Nothing is to be changed.
    Answer(Reply),
    /// Set this value (`None` deletes the key), then answer.
    Change(Option<(Bytes, NewTtl)>, Reply),
}

impl Update {
    /// Whether it makes no difference, not even to the reply, what the key holds.
    fn is_blind(&self) -> bool {
        matches!(self, Self::Set { condition: Condition::Always, answer: Answered::Ok, .. })
    }

    /// Whether a client may prolong its lock by it: `SET key token XX PX ttl` and its kin. What it sets is taken back by
    /// its own tag, or a renewal with the same token would go with it.
    fn renews(&self) -> bool {
        let has_end = |new: &Option<(Bytes, NewTtl)>| matches!(new, Some((_, NewTtl::Millis(_))));
        match self {
            Self::Set { new, condition: Condition::Exists | Condition::Equals(_), .. } => {
                has_end(new)
            }
            _ => false,
        }
    }

    /// What this command does to a key that holds `old`.
    pub fn plan(&self, old: Option<&Sighting>) -> Plan {
        let value = old.and_then(|old| old.value.as_ref());
        let other_type = old.is_some() && value.is_none();
        match self {
            Self::Set { answer: Answered::Ok, condition: Condition::Equals(_), .. }
            | Self::Set { answer: Answered::OldValue, .. }
            | Self::Delete
            | Self::Expire(_)
            | Self::ExpireNow
            | Self::Refuse(_)
            | Self::Add(_)
            | Self::Append(_)
                if other_type =>
            {
                Plan::Answer(error::WRONG_TYPE)
            }
            Self::Set { new, condition, answer } => set(old, new, condition, *answer),
            Self::Delete => with_value(value, |_| None),
            Self::ExpireNow => with_value(value, |_| None),
            Self::Expire(ttl) => with_value(value, |value| Some((value.clone(), *ttl))),
            Self::Refuse(error) => Plan::Answer(value.map_or(Reply::Nil, |_| error.clone())),
            Self::Add(amount) => add(value, *amount),
            Self::Append(more) => append(value, more),
        }
    }
}

fn set(
    old: Option<&Sighting>,
    new: &Option<(Bytes, NewTtl)>,
    condition: &Condition,
    answer: Answered,
) -> Plan {
    let value = old.and_then(|old| old.value.as_ref());
    let holds = match condition {
        Condition::Always => true,
        Condition::Exists => old.is_some(),
        Condition::Missing => old.is_none(),
        Condition::Equals(expected) => value == Some(expected),
    };
    let reply = match (answer, holds) {
        (Answered::OldValue, _) => bulk_or_nil(value),
        (Answered::Ok, true) => Reply::OK,
        (Answered::Ok, false) => Reply::Nil,
    };
    if holds { Plan::Change(new.clone(), reply) } else { Plan::Answer(reply) }
}

/// Answers the value and makes `change` of it; nil when there is none.
fn with_value(
    value: Option<&Bytes>,
    change: impl FnOnce(&Bytes) -> Option<(Bytes, NewTtl)>,
) -> Plan {
    match value {
        Some(value) => Plan::Change(change(value), bulk_or_nil(Some(value))),
        None => Plan::Answer(Reply::Nil),
    }
}

/// `incrDecrCommand` (`t_string.c`): a missing key counts as 0, the TTL stays.
fn add(value: Option<&Bytes>, amount: i64) -> Plan {
    let old = match value {
        None => 0,
        Some(value) => match parse_i64(value) {
            Some(number) => number,
            None => return Plan::Answer(error::NOT_AN_INTEGER),
        },
    };
    match old.checked_add(amount) {
        Some(new) => {
            Plan::Change(Some((Bytes::from(new.to_string()), NewTtl::Keep)), Reply::Int(new))
        }
        None => Plan::Answer(error::OVERFLOW),
    }
}

fn append(value: Option<&Bytes>, more: &Bytes) -> Plan {
    let old = value.map_or(&b""[..], |value| value);
    let mut new = BytesMut::with_capacity(old.len() + more.len());
    new.extend_from_slice(old);
    new.extend_from_slice(more);
    let length = new.len() as i64;
    Plan::Change(Some((new.freeze(), NewTtl::Keep)), Reply::Int(length))
}

fn bulk_or_nil(value: Option<&Bytes>) -> Reply {
    value.map_or(Reply::Nil, |value| Reply::bulk(value.clone()))
}

/// A swap.
#[derive(Debug)]
pub struct Swap {
    update: Update,
    phase: Phase,
    round: u8,
    /// How often neither a value nor its absence had a quorum.
    contested: u8,
    decision: Option<decision::Swap>,
    /// The compare-and-set before this one, with its round: its undo may have to be sent again.
    before: Option<(u8, Exchange)>,
    /// What the compare-and-set has replaced that the present one only dates anew, and when.
    replaced: Option<(Old, Instant)>,
    trouble: Trouble,
}

#[derive(Debug)]
enum Phase {
    /// About to read, or reading.
    Reading(Option<Sightings>),
    /// About to compare and set, doing so, or done with it.
    Swapping(Exchange, Reply),
    /// Nothing was to be changed.
    Answered,
}

/// One compare-and-set.
#[derive(Debug)]
struct Exchange {
    old: Old,
    to: Option<(Bytes, NewTtl)>,
    /// Tells the new value from an equal one that another has set.
    tag: Tag,
    since: Instant,
    freshness: Duration,
    /// It only moves the end of what the one before it has set: the client gets its answer late.
    dates_anew: bool,
}

/// What was there before, and its remaining TTL on the masters.
#[derive(Debug)]
struct Old {
    sighting: Option<Sighting>,
    ttl_ms: i64,
    /// Different values on different minorities, which are replaced whatever they are.
    leftovers: bool,
    /// The tags under which masters hold it: under another one it is not the same, though the value is.
    known: Vec<Tag>,
    /// The tags that masters have replaced.
    tags: Vec<(MasterId, Tag)>,
}

impl Swap {
    /// A swap that nobody was asked about yet.
    pub fn new(update: Update) -> Self {
        let phase = Phase::Reading(None);
        let trouble = Trouble::default();
        let (round, contested, decision, before, replaced) = Default::default();
        Self { update, phase, round, contested, decision, before, replaced, trouble }
    }

    pub(super) fn round(&self) -> u8 {
        self.round
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet, now: Instant) {
        match &mut self.phase {
            Phase::Reading(sightings) => *sightings = Some(Sightings::new(rules.quorum, asked)),
            Phase::Swapping(exchange, _) => {
                exchange.since = now;
                let decision = &mut self.decision;
                decision.get_or_insert_with(|| decision::Swap::new(rules.quorum, TRIES)).ask(asked);
            }
            Phase::Answered => {}
        }
    }

    pub(super) fn encode(&self, rules: &Rules, key: &[u8], form: Form, out: &mut Vec<u8>) {
        match &self.phase {
            Phase::Swapping(exchange, _) => exchange.encode(rules, key, form, out),
            _ => request::script(out, form, Canonical::Inspect, key, &[]),
        }
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        if received.round != self.round {
            return Next::WAIT;
        }
        match &mut self.phase {
            Phase::Reading(Some(sightings)) => {
                let seen = sightings.received(rules, received.master, received.answer);
                seen.map_or(Next::WAIT, |seen| self.plan(rules, seen))
            }
            Phase::Swapping(exchange, _) => {
                if let Some(Answer::Bulk(tag)) = received.answer {
                    exchange.old.tags.push((received.master, held_as(tag)));
                }
                let ballot = self.ballot(received.answer);
                let next = self.decision.as_mut().map(|d| d.vote(received.master, ballot));
                next.map_or(Next::WAIT, |next| self.next(rules, next, received.now))
            }
            _ => Next::WAIT,
        }
    }

    pub(super) fn deadline(&mut self, rules: &Rules, now: Instant, is_last: bool) -> Next {
        match &mut self.phase {
            Phase::Reading(Some(sightings))
                if is_last || !sightings.waits_on(rules, self.contested) =>
            {
                let seen = sightings.deadline(rules);
                self.plan(rules, seen)
            }
            Phase::Swapping(..) if is_last => {
                let next = self.decision.as_mut().map(decision::Swap::deadline);
                next.map_or(Next::WAIT, |next| self.next(rules, next, now))
            }
            _ => Next::WAIT,
        }
    }

    fn plan(&mut self, rules: &Rules, seen: Seen) -> Next {
        let old = match seen {
            Seen::Key(sighting, ttl_ms) => {
                let known = match &self.phase {
                    Phase::Reading(Some(sightings)) => sightings.tags().to_vec(),
                    _ => Vec::new(),
                };
                Old { sighting: Some(sighting), ttl_ms, known, ..Old::nothing(false) }
            }
            Seen::Missing => Old::nothing(false),
            Seen::Contested | Seen::Unknown(_)
                if self.may_be_known_soon(&seen) && rules.try_again(&mut self.contested) =>
            {
                return Next::then(Then::Pause);
            }
            // Minorities have kept different values. What sets the key whatever it holds, and
            // tells nobody what it held, may replace them all.
            Seen::Contested => Old::nothing(self.update.is_blind()),
            Seen::Unknown(error) => {
                self.phase = Phase::Answered;
                return Next::reply(error);
            }
        };
        match self.update.plan(old.sighting.as_ref()) {
            Plan::Answer(reply) => {
                self.phase = Phase::Answered;
                Next::reply(reply)
            }
            Plan::Change(to, reply) => {
                let asked_ms = to.as_ref().map_or(0, |(_, ttl)| ttl.millis());
                let freshness = rules.freshness(asked_ms);
                let tag = match self.update.renews() {
                    true => rules.leases.next_attempt().fresh(),
                    false => Tag::NONE,
                };
                let since = clock::now();
                let exchange = Exchange { old, to, tag, since, freshness, dates_anew: false };
                self.phase = Phase::Swapping(exchange, reply);
                self.round = self.round.wrapping_add(1);
                Next::then(Then::Ask)
            }
        }
    }

    fn may_be_known_soon(&self, seen: &Seen) -> bool {
        let answered = match &self.phase {
            Phase::Reading(Some(sightings)) => sightings.quorum_answered(),
            _ => false,
        };
        answered || *seen == Seen::Contested
    }

    fn ballot(&mut self, answer: Option<&Answer<'_>>) -> Ballot {
        match answer {
            Some(Answer::Int(1) | Answer::Bulk(_)) => Ballot::Yes,
            Some(Answer::Int(0)) => Ballot::No,
            Some(Answer::Error(error)) => {
                self.trouble.remember(error);
                Ballot::Unknown
            }
            _ => Ballot::Unknown,
        }
    }

    fn next(&mut self, rules: &Rules, next: decision::Next, now: Instant) -> Next {
        let lost = |reply| Then::Reply(reply, turn::End::Done);
        let then = match next.step {
            Step::Wait => Then::Wait,
            Step::Swapped => self.swapped(rules, now),
            // Another has changed the key since, or has seen it: both come after this.
            Step::Pause | Step::GaveUp if self.dates_anew() => self.done(),
            // The undo goes out before the pause and is encoded from what is undone, so reading
            // starts anew only when it is time to ask again.
            Step::Pause => Then::Pause,
            Step::GaveUp => lost(verdict::interfered()),
            Step::Unavailable { answered } => {
                let others = Others::of(self.decision.as_ref().map(decision::Swap::pending));
                lost(self.trouble.unavailable(rules, answered, others))
            }
        };
        // A longer end on a minority does no harm.
        let undo = if self.dates_anew() { MasterSet::EMPTY } else { next.undo };
        Next { undo, then }
    }

    fn dates_anew(&self) -> bool {
        matches!(&self.phase, Phase::Swapping(exchange, _) if exchange.dates_anew)
    }

    fn done(&self) -> Then {
        match &self.phase {
            Phase::Swapping(_, reply) => Then::Reply(reply.clone(), turn::End::Done),
            _ => Then::Wait,
        }
    }

    /// The pad covers the freshness. What is answered later is given its whole TTL first.
    fn swapped(&mut self, rules: &Rules, now: Instant) -> Then {
        let Phase::Swapping(exchange, _) = &mut self.phase else { return Then::Wait };
        let Some((value, NewTtl::Millis(_))) = &exchange.to else { return self.done() };
        if now - exchange.since <= exchange.freshness {
            return self.done();
        }
        let held = attempt::encode(exchange.tag, value).into();
        let own = Old { sighting: Some(Sighting::string(held)), ..Old::nothing(false) };
        let replaced = std::mem::replace(&mut exchange.old, own);
        self.replaced.get_or_insert((replaced, exchange.since));
        if exchange.tag != Tag::NONE {
            exchange.tag = rules.leases.next_attempt().fresh();
        }
        exchange.freshness *= 2;
        exchange.dates_anew = true;
        self.round = self.round.wrapping_add(1);
        Then::Ask
    }

    /// The pause is over: read again.
    pub(super) fn again(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Reading(None));
        if let Phase::Swapping(exchange, _) = phase {
            self.before = Some((self.round, exchange));
        }
        self.round = self.round.wrapping_add(1);
    }

    fn exchange_of(&self, round: u8) -> Option<&Exchange> {
        match (&self.phase, &self.before) {
            (Phase::Swapping(exchange, _), _) if round == self.round => Some(exchange),
            (_, Some((before, exchange))) if round == *before => Some(exchange),
            _ => None,
        }
    }

    pub(super) fn encode_undo(
        &self,
        master: MasterId,
        round: u8,
        key: &[u8],
        form: Form,
        out: &mut Vec<u8>,
    ) {
        if let Some(exchange) = self.exchange_of(round) {
            exchange.encode_undo(master, key, form, out);
        }
    }

    /// The lease that a quorum has replaced is over, also where a master missed that: found there, it would look like a
    /// lock when another master forgets.
    pub(super) fn owed(&self, rules: &Rules) -> Option<Owed> {
        let Phase::Swapping(exchange, _) = &self.phase else { return None };
        let (old, since) = match &self.replaced {
            Some((old, since)) => (old, *since),
            None if self.has_swapped() => (&exchange.old, exchange.since),
            None => return None,
        };
        let mut leases = Holders::default();
        for (master, tag) in old.tags.iter().filter(|(_, tag)| *tag != Tag::NONE) {
            leases.insert(tag.attempt, *master);
        }
        let attempt = leases.of_quorum(rules.quorum)?;
        let later = rules.quorum.everybody().without(leases.of(attempt));
        let end = rules.end_of_release(since, old.ttl_ms);
        (!later.is_empty()).then_some(Owed { attempt, now: later, later, end })
    }

    pub(super) fn has_swapped(&self) -> bool {
        self.decision.as_ref().is_some_and(decision::Swap::is_done)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.decision.as_ref().is_some_and(decision::Swap::is_lost)
    }
}

impl Exchange {
    fn encode(&self, rules: &Rules, key: &[u8], form: Form, out: &mut Vec<u8>) {
        let value = self.to.as_ref().map(|(value, _)| attempt::encode(self.tag, value));
        let ttl = self.to.as_ref().map(|(_, ttl)| match ttl {
            NewTtl::Millis(ms) => NewTtl::Millis(rules.pad.pad_for(*ms, self.freshness)),
            ttl => *ttl,
        });
        let from = match &self.old.sighting {
            Some(Sighting { value: Some(value), .. }) if self.dates_anew => {
                Expected::Exactly(value)
            }
            _ => self.old.expected(),
        };
        request::swap(out, form, key, from, value.as_deref().zip(ttl));
    }

    fn encode_undo(&self, master: MasterId, key: &[u8], form: Form, out: &mut Vec<u8>) {
        let left = self.to.as_ref().map(|(value, _)| attempt::encode(self.tag, value));
        let from = left.as_ref().map_or(Expected::Missing, |value| Expected::Exactly(value));
        let tags = self.old.tags.iter().find(|(of, _)| *of == master);
        let tag = tags.map_or(Tag::NONE, |(_, tag)| *tag);
        let sighting = self.old.sighting.as_ref();
        let value = sighting.and_then(|sighting| sighting.value.as_deref());
        let value = value.map(|value| attempt::encode(tag, value));
        let elapsed_ms = self.since.elapsed().as_millis() as i64;
        let ttl = match self.old.ttl_ms {
            ..0 => NewTtl::None,
            ttl_ms => NewTtl::Millis((ttl_ms - elapsed_ms).max(1)),
        };
        request::swap(out, form, key, from, value.as_ref().map(|value| (&value[..], ttl)));
    }
}

impl Old {
    fn nothing(leftovers: bool) -> Self {
        Self { sighting: None, ttl_ms: -1, leftovers, known: Vec::new(), tags: Vec::new() }
    }

    fn expected(&self) -> Expected<'_> {
        match &self.sighting {
            None if self.leftovers => Expected::Anything,
            None => Expected::Missing,
            Some(Sighting { value: Some(value), .. }) => Expected::Value(value, &self.known),
            Some(Sighting { kind, .. }) => Expected::Type(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(value: &'static str) -> Sighting {
        Sighting::string(Bytes::from_static(value.as_bytes()))
    }

    fn set(condition: Condition, answer: Answered) -> Update {
        Update::Set { new: Some((Bytes::from_static(b"new"), NewTtl::None)), condition, answer }
    }

    fn changed(reply: Reply) -> Plan {
        Plan::Change(Some((Bytes::from_static(b"new"), NewTtl::None)), reply)
    }

    #[test]
    fn set_answers_ok_or_the_old_value() {
        let old = string("old");
        let always = |answer| set(Condition::Always, answer).plan(Some(&old));
        assert_eq!(always(Answered::Ok), changed(Reply::OK));
        assert_eq!(always(Answered::OldValue), changed(Reply::bulk("old")));
        assert_eq!(set(Condition::Always, Answered::OldValue).plan(None), changed(Reply::Nil));
    }

    #[test]
    fn a_condition_that_does_not_hold_changes_nothing() {
        let old = string("old");
        let equals = Condition::Equals(Bytes::from_static(b"other"));
        assert_eq!(set(equals, Answered::Ok).plan(Some(&old)), Plan::Answer(Reply::Nil));
        assert_eq!(set(Condition::Exists, Answered::Ok).plan(None), Plan::Answer(Reply::Nil));
        let missing = set(Condition::Missing, Answered::OldValue).plan(Some(&old));
        assert_eq!(missing, Plan::Answer(Reply::bulk("old")));
    }

    #[test]
    fn counters_start_at_zero_keep_their_ttl_and_do_not_overflow() {
        let one = Plan::Change(Some((Bytes::from_static(b"1"), NewTtl::Keep)), Reply::Int(1));
        assert_eq!(Update::Add(1).plan(None), one);
        let overflow = Update::Add(1).plan(Some(&string("9223372036854775807")));
        assert_eq!(overflow, Plan::Answer(error::OVERFLOW));
        let word = Update::Add(1).plan(Some(&string("one")));
        assert_eq!(word, Plan::Answer(error::NOT_AN_INTEGER));
    }

    #[test]
    fn another_type_is_refused_by_everything_but_a_plain_set() {
        let list = Sighting { kind: Bytes::from_static(b"list"), value: None };
        let wrong = Plan::Answer(error::WRONG_TYPE);
        assert_eq!(Update::Delete.plan(Some(&list)), wrong);
        assert_eq!(Update::Append(Bytes::new()).plan(Some(&list)), wrong);
        let plain = set(Condition::Always, Answered::Ok).plan(Some(&list));
        assert_eq!(plain, changed(Reply::OK));
    }
}
