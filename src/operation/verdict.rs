//! Error replies when the masters could not decide.

use super::Rules;
use super::register::TOO_MANY_KEYS;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;

/// The masters without a valid answer, when an operation ends without a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// Waited for until the client's patience ended.
    Silent,
    /// Lost, or their answers do not count: they will give none.
    #[default]
    Gone,
}

impl Others {
    /// Returns the value for an operation that was last waiting for `pending`.
    pub fn of(pending: Option<MasterSet>) -> Self {
        Self::silent_if(pending.is_some_and(|pending| !pending.is_empty()))
    }

    /// Returns the value for an operation that was, or was not, waiting for them.
    pub fn silent_if(is_waiting: bool) -> Self {
        if is_waiting { Self::Silent } else { Self::Gone }
    }

    fn described(self, rules: &Rules) -> String {
        match self {
            Self::Silent => format!("within {}", humantime::format_duration(rules.patience)),
            Self::Gone => "and no more will".to_owned(),
        }
    }
}

/// Masters that have discarded the transaction meant to show keys. A master that is out of memory queues no commands
/// (`processCommand` in `server.c`), but it runs scripts that read.
#[derive(Debug, Default)]
pub struct Discarded(MasterSet);

impl Discarded {
    /// Records a master's answer. Returns whether too many have discarded the transaction for a quorum to show
    /// anything.
    pub fn notes(&mut self, rules: &Rules, master: MasterId, answer: Option<&Answer<'_>>) -> bool {
        let is_one = matches!(answer, Some(Answer::Error(why)) if why.starts_with(b"EXECABORT"));
        if is_one {
            self.0.insert(master);
        }
        is_one && self.0.len() > rules.quorum.tolerates()
    }
}

/// The first error that a master gave to an operation, e.g. `OOM command not allowed ...`: the reply of a single Redis.
#[derive(Debug, Default)]
pub struct Trouble(Option<Box<str>>);

impl Trouble {
    /// Remembers `error` unless there was one before. Unknown scripts and discarded transactions are our own: the proxy
    /// must send them again, and the client has nothing to resend.
    pub fn remember(&mut self, error: &[u8]) {
        if error.starts_with(b"NOSCRIPT") || error.starts_with(b"EXECABORT") {
            return;
        }
        self.0.get_or_insert_with(|| String::from_utf8_lossy(error).into());
    }

    /// Whether no master has answered with an error.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the master's error, or else `otherwise`.
    pub fn or(&self, otherwise: Reply) -> Reply {
        self.0.as_ref().map_or(otherwise, |error| Reply::error(error.to_string()))
    }

    /// Returns the error for too few valid answers.
    pub fn unavailable(&self, rules: &Rules, answered: usize, others: Others) -> Reply {
        match &self.0 {
            Some(error) => Reply::error(error.to_string()),
            None => unavailable(rules, answered, others),
        }
    }

    /// Returns the error for a request that may or may not have been done. A master's error is no proof: that master
    /// has not done it, but others may have. `otherwise` gives the reason if there is no error.
    pub fn unknown(&self, otherwise: Reply) -> Reply {
        match &self.0 {
            Some(error) => Reply::error(format!(
                "UNKNOWN whether the command took effect: a master answered: {error}"
            )),
            None => unknown(otherwise),
        }
    }

    /// Returns the error for a quorum of answers that is not enough to decide without the others.
    pub fn undecided(&self, rules: &Rules, answered: usize) -> Reply {
        match &self.0 {
            Some(error) => Reply::error(error.to_string()),
            None => undecided(rules, answered),
        }
    }
}

/// Returns the error for fewer voters than the quorum: nothing was sent. `why` says what keeps the others from voting.
pub fn too_few_voters(rules: &Rules, voters: usize, why: &str) -> Reply {
    let (masters, needed) = (all_masters(rules), rules.quorum.needed());
    Reply::error(format!(
        "CLUSTERDOWN {voters} of {masters} can vote and {needed} are needed: \
         check that the masters run and can be reached from the proxy{why}"
    ))
}

