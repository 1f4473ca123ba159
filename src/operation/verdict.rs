//! What the client is told when the masters could not decide.

use super::Rules;
use super::register::TOO_MANY_KEYS;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;

/// Masters without an answer that counts, when an operation ends without a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// They were waited for until the client's patience ended.
    Silent,
    /// They will give none: they were lost, or what they said does not count.
    #[default]
    Gone,
}

impl Others {
    /// Those of an operation that waited for `pending` in the end.
    pub fn of(pending: Option<MasterSet>) -> Self {
        Self::silent_if(pending.is_some_and(|pending| !pending.is_empty()))
    }

    /// Those of an operation that waited for them in the end, or for nobody.
    pub fn silent_if(is_waiting: bool) -> Self {
        if is_waiting { Self::Silent } else { Self::Gone }
    }

    fn described(self, rules: &Rules) -> String {
        match self {
            Self::Silent => format!("within {}", humantime::format_duration(rules.patience)),
            Self::Gone => "and the others will not".to_owned(),
        }
    }
}

/// Masters that have discarded the transaction in which they were to show keys. One that is out of memory queues nothing at all
/// (`processCommand` in `server.c`), but it runs scripts that read.
#[derive(Debug, Default)]
pub struct Discarded(MasterSet);

impl Discarded {
    /// Notes what a master says. Returns whether so many have discarded it that no quorum shows anything.
    pub fn notes(&mut self, rules: &Rules, master: MasterId, answer: Option<&Answer<'_>>) -> bool {
        let is_one = matches!(answer, Some(Answer::Error(why)) if why.starts_with(b"EXECABORT"));
        if is_one {
            self.0.insert(master);
        }
        is_one && self.0.len() > rules.quorum.tolerates()
    }
}

/// The first error a master gave to an operation, e.g. `OOM command not allowed ...`: what a single
/// Redis would have said.
#[derive(Debug, Default)]
pub struct Trouble(Option<Box<str>>);

impl Trouble {
    /// Remembers `error` unless there was one before. A script that is not known, or a transaction that was discarded, is one of
    /// ours: it is for us to send it again, and the client has no other to send.
    pub fn remember(&mut self, error: &[u8]) {
        if error.starts_with(b"NOSCRIPT") || error.starts_with(b"EXECABORT") {
            return;
        }
        self.0.get_or_insert_with(|| String::from_utf8_lossy(error).into());
    }

    /// What a master said, or else `otherwise`.
    pub fn or(&self, otherwise: Reply) -> Reply {
        self.0.as_ref().map_or(otherwise, |error| Reply::error(error.to_string()))
    }

    /// Fewer masters than a quorum gave an answer that counts.
    pub fn unavailable(&self, rules: &Rules, answered: usize, others: Others) -> Reply {
        match &self.0 {
            Some(error) => Reply::error(error.to_string()),
            None => unavailable(rules, answered, others),
        }
    }

    /// What was sent, and of which nobody knows whether it was done. What a master has said is no answer: it has not done it, and
    /// others may have. `otherwise` says why if none has said anything.
    pub fn unknown(&self, otherwise: Reply) -> Reply {
        match &self.0 {
            Some(error) => {
                Reply::error(format!("UNKNOWN whether it was done: a master answered: {error}"))
            }
            None => unknown(otherwise),
        }
    }

    /// A quorum answered, but it takes the others to know.
    pub fn undecided(&self, rules: &Rules, answered: usize) -> Reply {
        match &self.0 {
            Some(error) => Reply::error(error.to_string()),
            None => undecided(rules, answered),
        }
    }
}

/// Fewer voters than the quorum: nothing was sent. `why` says what keeps others from voting.
pub fn too_few_voters(rules: &Rules, voters: usize, why: &str) -> Reply {
    let (masters, needed) = (rules.quorum.masters(), rules.quorum.needed());
    Reply::error(format!(
        "CLUSTERDOWN {voters} of {masters} masters can vote and {needed} are needed: \
         check that the masters run and can be reached from the proxy{why}"
    ))
}

/// The same, but those that are missing will vote in a while.
pub fn on_probation(rules: &Rules, voters: usize, why: &str) -> Reply {
    let (masters, needed) = (rules.quorum.masters(), rules.quorum.needed());
    Reply::error(format!(
        "LOADING {voters} of {masters} masters can vote yet and {needed} are needed: try again{why}"
    ))
}

/// This proxy does not serve its masters yet: nothing was sent.
pub fn not_serving(obstacle: &Obstacle) -> Reply {
    let why = &obstacle.why;
    Reply::error(match obstacle.passes {
        true => format!("LOADING this proxy does not serve yet: {why}"),
        false => format!("CLUSTERDOWN this proxy does not serve yet: {why}"),
    })
}

/// No master is there for what takes one of them only: nothing was sent.
pub fn no_master(rules: &Rules) -> Reply {
    let masters = rules.quorum.masters();
    Reply::error(format!(
        "CLUSTERDOWN none of {masters} masters is up: check that the masters run and can be \
         reached from the proxy"
    ))
}

/// None of those that were there has answered: whether it was done is unknown.
pub fn nobody_answered(rules: &Rules) -> Reply {
    let masters = rules.quorum.masters();
    Reply::error(format!(
        "CLUSTERDOWN none of {masters} masters answered: check that the masters run and can be \
         reached from the proxy"
    ))
}

