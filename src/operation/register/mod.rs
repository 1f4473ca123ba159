//! Registers as masters keep them: the words of [`crate::decision::keyspace`] on the wire.
//!
//! * [`stamp`] is what a companion key holds;
//! * [`ask`] is a request to a master, and [`said`] its answer;
//! * [`packed`] is a reply out of a stamp;
//! * [`run`] is one operation on its way through the masters.

pub mod ask;
pub mod packed;
pub mod run;
pub mod said;
pub mod stamp;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use crate::decision::keyspace::Program;
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
    /// Unix time in milliseconds at which it ends, by the clock of the master that showed it; -1: never.
    pub end_ms: i64,
}

/// What a program replied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// A RESP3 frame.
    Frame(Bytes),
    /// The same from a stamp, in MessagePack.
    Packed(Bytes),
    /// It was too long for a stamp.
    NotKept,
}

/// A script of a client, with its arguments.
#[derive(Clone, Debug)]
pub struct Job {
    /// The script, wrapped for registers.
    pub program: Arc<lua::program::Program>,
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
}

impl Default for Content {
    fn default() -> Self {
        Self { kind: b'-', clean_ms: 0 }
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
        let words = |job: &Self| (job.db, job.is_read_only, job.keys.clone(), job.argv.clone());
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
    type Reply = Reply;

    fn keys(&self) -> Vec<Place> {
        self.places.clone()
    }

    fn is_present(content: &Content) -> bool {
        content.kind != b'-'
    }

    fn end_us(content: &Content) -> Option<u64> {
        let end_ms = u64::try_from(content.clean_ms).ok()?.saturating_sub(SLACK_MS);
        Some(end_ms.saturating_mul(1000))
    }
}