/// Returns the error for too few voters when the missing ones will vote soon.
pub fn on_probation(rules: &Rules, voters: usize, why: &str) -> Reply {
    let (masters, needed) = (all_masters(rules), rules.quorum.needed());
    Reply::error(format!(
        "LOADING {voters} of {masters} can vote yet and {needed} are needed: try again{why}"
    ))
}

/// Returns `3 masters`, or `3 masters of shard NAME`.
fn all_masters(rules: &Rules) -> String {
    let masters = rules.quorum.masters();
    match &rules.shard {
        Some(name) => format!("{masters} masters of shard {name}"),
        None => format!("{masters} masters"),
    }
}

/// Returns the error of a proxy that does not serve its masters yet: nothing was sent.
pub fn not_serving(obstacle: &Obstacle) -> Reply {
    let why = &obstacle.why;
    Reply::error(match obstacle.passes {
        true => format!("LOADING this proxy does not serve yet: {why}"),
        false => format!("CLUSTERDOWN this proxy does not serve yet: {why}"),
    })
}

/// Returns the error if no master is reachable for a request that needs just one: nothing was sent.
pub fn no_master(rules: &Rules) -> Reply {
    let masters = all_masters(rules);
    Reply::error(format!(
        "CLUSTERDOWN none of {masters} is up: check that the masters run and can be \
         reached from the proxy"
    ))
}

/// Returns the error if no reachable master has answered: it is unknown whether the request was done.
pub fn nobody_answered(rules: &Rules) -> Reply {
    let masters = all_masters(rules);
    Reply::error(format!(
        "CLUSTERDOWN none of {masters} answered: check that the masters run and can be \
         reached from the proxy"
    ))
}

/// Returns the error if no master has confirmed a subscription; `refusal` is the error of one of them. Redisson
/// searches for the word `subscribe` in an error. Without it, Redisson waits for its timeout
/// (`CommandPubSubDecoder.onError`).
pub fn cannot_subscribe(rules: &Rules, refusal: Option<&str>) -> Reply {
    let (masters, timeout) = (all_masters(rules), humantime::format_duration(rules.vote_timeout));
    Reply::error(match refusal {
        Some(refusal) => format!("CLUSTERDOWN cannot subscribe: a master answered: {refusal}"),
        None => format!(
            "CLUSTERDOWN cannot subscribe: none of {masters} answered within {timeout}: \
             check that the masters run and can be reached from the proxy"
        ),
    })
}

/// Returns the error if masters refuse to report changed keys.
pub fn cannot_track(refusal: &str) -> Reply {
    Reply::error(format!("CLUSTERDOWN cannot track: a master answered: {refusal}"))
}

/// Returns the error if a quorum did not answer in time, or gave conflicting answers.
fn unavailable(rules: &Rules, answered: usize, others: Others) -> Reply {
    let (masters, needed) = (all_masters(rules), rules.quorum.needed());
    let others = others.described(rules);
    if answered >= needed {
        return Reply::error(format!(
            "CLUSTERDOWN {answered} of {masters} answered {others}, which does not show \
             whether the command took effect: try again"
        ));
    }
    Reply::error(format!(
        "CLUSTERDOWN {answered} of {masters} answered {others}, and {needed} are \
         needed: check that the masters run and can be reached from the proxy"
    ))
}

/// Returns the error for a quorum of answers that is not enough to decide without the others, or if too few have
/// answered yet.
pub fn undecided(rules: &Rules, answered: usize) -> Reply {
    let (masters, needed) = (all_masters(rules), rules.quorum.needed());
    if answered < needed {
        return Reply::error(format!(
            "TRYAGAIN {answered} of {masters} answered in time and {needed} are needed: try again"
        ));
    }
    Reply::error(format!(
        "TRYAGAIN {answered} of {masters} answered and no majority of them agrees: try again"
    ))
}

/// Returns the error for too many clients waiting for one key.
pub fn too_many_waiting() -> Reply {
    Reply::error("TRYAGAIN too many clients are waiting for this key: try again")
}

/// Returns the error for a client whose turn did not come because masters could not decide the key's contents: nothing
/// was sent.
pub fn waited_in_line() -> Reply {
    Reply::error(
        "TRYAGAIN masters could not agree on the key's contents while earlier requests waited: try again",
    )
}

