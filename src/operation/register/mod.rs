//! Registers on masters: the wire format of [`crate::decision::keyspace`].
//!
//! * [`stamp`]: the content of a companion key;
//! * [`ask`]: a request to a master; [`answer`]: its answer; [`packed`]: a reply out of a stamp;
//! * [`snapshot`]: stamps and values as a read sees them, at one moment;
//! * [`run`]: one operation on its way; `replies`: the masters' replies to it; [`awaited`]: the answers still to come;
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

/// A key of one database.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The number of the database.
    pub db: u16,
    /// The name.
    pub key: Bytes,
}

/// What a register holds, as far as a proxy knows: the rest is on the masters, the same for equal ballots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// Its type, as stamps abbreviate it; `-`: it is absent.
    pub kind: u8,
    /// Unix time in milliseconds at which masters clean it up, [`SLACK_MS`] after its end; -1: never.
    pub clean_ms: i64,
}

/// A lease that a key holds.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The token behind its tag.
    pub value: Bytes,
    /// Unix time in milliseconds at which it ends by the clock of the master that keeps it; -1: never.
    pub kept_until_ms: i64,
    /// By how much that clock is ahead of the time of day, which programs go by; 0 in stamps.
    pub ahead_ms: i64,
}

/// What a program replied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RegisterReply {
    /// A RESP3 frame, what is to be published along with it, and the shortest time to live that the program has set, in
    /// milliseconds.
    Frame(Bytes, Vec<Message>, Option<u64>),
    /// The same from a stamp, in MessagePack.
    Packed(Bytes),
    /// It was too long for a stamp.
    NotKept,
}

/// A script of a client, with its arguments.
#[derive(Clone, Debug)]
pub struct Job {
    /// The script, wrapped for registers.
    pub program: Arc<lua::program::ProgramText>,
    /// Who runs it on masters that do not keep it.
    pub runner: Option<Arc<lua::program::ProgramText>>,
    /// The database that is selected.
    pub db: u16,
    /// Whether it must not write.
    pub is_read_only: bool,
    /// `KEYS`.
    pub keys: Vec<Bytes>,
    /// `ARGV`.
    pub argv: Vec<Bytes>,
    /// All that it uses, each once.
    pub places: Vec<Place>,
    /// Those of them that must still hold what they held when they were watched; `None`: they certainly do not.
    pub watched: Vec<(Place, Option<ContentName>)>,
}

/// What a program is answered that has too many keys. Not one of Redis's texts.
pub const TOO_MANY_KEYS: &str =
    "ERR too many keys for one command, script or transaction: split it";

/// Whether a program of keys with these names is refused: the stamp of each names all of them until it is settled, so what
/// masters keep grows with the square of their number.
pub fn are_too_many<'a>(names: impl Iterator<Item = &'a [u8]>) -> bool {
    /// What masters keep at most for that, in bytes.
    const MOST: usize = 64 << 20;
    /// What the name of a key takes besides itself: `stamps.lua`.
    const AROUND: usize = 29;
    let (count, bytes) =
        names.fold((0, 0), |(count, bytes), name| (count + 1, bytes + name.len() + AROUND));
    count * bytes > MOST
}

/// Names what a key holds, for `WATCH`. The same value again has another name; what was only adopted keeps its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentName {
    /// The ballot of the last program that has changed it.
    pub changed: Option<Ballot>,
    /// Whether the register is there.
    pub lives: bool,
    /// What tells the lease from others: its tag, and [`NAMED`] bytes at most.
    pub lease: Option<Bytes>,
}

/// So many bytes of a lease tell it from others.
pub const NAMED: usize = 1024;

impl Default for Content {
    fn default() -> Self {
        Self { kind: b'-', clean_ms: 0 }
    }
}

impl Lease {
    /// Unix time in milliseconds at which it ends by the time of day; -1: never.
    pub fn end_ms(&self) -> i64 {
        match self.kept_until_ms {
            -1 => -1,
            own => (own - self.ahead_ms).max(0),
        }
    }
}

/// Two masters have the same lease although it ends at moments of their own.
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

    /// Copies of one token may be of one lock, whatever attempts they are of: readers take them for that, too.
    fn may_stand_for(one: &Lease, other: &Lease) -> bool {
        let (one, other) = (Stored::decode(&one.value), Stored::decode(&other.value));
        let attempt = |stored: &Stored<'_>| stored.tag.map(|tag| tag.attempt);
        let is_same = attempt(&one).is_some() && attempt(&one) == attempt(&other);
        is_same || one.token == other.token || attempt(&one).is_some_and(Attempt::is_nobodys)
    }

    /// Proxies count votes for what they have tagged; and what has no end, or that of the register, is no Redlock.
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
        // The clocks of masters differ, if only by what is uncertain about them.
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
