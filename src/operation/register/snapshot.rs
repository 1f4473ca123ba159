//! Snapshots of keys for readers: stamps, and the values next to them, at one moment.
//!
//! A master takes a snapshot in a transaction (`MULTI`), so it replies in its own words and runs no script. For a
//! string, `MGET` of the key and its companion is enough. The mark is part of every snapshot, because snapshots after
//! different flushes must not be combined.

use bytes::Bytes;

use super::stamp::{self, BALLOT};
use super::{Content, Job, Lease};
use crate::catalogue::reserved;
use crate::decision::keyspace::reading::Standing;
use crate::decision::keyspace::slot::{Sight, State};
use crate::decision::lease::attempt::{MARKER, Stored};
use crate::decision::register::ballot::Ballot;
use crate::decision::roster::mark::Tail;
use crate::lua::keyspace;
use crate::operation::request;
use crate::resp::flat;

/// One master's view of a key.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Register, and a lease next to it. The view has part of the value for strings, and nothing of it for other types.
    pub sight: Sight<Job>,
    /// Promised ballot.
    pub promised: Ballot,
    /// Type of the key on the master, as stamps abbreviate it.
    pub kind: u8,
}

/// Last flush before the view was taken, and the accepted ballot. Equal pairs mean equal registers.
pub type FlushedBallot = (u64, Ballot);

/// Number of commands that show a key.
pub const COMMANDS: usize = 4;

/// Number of commands, and of replies, before those of the keys: the beginning, and the mark.
pub const BEFORE: usize = 2;

/// Last byte of a value that is read to distinguish leases: enough for a tag and more than a token.
const ENOUGH: &[u8] = b"1023";

/// Types that stamps know.
const KINDS: &[u8] = b"-slezhx?";

/// Position of the content and the number after it in a stamp.
const CONTENT: std::ops::Range<usize> = 3 * BALLOT..3 * BALLOT + 17;

/// Appends the beginning of a transaction that shows `keys`.
pub fn begin<'a>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'a [u8]>) {
    request::encode(out, &[b"MULTI"]);
    request::encode(out, &[b"GET", reserved::MARK.as_bytes()]);
    for key in keys {
        request::encode(out, &[b"GET", &companion(key)]);
        request::encode(out, &[b"TYPE", key]);
        request::encode(out, &[b"PEXPIRETIME", key]);
        request::encode(out, &[b"GETRANGE", key, b"0", ENOUGH]);
    }
}

/// Appends the end of a transaction.
pub fn end(out: &mut Vec<u8>) {
    request::encode(out, &[b"EXEC"]);
}

/// Appends a request for the same view of one key from a master that is out of memory and so queues no commands. It
/// costs a script.
pub fn without_queue(out: &mut Vec<u8>, key: &[u8]) {
    let (mark, stamp) = (reserved::MARK.as_bytes(), companion(key));
    request::encode(out, &[b"EVAL", keyspace::LOOK.as_bytes(), b"3", mark, &stamp, key, ENOUGH]);
}

/// Appends a request for strings and their stamps.
pub fn strings<'a>(out: &mut Vec<u8>, keys: impl ExactSizeIterator<Item = &'a [u8]>) {
    request::header(out, 2 + 2 * keys.len());
    request::word(out, b"MGET");
    for key in keys {
        request::word(out, key);
        request::word(out, &companion(key));
    }
    request::word(out, reserved::MARK.as_bytes());
}

/// Returns the last flush according to a mark; `None` if there is no mark.
pub fn last_flush(mark: Option<&[u8]>) -> Option<u64> {
    Some(Tail::of_stored(mark?)?.last_flush)
}

/// Returns the key of a stamp.
pub fn companion(key: &[u8]) -> Vec<u8> {
    [reserved::PREFIX.as_bytes(), b"s:", key].concat()
}