/// No master has confirmed a subscription; `refusal` is what one of them said. Redisson looks for
/// the word `subscribe` in an error, and waits for its timeout when it is not there
/// (`CommandPubSubDecoder.onError`).
pub fn cannot_subscribe(rules: &Rules, refusal: Option<&str>) -> Reply {
    let (masters, timeout) =
        (rules.quorum.masters(), humantime::format_duration(rules.vote_timeout));
    Reply::error(match refusal {
        Some(refusal) => format!("CLUSTERDOWN cannot subscribe, the masters say: {refusal}"),
        None => format!(
            "CLUSTERDOWN cannot subscribe: none of {masters} masters answered within {timeout}: \
             check that the masters run and can be reached from the proxy"
        ),
    })
}

/// A quorum did not answer in time, or not alike.
fn unavailable(rules: &Rules, answered: usize, others: Others) -> Reply {
    let (masters, needed) = (rules.quorum.masters(), rules.quorum.needed());
    let others = others.described(rules);
    if answered >= needed {
        return Reply::error(format!(
            "CLUSTERDOWN {answered} of {masters} masters answered {others}, and that does not tell \
             whether it was done: try again"
        ));
    }
    Reply::error(format!(
        "CLUSTERDOWN {answered} of {masters} masters answered {others}, and {needed} are \
         needed: check that the masters run and can be reached from the proxy"
    ))
}

/// A quorum answered, but it takes the others to know; or too few have answered yet.
pub fn undecided(rules: &Rules, answered: usize) -> Reply {
    let (masters, needed) = (rules.quorum.masters(), rules.quorum.needed());
    if answered < needed {
        return Reply::error(format!(
            "TRYAGAIN {answered} of {masters} masters answered in time and {needed} are needed: try again"
        ));
    }
    Reply::error(format!(
        "TRYAGAIN {answered} of {masters} masters answered and no majority of them agrees: try again"
    ))
}

/// Too many clients wait for one key.
pub fn too_many_waiting() -> Reply {
    Reply::error("TRYAGAIN too many clients are waiting for this key: try again")
}

/// Masters could not tell about a key for as long as a client has waited for its turn on it: nothing was sent.
pub fn waited_in_line() -> Reply {
    Reply::error(
        "TRYAGAIN masters could not tell what the key holds while the requests before this one waited: try again",
    )
}

/// A script goes from one key to the next that it has not declared.
pub fn undeclared_without_end() -> Reply {
    Reply::error(
        "TRYAGAIN the script came to one undeclared key after the other for longer than --patience: declare its keys",
    )
}

/// What one program would write to is too much to be kept track of.
pub fn too_many_keys() -> Reply {
    Reply::Error(TOO_MANY_KEYS.into())
}

/// What a program is answered whose client would take for a lock what has ended.
pub fn over() -> Reply {
    Reply::error(
        "UNKNOWN what is left of it: the reply comes so late that a time to live that was set is over",
    )
}

/// What was sent, and of which nobody knows whether it was done. Redisson and clients of clusters repeat what they are told by
/// `CLUSTERDOWN`, `TRYAGAIN` or `LOADING`, which mean with Redis that nothing was: it must not be one of these.
pub fn unknown(reply: Reply) -> Reply {
    match &reply {
        Reply::Error(error) if is_undecided(error) => {
            let why = error.split_once(' ').map_or(&error[..], |(_, why)| why);
            Reply::error(format!("UNKNOWN whether it was done: {why}"))
        }
        _ => reply,
    }
}

/// Whether a client that was told this does not know what became of its request, or has to come again.
pub fn is_undecided(error: &str) -> bool {
    let codes = ["CLUSTERDOWN ", "TRYAGAIN ", "LOADING ", "UNKNOWN "];
    codes.iter().any(|code| error.starts_with(code))
}

/// Whether an error is a master's answer to the question; others it gives for want of something of its own.
pub fn is_reply(error: &[u8]) -> bool {
    let answers: [&[u8]; 4] = [b"ERR ", b"WRONGTYPE ", b"NOGROUP ", b"INVALIDOBJ "];
    answers.iter().any(|start| error.starts_with(start))
}

/// A master has not answered within the time that large reads have.
pub fn too_large_to_read() -> Reply {
    Reply::error(
        "TRYAGAIN what is read is large, and a master did not answer for seconds: read it in parts",
    )
}

/// Masters that were asked one after the other never said the same.
pub fn changes_all_the_time() -> Reply {
    Reply::error(
        "TRYAGAIN what is read is large and changes all the time, so that no two masters said the \
         same: read it in parts, or again when less is written to it",
    )
}

/// Why this proxy does not serve yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// For people.
    pub why: String,
    /// It ends by itself, after `--restart-wait` at the latest.
    pub passes: bool,
}

impl Obstacle {
    /// One that somebody has to remove.
    pub fn lasting(why: String) -> Self {
        Self { why, passes: false }
    }

    /// One that ends by itself.
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
        let unknown = |why: &str| Reply::error(format!("UNKNOWN whether it was done: {why}"));
        assert_eq!(trouble.unknown(too_few()), unknown("too few"));
        trouble.remember(b"OOM command not allowed");
        assert_eq!(
            trouble.unknown(too_few()),
            unknown("a master answered: OOM command not allowed")
        );
    }
}
