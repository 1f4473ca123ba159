//! The roster's acceptor on a master: scripts that do what [`Stamp`](crate::decision::register::acceptor::Stamp) does.
//!
//! # Format
//!
//! `redlock-proxy:roster` of database 0 holds `counter worker counter worker state`: the promised ballot, the accepted
//! ballot, and the state as JSON. The change of a roster is run by the proxy and not by the master: it knows the state
//! that was accepted under the expected ballot, and equal ballots mean equal states.

use redis::{Cmd, RedisResult, Value};

use crate::decision::register::StateOf;
use crate::decision::register::acceptor::{Refusal, State};
use crate::decision::register::ballot::Ballot;
use crate::decision::register::proposer::{Answer, Request};
use crate::decision::roster::mark::Mark;
use crate::decision::roster::roster::{Change, Identity, Presence};
use crate::reserved::{MARK, ROSTER};

/// What the roster is, as accepted.
pub type Accepted = StateOf<Change>;

/// What a master answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// What it shows of itself.
    pub presence: Presence,
    /// `None`: it knows no roster, and has nothing to say about it.
    pub answer: Option<Answer<Change>>,
}

/// Returns the script call that carries out `request`.
///
/// `after` is the state that an apply leads to. Masters without a stamp speak only if `all_speak`: while a cluster is
/// founded, or begun anew. One that was copied to gets an empty one with its mark.
pub fn command(request: &Request<Change>, after: Option<&Accepted>, all_speak: bool) -> Cmd {
    match request {
        Request::Prepare(ballot) => {
            let mut prepare = script(PREPARE);
            prepare.arg(&words(*ballot)).arg(u8::from(all_speak));
            prepare
        }
        Request::Adopt(adopt) => accept("adopt", &adopt.state, adopt.next, Ballot::NONE),
        Request::Apply(apply) => match after {
            Some(after) => accept("apply", after, apply.next, apply.expected),
            // It expects a state that nobody has.
            None => accept("apply", &State::default(), apply.next, apply.next),
        },
    }
}

/// Returns the call that gives a master a state that a quorum holds or its mark proves, if its own is older.
pub fn catch_up(decided: &Accepted) -> Cmd {
    accept("catch up", decided, decided.accepted, Ballot::NONE)
}

/// Reads what [`command`] was answered by the server with this id; `after` as there.
///
/// # Errors
/// The answer is none of these scripts'.
pub fn said(
    request: &Request<Change>,
    run_id: &str,
    reply: Option<u64>,
    value: &Value,
) -> RedisResult<Said> {
    let words: Vec<String> = redis::from_redis_value_ref(value)?;
    let [how, promised_counter, promised_worker, counter, worker, state, mark] = &words[..] else {
        return Err(malformed());
    };
    let presence = Presence { identity: identity(mark, run_id), run_id: run_id.to_owned() };
    let answer = match how.as_str() {
        "silent" => None,
        "refused" => Some(Answer::Refused(Refusal {
            promised: ballot(promised_counter, promised_worker)?,
            accepted: ballot(counter, worker)?,
        })),
        "done" => Some(match request {
            Request::Prepare(_) if state.is_empty() => Answer::Promised(State::default()),
            Request::Prepare(_) => Answer::Promised(parse_state(state).ok_or_else(malformed)?),
            Request::Adopt(_) => Answer::Adopted,
            Request::Apply(_) => Answer::Applied(reply),
        }),
        _ => return Err(malformed()),
    };
    Ok(Said { presence, answer })
}

/// Reads the state out of a stamp as it is stored; `None`: there is none.
pub fn stored(stamp: &str) -> Option<Accepted> {
    parse_state(stamp.splitn(5, ' ').nth(4)?)
}

fn parse_state(text: &str) -> Option<Accepted> {
    serde_json::from_str(text).ok()
}

fn identity(mark: &str, run_id: &str) -> Option<Identity> {
    Mark::parse(mark)?.identity(run_id)
}

fn script(text: &str) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg([STAMP, text].concat()).arg(2).arg(ROSTER).arg(MARK);
    eval
}

fn accept(how: &str, state: &Accepted, next: Ballot, expected: Ballot) -> Cmd {
    let mut accept = script(ACCEPT);
    accept.arg(how).arg(&words(state.accepted)).arg(&words(next)).arg(&words(expected));
    accept.arg(serde_json::to_string(state).unwrap_or_default()).arg(&state.value.cluster);
    accept.arg(state.value.version);
    accept
}

fn words(ballot: Ballot) -> [u64; 2] {
    [ballot.counter, ballot.worker]
}

fn ballot(counter: &str, worker: &str) -> RedisResult<Ballot> {
    let number = |text: &str| text.parse().map_err(|_| malformed());
    Ok(Ballot { counter: number(counter)?, worker: number(worker)? })
}

fn malformed() -> redis::RedisError {
    (redis::ErrorKind::UnexpectedReturnType, "not an answer about the roster").into()
}

const STAMP: &str = include_str!("../../lua/roster/stamp.lua");
const PREPARE: &str = include_str!("../../lua/roster/prepare.lua");
const ACCEPT: &str = include_str!("../../lua/roster/accept.lua");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::roster::roster::Roster;

    #[test]
    fn a_stored_state_is_found_behind_its_ballots() {
        let accepted = Ballot { counter: 7, worker: 8 };
        let value = Roster { cluster: "c 1".to_owned(), version: 9, ..Roster::default() };
        let state = Accepted { accepted, value, ..Accepted::default() };
        let json = serde_json::to_string(&state).expect("JSON");
        assert_eq!(stored(&format!("9 9 7 8 {json}")), Some(state));
        for broken in ["", "9 9 7 8 ", "9 9 7 8", "9 9 7 8 {", "text"] {
            assert_eq!(stored(broken), None, "{broken:?}");
        }
    }
}
