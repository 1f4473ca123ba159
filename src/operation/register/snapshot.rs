//! What a master shows of keys to who only reads: stamps, and what is there beside them, at one moment.
//!
//! Masters run it as a transaction (`MULTI`), so that what they reply is in their own words and costs no script. For a
//! string `MGET` of the key and its companion is enough. The mark is shown with them: what masters show after different
//! flushes does not go together.

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

/// A key, as a master shows it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The register, and a lease beside it: of strings a part of the value, of anything else none.
    pub sight: Sight<Job>,
    /// What was promised.
    pub promised: Ballot,
    /// The type that the master has there, as stamps abbreviate it.
    pub kind: u8,
}

/// The last flush before a key was shown, and the ballot that it was accepted under: equal ones mean equal registers.
pub type FlushedBallot = (u64, Ballot);

/// How many commands show a key.
pub const COMMANDS: usize = 4;

/// How many commands, and replies, there are before those on keys: the beginning, and the mark.
pub const BEFORE: usize = 2;

/// How many bytes of a value tell leases apart: a tag, and more than tokens have.
const ENOUGH: &[u8] = b"1023";

/// The types that stamps know.
const KINDS: &[u8] = b"-slezhx?";

/// Where a stamp has what is read of it: its content, and the text behind that.
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

/// Appends its end.
pub fn end(out: &mut Vec<u8>) {
    request::encode(out, &[b"EXEC"]);
}

/// Appends what shows a key in the same way where masters are out of memory, and so do not queue commands. Costs a script.
pub fn without_queue(out: &mut Vec<u8>, key: &[u8]) {
    let (mark, stamp) = (reserved::MARK.as_bytes(), companion(key));
    request::encode(out, &[b"EVAL", keyspace::LOOK.as_bytes(), b"3", mark, &stamp, key, ENOUGH]);
}

/// Appends the request that shows strings, each with its stamp.
pub fn strings<'a>(out: &mut Vec<u8>, keys: impl ExactSizeIterator<Item = &'a [u8]>) {
    request::header(out, 2 + 2 * keys.len());
    request::word(out, b"MGET");
    for key in keys {
        request::word(out, key);
        request::word(out, &companion(key));
    }
    request::word(out, reserved::MARK.as_bytes());
}

/// The last flush, as a mark shows it; `None`: there is no mark.
pub fn last_flush(mark: Option<&[u8]>) -> Option<u64> {
    Some(Tail::of_stored(mark?)?.last_flush)
}

/// The key of a stamp.
pub fn companion(key: &[u8]) -> Vec<u8> {
    [reserved::PREFIX.as_bytes(), b"s:", key].concat()
}

impl Snapshot {
    /// Reads the replies to the [`COMMANDS`] on a key; `None`: they are none. Where something else is in the place of the
    /// stamp, there is none.
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

    /// What it comes to for a reader.
    pub fn standing(&self, now_us: u64) -> Standing<Lease> {
        self.sight.standing(self.promised, now_us)
    }

    /// Whether the value of a register that has ended is still there.
    pub fn is_left_over(&self) -> bool {
        self.sight.lease.is_none() && self.kind != b'-'
    }
}

/// What a string, or none, says beside a stamp. Another type looks like none.
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
        // It may also be the lease of somebody who knows no tags.
        Standing::Absent(None) if is_there => Standing::Unclear,
        Standing::Absent(lease) => Standing::Absent(lease.map(drop)),
        Standing::There => Standing::There,
        Standing::Unclear => Standing::Unclear,
    };
    (accepted, noted, standing)
}

/// The token of a lease, less its tag.
pub fn token(value: &[u8]) -> &[u8] {
    Stored::decode(value).token
}

/// What a reader takes of a stamp: what was promised, and the state without its last programs. What does not have the form
/// of one was put there by somebody else, and is none.
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
        // A module's.
        _ => b'?',
    })
}
