//! Wire format of registers on masters, which [`crate::decision::keyspace`] specifies.
//!
//! * [`stamp`]: content of a companion key;
//! * [`ask`]: request to a master; [`answer`]: its answer; [`packed`]: reply from a stamp;
//! * [`snapshot`]: stamps and values as a read sees them, at one moment;
//! * [`run`]: one operation in progress; `replies`: the masters' replies to it; [`awaited`]: outstanding answers;
//! * [`promises`]: promises that a worker holds for its next programs; [`decided`]: long stamps of decided keys;
//! * [`lagging`]: keys that a master has missed; [`remains`]: first sightings of leases on a minority.

pub mod answer;
pub mod ask;
pub mod awaited;
pub mod decided;
pub mod lagging;
pub mod packed;
pub mod promises;
pub mod remains;
mod replies;
pub mod run;
pub mod snapshot;
pub mod stamp;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use super::program::Message;
use crate::decision::keyspace::Program;
use crate::decision::keyspace::settle::HeldBallot;
use crate::decision::lease::attempt::{Attempt, Stored};
use crate::decision::register::ballot::Ballot;
use crate::lua;
use crate::lua::keyspace::SLACK_MS;

/// Key of one database.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Number of the database.
    pub db: u16,
    /// Name of the key.
    pub key: Bytes,
}

/// Content of a register, as far as a proxy knows it. The rest is on the masters, and equal for equal ballots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// Type, as stamps abbreviate it; `-` if the register is absent.
    pub kind: u8,
    /// Unix time in milliseconds at which masters clean it up, [`SLACK_MS`] after its end; -1: never.
    pub clean_ms: i64,
}

/// Lease that a key holds.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Token, with its tag in front.
    pub value: Bytes,
    /// Unix time in milliseconds at which it ends by the clock of the master that keeps it; -1: never.
    pub kept_until_ms: i64,
    /// Milliseconds by which that clock is ahead of the time of day, which programs use; 0 in stamps.
    pub ahead_ms: i64,
}

/// Reply of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RegisterReply {
    /// RESP3 frame, messages to publish along with it, and the shortest time to live that the program has set, in
    /// milliseconds.
    Frame(Bytes, Vec<Message>, Option<u64>),
    /// Reply from a stamp, in MessagePack.
    Packed(Bytes),
    /// Reply that was too long for a stamp.
    NotKept,
}

/// Client script with its arguments.
#[derive(Clone, Debug)]
pub struct Job {
    /// Script, wrapped for registers.
    pub program: Arc<lua::program::ProgramText>,
    /// Program that runs the script on masters that do not keep it.
    pub runner: Option<Arc<lua::program::ProgramText>>,
    /// Selected database.
    pub db: u16,
    /// Whether it must not write.
    pub is_read_only: bool,
    /// `KEYS`.
    pub keys: Vec<Bytes>,
    /// `ARGV`.
    pub argv: Vec<Bytes>,
    /// All keys that it uses, without duplicates.
    pub places: Vec<Place>,
    /// Keys that must still hold what they held when they were watched; `None` if they certainly do not.
    pub watched: Vec<(Place, Option<ContentName>)>,
}

/// Reply to a program that has too many keys. It is not one of Redis's texts.
pub const TOO_MANY_KEYS: &str =
    "ERR too many keys in one command, script or transaction: split it up";

/// Returns whether a program of keys with these names is refused. The stamp of each key names all of them until it is
/// settled, so the space on masters grows with the square of their number.
pub fn are_too_many<'a>(names: impl Iterator<Item = &'a [u8]>) -> bool {
    /// Maximum space for those names on a master, in bytes.
    const MOST: usize = 64 << 20;
    /// Bytes that a key's entry takes in addition to its name: `stamps.lua`.
    const AROUND: usize = 29;
    let (count, bytes) =
        names.fold((0, 0), |(count, bytes), name| (count + 1, bytes + name.len() + AROUND));
    count * bytes > MOST
}

/// Name of a key's content, for `WATCH`. A value that is written again gets another name; a value that is only adopted
/// keeps its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentName {
    /// Ballot of the last program that changed it.
    pub changed: Option<Ballot>,
    /// Whether the register is present.
    pub lives: bool,
    /// Part of the lease that distinguishes it from others: its tag, and [`NAMED`] bytes at most.
    pub lease: Option<Bytes>,
}

/// Number of bytes of a lease that distinguish it from others.
pub const NAMED: usize = 1024;

impl Default for Content {
    fn default() -> Self {
        Self { kind: b'-', clean_ms: 0 }
    }
}

impl Lease {
    /// Returns the Unix time in milliseconds at which it ends by the time of day; -1: never.
    pub fn end_ms(&self) -> i64 {
        match self.kept_until_ms {
            -1 => -1,
            own => (own - self.ahead_ms).max(0),
        }
    }
}

