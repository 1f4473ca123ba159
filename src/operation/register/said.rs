//! What a master answered.

use bytes::Bytes;

use super::stamp::{parse, parse_ballot, parse_lease};
use super::{Job, Place, Reply};
use crate::decision::keyspace::proposer::{Answer, Request};
use crate::decision::keyspace::slot::{Ran, Refusal, Sight};
use crate::decision::register::acceptor::Recent;
use crate::decision::register::ballot::Ballot;
use crate::resp3;

/// What a master answered to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It counts for the decision.
    Answer(Answer<Job>),
    /// It lacks what these states hold, by their places in the request.
    Lacking(Vec<usize>),
    /// The program uses this key, too, and has written nothing.
    Missing(Place),
    /// The master did not run the script: its error.
    Failed(Bytes),
}

/// Reads the answer to `request`, a RESP3 frame; `None`: it is none of these scripts'.
pub fn said(request: &Request<Job>, frame: &[u8]) -> Option<Said> {
    if frame.first().is_some_and(|marker| b"-!".contains(marker)) {
        return Some(Said::Failed(Bytes::copy_from_slice(frame)));
    }
    if let (Request::Apply(_), Some(ran)) = (request, bare(frame)) {
        return Some(Said::Answer(Answer::Applied(ran)));
    }
    let items = resp3::items(frame)?;
    let (how, rest) = items.split_first()?;
    let answer = match (resp3::bulk(how)?, request) {
        (b"refused", _) => Answer::Refused(Refusal(parse_ballot(resp3::bulk(rest.first()?)?)?)),
        (b"promised", Request::Prepare(keys, _)) if rest.len() == keys.len() => {
            let sights = rest.iter().zip(keys).map(|(shown, place)| sight(shown, place));
            Answer::Promised(sights.collect::<Option<_>>()?)
        }
        (b"adopted", Request::Adopt(_)) => Answer::Adopted,
        (b"lacking", Request::Adopt(_)) => {
            let at = rest.iter().map(|at| usize::try_from(resp3::int(at)? - 1).ok());
            return Some(Said::Lacking(at.collect::<Option<_>>()?));
        }
        (b"missing", Request::Apply(_)) => return Some(Said::Missing(place(rest)?)),
        (b"wrote", Request::Apply(_)) => Answer::Applied(ran(rest, true, true)?),
        (b"ended", Request::Apply(_)) => Answer::Applied(ran(rest, false, true)?),
        (b"read", Request::Apply(_)) => Answer::Applied(ran(rest, false, false)?),
        _ => return None,
    };
    Some(Said::Answer(answer))
}

/// Reads what a master has fetched: for each key what it holds, if this master has it; `None`: it is something else.
pub fn fetched(frame: &[u8]) -> Option<Vec<Option<Bytes>>> {
    let items = resp3::items(frame)?;
    let (how, held) = items.split_first()?;
    let is_fetched = resp3::bulk(how)? == b"fetched";
    let held = held.iter().map(|item| resp3::bulk(item).map(Bytes::copy_from_slice));
    is_fetched.then(|| held.collect())
}

fn sight(shown: &[u8], place: &Place) -> Option<Sight<Job>> {
    let [stamp, is_gone, lease] = resp3::items(shown)?[..] else { return None };
    let lease = match resp3::bulk(lease) {
        Some(lease) => Some(parse_lease(lease)?),
        None => None,
    };
    let mut state = parse(resp3::bulk(stamp)?, place)?;
    let mut floor = Ballot::NONE;
    if state.accepted == Ballot::NONE {
        floor = state.recent.dropped();
        state.recent = Recent::default();
    }
    Some(Sight { state, floor, is_gone: resp3::int(is_gone)? == 1, lease })
}

/// What ran, of an answer without words around the reply: nothing if it wrote; or twice a number, and one more if it only
/// read. Scripts' own replies are never without words otherwise.
fn bare(frame: &[u8]) -> Option<Ran<Job>> {
    let is_nothing = matches!(frame, b"_\r\n" | b"#f\r\n" | b"$-1\r\n");
    if is_nothing {
        return ran(&[frame], true, true);
    }
    let number = resp3::int(frame)?;
    let wrote = number & 1 == 0;
    ran(&[format!(":{}\r\n", number >> 1).as_bytes()], wrote, wrote)
}

fn ran(rest: &[&[u8]], wrote: bool, is_promised: bool) -> Option<Ran<Job>> {
    let reply = Reply::Frame(Bytes::copy_from_slice(rest.first()?));
    Some(Ran { reply, wrote, is_promised })
}

fn place(rest: &[&[u8]]) -> Option<Place> {
    let [db, key] = rest else { return None };
    let db = std::str::from_utf8(resp3::bulk(db)?).ok()?.parse().ok()?;
    Some(Place { db, key: Bytes::copy_from_slice(resp3::bulk(key)?) })
}
