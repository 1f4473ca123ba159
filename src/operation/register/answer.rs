//! Answers of masters.

use std::str::FromStr;

use bytes::Bytes;

use super::stamp::{parse_ballot, parse_head, parse_lease, parse_with_floor};
use super::{Job, Place, RegisterReply};
use crate::decision::keyspace::proposer::{MasterAnswer, Request};
use crate::decision::keyspace::slot::{Ran, Refusal, Sight};
use crate::decision::register::ballot::Ballot;
use crate::operation::program::Message;
use crate::resp::flat;

/// Answer of a master to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Answer that counts for the decision.
    Answer(MasterAnswer<Job>),
    /// The master lacks the content of these states, given by their positions in the request.
    Lacking(Vec<usize>),
    /// The program also uses this key, and has written nothing.
    Missing(Place),
    /// The master did not run the script and returned this error.
    Failed(Bytes),
}

/// Reads the answer to `request`, a RESP3 frame; `None` if it is not an answer of these scripts.
pub fn said(request: &Request<Job>, frame: &[u8]) -> Option<Said> {
    if frame.first().is_some_and(|marker| b"-!".contains(marker)) {
        return Some(Said::Failed(Bytes::copy_from_slice(frame)));
    }
    if let (Request::Apply(_), Some(ran)) = (request, bare(frame)) {
        return Some(Said::Answer(MasterAnswer::Applied(ran)));
    }
    let items = flat::items(frame)?;
    let (how, rest) = items.split_first()?;
    let answer = match (flat::bulk(how)?, request) {
        (b"refused", _) => MasterAnswer::Refused(refusal(rest)?),
        (b"promised", Request::Prepare(keys, _)) if rest.len() == keys.len() => {
            let sights = rest.iter().zip(keys).map(|(shown, (place, _))| sight(shown, place));
            MasterAnswer::Promised(sights.collect::<Option<_>>()?)
        }
        (b"adopted", Request::Adopt(_)) => MasterAnswer::Adopted,
        (b"lacking", Request::Adopt(_)) => {
            let at = rest.iter().map(|at| usize::try_from(flat::int(at)? - 1).ok());
            return Some(Said::Lacking(at.collect::<Option<_>>()?));
        }
        (b"missing", Request::Apply(_)) => return Some(Said::Missing(place(rest)?)),
        (how, Request::Apply(_)) => MasterAnswer::Applied(applied(how, rest)?),
        _ => return None,
    };
    Some(Said::Answer(answer))
}

/// Reads the reply of a program from the answer of a master that has run it.
pub fn replied(frame: &[u8]) -> Option<RegisterReply> {
    let told = || {
        let items = flat::items(frame)?;
        let (how, rest) = items.split_first()?;
        applied(flat::bulk(how)?, rest)
    };
    bare(frame).or_else(told).map(|ran| ran.reply)
}

fn applied(how: &[u8], rest: &[&[u8]]) -> Option<Ran<Job>> {
    match how {
        b"wrote" => ran(rest, true, true),
        b"dated" => {
            let (ttl_ms, rest) = rest.split_first()?;
            dated(u64::try_from(flat::int(ttl_ms)?).ok()?, rest)
        }
        b"ended" => ran(rest, false, true),
        b"read" => ran(rest, false, false),
        _ => None,
    }
}

/// Returns whether a master that returns this error, a frame, has certainly changed nothing. Other errors may also come
/// from within a script, after it has written.
pub fn has_changed_nothing(error: &[u8]) -> bool {
    let codes: [&[u8]; 6] = [b"OOM", b"MISCONF", b"NOREPLICAS", b"READONLY", b"LOADING", b"BUSY"];
    let code = error.strip_prefix(b"-").and_then(|text| text.split(|byte| *byte == b' ').next());
    code.is_some_and(|code| codes.contains(&code))
}

/// Returns whether a master did not run a program because it needs an undeclared key.
pub fn is_missing(frame: &[u8]) -> bool {
    let how = flat::items(frame).and_then(|items| flat::bulk(items.first()?));
    how == Some(b"missing")
}

/// Reads a refusal; `None` if the answer is not one.
pub fn refused(frame: &[u8]) -> Option<Refusal> {
    let items = flat::items(frame)?;
    let (how, rest) = items.split_first()?;
    refusal(rest).filter(|_| flat::bulk(how) == Some(b"refused"))
}