/// Two masters hold the same lease even if each ends it at a different moment.
impl PartialEq for Lease {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Lease {}

impl Hash for Lease {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        let words = |job: &Self| {
            let Self { db, is_read_only, keys, argv, watched, .. } = job.clone();
            (db, is_read_only, keys, argv, watched)
        };
        Arc::ptr_eq(&self.program, &other.program) && words(self) == words(other)
    }
}

impl Eq for Job {}

impl Hash for Job {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.program.sha, self.db, &self.keys, &self.argv).hash(state);
    }
}

impl Program for Job {
    type Key = Place;
    type Value = Content;
    type Lease = Lease;
    type Reply = RegisterReply;

    fn keys(&self) -> Vec<Place> {
        self.places.clone()
    }

    fn needs_all(&self) -> bool {
        !self.is_read_only && self.places.len() > 1
    }

    fn may_run(&self, holdings: &[HeldBallot<Self>], now_us: u64) -> bool {
        let holdings = self.places.iter().zip(holdings);
        let is_met = |(watched, name): &(Place, Option<ContentName>)| {
            let held = holdings.clone().find(|(place, _)| *place == watched);
            held.is_some_and(|(_, holding)| *name == Some(ContentName::of(holding, now_us)))
        };
        self.watched.iter().all(is_met)
    }

    fn is_present(content: &Content) -> bool {
        content.kind != b'-'
    }

    fn end_us(content: &Content) -> Option<u64> {
        let end_ms = u64::try_from(content.clean_ms).ok()?.saturating_sub(SLACK_MS);
        Some(end_ms.saturating_mul(1000))
    }

    /// Copies of one token may belong to one lock, whatever their attempts: readers treat them as one lock, too.
    fn may_stand_for(one: &Lease, other: &Lease) -> bool {
        let (one, other) = (Stored::decode(&one.value), Stored::decode(&other.value));
        let attempt = |stored: &Stored<'_>| stored.tag.map(|tag| tag.attempt);
        let is_same = attempt(&one).is_some() && attempt(&one) == attempt(&other);
        is_same || one.token == other.token || attempt(&one).is_some_and(Attempt::is_nobodys)
    }

    /// Proxies count votes for leases that they have tagged. A lease without an end, or with that of the register, is
    /// no Redlock.
    fn is_over_in_time(lease: &Lease, content: &Content) -> bool {
        let is_value = content.kind == b's' && content.clean_ms == lease.kept_until_ms;
        match Stored::decode(&lease.value).tag {
            Some(tag) => !tag.attempt.is_nobodys(),
            None => lease.kept_until_ms == -1 || is_value,
        }
    }
}

impl ContentName {
    fn of(holding: &HeldBallot<Job>, now_us: u64) -> Self {
        let named = |lease: &Lease| lease.value.slice(..lease.value.len().min(NAMED));
        Self {
            changed: holding.state.recent.last_change(),
            lives: Job::lives(&holding.state.value, now_us),
            lease: holding.lease.as_ref().map(named),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::attempt::{WorkerId, encode};

    fn lease(value: Vec<u8>, kept_until_ms: i64) -> Lease {
        // The clocks of masters differ, if only by their uncertainty.
        Lease { value: value.into(), kept_until_ms, ahead_ms: 1 }
    }

    #[test]
    fn copies_of_one_lock_count_together_and_what_was_forgotten_may_be_any() {
        let attempt = Attempt::new(WorkerId::new(1), 7);
        let of = |tag, token: &str| lease(encode(tag, token.as_bytes()), 1_000);
        let (mine, other) = (of(attempt.fresh(), "a"), Attempt::new(WorkerId::new(1), 8).fresh());
        assert!(Job::may_stand_for(&mine, &of(attempt.fresh().raised(), "a")), "extended there");
        assert!(Job::may_stand_for(&mine, &of(other, "a")), "readers take it for the same");
        assert!(!Job::may_stand_for(&mine, &of(other, "b")));
        assert!(!Job::may_stand_for(&mine, &lease(b"b".into(), -1)));
        assert!(Job::may_stand_for(&of(Attempt::of_nobody(9).fresh(), "?"), &mine));
    }

    #[test]
    fn locks_of_others_and_what_nobody_has_are_left_to_their_ends() {
        let content = Content { kind: b's', clean_ms: 5_000 };
        let is_over =
            |value: &[u8], end_ms| Job::is_over_in_time(&lease(value.into(), end_ms), &content);
        let tagged = |attempt: Attempt| encode(attempt.fresh(), b"a");
        assert!(is_over(&tagged(Attempt::new(WorkerId::new(1), 7)), 1_000));
        assert!(!is_over(&tagged(Attempt::of_nobody(7)), 1_000));
        assert!(is_over(b"by hand", -1));
        assert!(is_over(b"a value that has lost its stamp", 5_000));
        assert!(!is_over(b"of another library", 1_000));
    }
}