impl Snapshot {
    /// Reads the replies to the [`COMMANDS`] of a key; `None` if they are not such replies. A foreign value in place of
    /// the stamp counts as no stamp.
    pub fn of(replies: &[&[u8]]) -> Option<Self> {
        let [stamp, kind, clean, value] = replies else { return None };
        let (promised, state) = glance(flat::bulk(stamp));
        let kind = kind_of(kind)?;
        let clean_ms = flat::int(clean)?;
        let noted = state.value;
        let is_present = noted.kind != b'-';
        let is_there = is_present && kind == noted.kind && clean_ms == noted.clean_ms;
        let has_lease = clean_ms != -2 && !is_there;
        let value = || flat::bulk(value).map_or_else(Bytes::new, Bytes::copy_from_slice);
        let lease =
            has_lease.then(|| Lease { value: value(), kept_until_ms: clean_ms, ahead_ms: 0 });
        let sight =
            Sight { state, floor: Ballot::NONE, is_gone: is_present && !is_there, lease, flush: 0 };
        Some(Self { sight, promised, kind })
    }

    /// Returns what the view means to a reader.
    pub fn standing(&self, now_us: u64) -> Standing<Lease> {
        self.sight.standing(self.promised, now_us)
    }

    /// Returns whether the value of a register that has ended is still there.
    pub fn is_left_over(&self) -> bool {
        self.sight.lease.is_none() && self.kind != b'-'
    }
}

/// Returns what a string, or its absence, means next to a stamp: accepted ballot, content and standing. Another type
/// looks like an absent string.
pub fn of_string(
    value: Option<&[u8]>,
    stamp: Option<&[u8]>,
    now_us: u64,
) -> (Ballot, Content, Standing<()>) {
    let (promised, state) = glance(stamp);
    let (accepted, noted) = (state.accepted, state.value);
    let is_present = noted.kind != b'-';
    let is_lease = value.is_some_and(|value| noted.kind != b's' || value.starts_with(&MARKER));
    let is_there = value.is_some() && !is_lease;
    let value = Bytes::new();
    let lease = is_lease.then_some(Lease { value, kept_until_ms: -1, ahead_ms: 0 });
    let sight =
        Sight { state, floor: Ballot::NONE, is_gone: is_present && !is_there, lease, flush: 0 };
    let standing = match sight.standing(promised, now_us) {
        // It may also be the lease of a client that uses no tags.
        Standing::Absent(None) if is_there => Standing::Unclear,
        Standing::Absent(lease) => Standing::Absent(lease.map(drop)),
        Standing::There => Standing::There,
        Standing::Unclear => Standing::Unclear,
    };
    (accepted, noted, standing)
}

/// Returns the token of a lease, without its tag.
pub fn token(value: &[u8]) -> &[u8] {
    Stored::decode(value).token
}

/// Reads the part of a stamp that readers need: the promise, and the state without its last programs. Text in another
/// format was put there by another program, and counts as no stamp.
fn glance(stamp: Option<&[u8]>) -> (Ballot, State<Job>) {
    stamp.and_then(glance_at).unwrap_or_default()
}

fn glance_at(stamp: &[u8]) -> Option<(Ballot, State<Job>)> {
    let ballot = |at: usize| stamp::parse_ballot(stamp.get(at * BALLOT..(at + 1) * BALLOT)?);
    let (kind, clean) = stamp.get(CONTENT)?.split_first()?;
    let kind = *kind;
    let value = Content { kind, clean_ms: parse_digits(clean)? };
    let state = State { accepted: ballot(1)?, basis: ballot(2)?, value, ..State::default() };
    Some((ballot(0)?, state)).filter(|_| KINDS.contains(&kind))
}

fn parse_digits(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn kind_of(frame: &[u8]) -> Option<u8> {
    let name = flat::elements(frame).next().filter(|element| element.marker == b'+')?.line;
    Some(match name {
        b"none" => b'-',
        b"string" => b's',
        b"list" => b'l',
        b"set" => b'e',
        b"zset" => b'z',
        b"hash" => b'h',
        b"stream" => b'x',
        // A type of a module.
        _ => b'?',
    })
}