/// Reads the highest promised ballot, and the latest time that may be promised if the refusal is about that.
fn refusal(rest: &[&[u8]]) -> Option<Refusal> {
    let promised = parse_ballot(flat::bulk(rest.first()?)?)?;
    let latest_us = match rest.get(1) {
        Some(latest_us) => Some(digits(flat::bulk(latest_us)?)?),
        None => None,
    };
    Some(Refusal { promised, latest_us })
}

/// Progress of a master on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StampHead {
    /// Promised ballot.
    pub promised: Ballot,
    /// Content on the master, without the last programs and without leases.
    pub sight: Sight<Job>,
}

/// Reads the progress of a master on each of these keys; `None` if the answer is not about that.
pub fn heads(frame: &[u8], places: &[Place]) -> Option<Vec<StampHead>> {
    let items = flat::items(frame)?;
    let head = |(item, place): (&&[u8], &Place)| {
        let (is_gone, text) = flat::bulk(item)?.split_first()?;
        let (promised, state) = parse_head(text, place)?;
        let (floor, lease) = (Ballot::NONE, None);
        let is_gone = *is_gone == b'1';
        Some(StampHead { promised, sight: Sight { state, floor, is_gone, lease, flush: 0 } })
    };
    let is_whole = items.len() == places.len();
    items.iter().zip(places).map(head).collect::<Option<_>>().filter(|_| is_whole)
}

/// Reads the content that a master has fetched, for each key that it holds; `None` if the answer is not about that.
pub fn fetched(frame: &[u8]) -> Option<Vec<Option<Bytes>>> {
    let items = flat::items(frame)?;
    let (how, held) = items.split_first()?;
    let is_fetched = flat::bulk(how)? == b"fetched";
    let held = held.iter().map(|item| flat::bulk(item).map(Bytes::copy_from_slice));
    is_fetched.then(|| held.collect())
}

/// Reads a master's view of a key: its stamp from the accepted ballot on, whether the value is gone, the lease, and the
/// last flush.
pub fn sight(shown: &[u8], place: &Place) -> Option<Sight<Job>> {
    let [stamp, is_gone, lease, flush] = flat::items(shown)?[..] else { return None };
    let lease = match flat::bulk(lease) {
        Some(lease) => Some(parse_lease(lease)?),
        None => None,
    };
    let (state, floor) = parse_with_floor(flat::bulk(stamp)?, place)?;
    let flush = digits(flat::bulk(flush)?)?;
    Some(Sight { state, floor, is_gone: flat::int(is_gone)? == 1, lease, flush })
}

/// Reads an answer that is only the reply. A null means that the program wrote. A string is the time to live that it
/// has set, and means that it wrote and replied a null. A number is twice the reply, plus one if the program only read.
/// Other replies of scripts come with words around them.
fn bare(frame: &[u8]) -> Option<Ran<Job>> {
    let is_nothing = matches!(frame, b"_\r\n" | b"#f\r\n" | b"$-1\r\n");
    if is_nothing {
        return ran(&[frame], true, true);
    }
    if let Some(ttl_ms) = flat::bulk(frame) {
        return dated(digits(ttl_ms)?, &[b"_\r\n"]);
    }
    let number = flat::int(frame)?;
    let wrote = number & 1 == 0;
    ran(&[format!(":{}\r\n", number >> 1).as_bytes()], wrote, wrote)
}

/// Returns the result of a program that has set this time to live.
fn dated(ttl_ms: u64, rest: &[&[u8]]) -> Option<Ran<Job>> {
    let mut ran = ran(rest, true, true)?;
    if let RegisterReply::Frame(_, _, told) = &mut ran.reply {
        *told = Some(ttl_ms);
    }
    Some(ran)
}

fn digits<Number: FromStr>(text: &[u8]) -> Option<Number> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn ran(rest: &[&[u8]], wrote: bool, is_promised: bool) -> Option<Ran<Job>> {
    let messages = match rest.get(1) {
        Some(messages) => Message::parse_all(messages)?,
        None => Vec::new(),
    };
    let reply = RegisterReply::Frame(Bytes::copy_from_slice(rest.first()?), messages, None);
    Some(Ran { reply, wrote, is_promised })
}

fn place(rest: &[&[u8]]) -> Option<Place> {
    let [db, key] = rest else { return None };
    let db = digits(flat::bulk(db)?)?;
    Some(Place { db, key: Bytes::copy_from_slice(flat::bulk(key)?) })
}
