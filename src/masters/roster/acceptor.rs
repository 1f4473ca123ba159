//! The roster's acceptor on a master: scripts that execute the requests of the [register](crate::decision::register).
//!
//! # Format
//!
//! `redlock-proxy:roster` in database 0 holds the promised ballot, the accepted ballot, and the state as JSON. A
//! ballot is written as `epoch:counter:worker`. The proxy, not the master, applies a change to the roster. It can do
//! so because it knows the state accepted under the expected ballot, and equal ballots mean equal states.

use redis::{Cmd, RedisResult, Value};

use crate::catalogue::reserved::{MARK, ROSTER};
use crate::decision::register::acceptor::{Refusal, State};
use crate::decision::register::ballot::Ballot;
use crate::decision::register::proposer::{MasterAnswer, Request};
use crate::decision::roster::mark::Mark;
use crate::decision::roster::roster::{Accepted, Change, Presence};

/// A master's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptorAnswer {
    /// The master's identity as it shows it.
    pub presence: Presence,
    /// The answer about the roster; `None` if the master knows no roster.
    pub answer: Option<MasterAnswer<Change>>,
}

/// Returns the script call that carries out `request`.
///
/// `after` is the state that an apply leads to. Masters without a stamp answer only if `all_speak` is set, i.e. while
/// a cluster is founded or begun anew. A master that was copied to receives an empty stamp with its mark.
pub fn command(request: &Request<Change>, after: Option<&Accepted>, all_speak: bool) -> Cmd {
    match request {
        Request::Prepare(ballot) => {
            let mut prepare = script(PREPARE);
            prepare.arg(word(*ballot)).arg(u8::from(all_speak));
            prepare
        }
        Request::Adopt(adopt) => accept("adopt", &adopt.state, adopt.next, Ballot::NONE),
        Request::Apply(apply) => match after {
            Some(after) => accept("apply", after, apply.next, apply.expected),
            // The request expects a state that no master has.
            None => accept("apply", &State::default(), apply.next, apply.next),
        },
    }
}

/// Returns the call that brings a master to `decided`, which a quorum holds, if its own state is older.
pub fn catch_up(decided: &Accepted) -> Cmd {
    accept("catch up", decided, decided.accepted, Ballot::NONE)
}

/// Parses a server's answer to [`command`]; `run_id` is the server's, and `reply` is the result of an apply.
///
/// # Errors
/// Returns an error if the answer is not one of these scripts'.
pub fn said(
    request: &Request<Change>,
    run_id: &str,
    reply: Option<u64>,
    value: &Value,
) -> RedisResult<AcceptorAnswer> {
    let words: Vec<String> = redis::from_redis_value_ref(value)?;
    let [how, promised, accepted, state, mark] = &words[..] else { return Err(malformed()) };
    let presence = presence(mark, run_id);
    let answer = match how.as_str() {
        "silent" => None,
        "refused" => Some(MasterAnswer::Refused(Refusal {
            promised: ballot(promised)?,
            accepted: ballot(accepted)?,
        })),
        "done" => Some(match request {
            Request::Prepare(_) if state.is_empty() => MasterAnswer::Promised(State::default()),
            Request::Prepare(_) => {
                MasterAnswer::Promised(parse_state(state).ok_or_else(malformed)?)
            }
            Request::Adopt(_) => MasterAnswer::Adopted,
            Request::Apply(_) => MasterAnswer::Applied(reply),
        }),
        _ => return Err(malformed()),
    };
    Ok(AcceptorAnswer { presence, answer })
}

/// Parses the state from a stored stamp; `None` if there is none.
pub fn stored(stamp: &str) -> Option<Accepted> {
    parse_state(stamp.splitn(3, ' ').nth(2)?)
}

fn parse_state(text: &str) -> Option<Accepted> {
    serde_json::from_str(text).ok()
}

fn presence(mark: &str, run_id: &str) -> Presence {
    let mark = Mark::parse(mark);
    Presence {
        identity: mark.as_ref().and_then(|mark| mark.identity(run_id)),
        nonce: mark.as_ref().and_then(Mark::nonce),
        run_id: run_id.to_owned(),
    }
}

fn script(text: &str) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg([STAMP, text].concat()).arg(2).arg(ROSTER).arg(MARK);
    eval
}

fn accept(how: &str, state: &Accepted, next: Ballot, expected: Ballot) -> Cmd {
    let mut accept = script(ACCEPT);
    accept.arg(how).arg(word(state.accepted)).arg(word(next)).arg(word(expected));
    accept.arg(serde_json::to_string(state).unwrap_or_default()).arg(&state.value.cluster);
    accept
}

fn word(Ballot { epoch, counter, worker }: Ballot) -> String {
    format!("{epoch}:{counter}:{worker}")
}

fn ballot(word: &str) -> RedisResult<Ballot> {
    let mut numbers = word.splitn(3, ':').map(str::parse);
    let mut number = || numbers.next()?.ok();
    let mut ballot = || Some(Ballot { epoch: number()?, counter: number()?, worker: number()? });
    ballot().ok_or_else(malformed)
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
        let accepted = Ballot { epoch: 1, counter: 7, worker: 8 };
        let value = Roster { cluster: "c 1".to_owned(), version: 9, ..Roster::default() };
        let state = Accepted { accepted, value, ..Accepted::default() };
        let json = serde_json::to_string(&state).expect("JSON");
        assert_eq!(stored(&format!("1:9:9 1:7:8 {json}")), Some(state));
        for broken in ["", "1:9:9 1:7:8 ", "1:9:9 1:7:8", "1:9:9 1:7:8 {", "text"] {
            assert_eq!(stored(broken), None, "{broken:?}");
        }
    }
}