/// Returns the error for a script that reaches a key of another shard (`scriptVerifyClusterState` in Redis's
/// `script.c`).
pub fn of_another_shard() -> Reply {
    Reply::error("ERR Script attempted to access a non local key in a cluster node")
}

/// Returns the error for a script that reaches one undeclared key after another.
pub fn undeclared_without_end() -> Reply {
    Reply::error(
        "TRYAGAIN the script kept reaching undeclared keys for longer than --patience: declare its keys",
    )
}

/// Returns the error for a program that would write to more keys than can be tracked.
pub fn too_many_keys() -> Reply {
    Reply::Error(TOO_MANY_KEYS.into())
}

/// Returns the reply of a program whose client would mistake an expired lock for a held one.
pub fn over() -> Reply {
    Reply::error("UNKNOWN whether the key still exists: its time to live passed before the reply")
}

/// Returns the error for a request that may or may not have been done. It must not be `CLUSTERDOWN`, `TRYAGAIN` or
/// `LOADING`: in Redis these mean that nothing was done, so Redisson and cluster clients retry.
pub fn unknown(reply: Reply) -> Reply {
    match &reply {
        Reply::Error(error) if is_undecided(error) => {
            let why = error.split_once(' ').map_or(&error[..], |(_, why)| why);
            Reply::error(format!("UNKNOWN whether the command took effect: {why}"))
        }
        _ => reply,
    }
}

/// Whether this error leaves the outcome of the client's request unknown, or asks it to retry.
pub fn is_undecided(error: &str) -> bool {
    let codes = ["CLUSTERDOWN ", "TRYAGAIN ", "LOADING ", "UNKNOWN "];
    codes.iter().any(|code| error.starts_with(code))
}

/// Whether an error is a master's answer to the question; other errors mean that it has no answer.
pub fn is_reply(error: &[u8]) -> bool {
    let answers: [&[u8]; 4] = [b"ERR ", b"WRONGTYPE ", b"NOGROUP ", b"INVALIDOBJ "];
    answers.iter().any(|start| error.starts_with(start))
}

/// Returns the error for a master that has not answered within the time limit of large reads.
pub fn too_large_to_read() -> Reply {
    Reply::error(
        "TRYAGAIN the value is large and a master did not answer within seconds: read it in parts",
    )
}

/// Returns the error for masters that never gave the same answer, when asked one after the other.
pub fn changes_all_the_time() -> Reply {
    Reply::error(
        "TRYAGAIN the value is large and changes constantly, so no two masters gave the same answer: read it in parts, or when there are fewer writes",
    )
}

/// Reason why this proxy does not serve yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// A description for people.
    pub why: String,
    /// Whether it ends by itself, after `--restart-wait` at the latest.
    pub passes: bool,
}

impl Obstacle {
    /// Creates an obstacle that must be removed by hand.
    pub fn lasting(why: String) -> Self {
        Self { why, passes: false }
    }

    /// Creates an obstacle that ends by itself.
    pub fn passing(why: String) -> Self {
        Self { why, passes: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_not_told_that_a_master_has_forgotten_one_of_our_scripts() {
        let mut trouble = Trouble::default();
        trouble.remember(b"NOSCRIPT No matching script. Please use EVAL.");
        assert_eq!(trouble.or(Reply::OK), Reply::OK);
        trouble.remember(b"OOM command not allowed");
        assert_eq!(trouble.or(Reply::OK), Reply::error("OOM command not allowed".to_owned()));
    }

    #[test]
    fn what_a_master_has_said_is_named_where_nobody_knows_whether_it_was_done() {
        let (mut trouble, too_few) = (Trouble::default(), || Reply::error("CLUSTERDOWN too few"));
        let unknown =
            |why: &str| Reply::error(format!("UNKNOWN whether the command took effect: {why}"));
        assert_eq!(trouble.unknown(too_few()), unknown("too few"));
        trouble.remember(b"OOM command not allowed");
        assert_eq!(
            trouble.unknown(too_few()),
            unknown("a master answered: OOM command not allowed")
        );
    }
}
