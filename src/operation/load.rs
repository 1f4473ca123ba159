//! A script that is seen for the first time: do the masters take it for Lua? If so it is kept, and run
//! if it was to be run.

use std::sync::Arc;

use super::Asked;
use super::Kind;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::lock_request::LockRequest;
use super::program::Program;
use super::request::{self, Form};
use super::verdict::{Others, Trouble};
use super::{Next, Received, Rules};
use crate::client::outbox::Order;
use crate::decision::quorum::read::{QuorumRead, Verdict};
use crate::lua::Script;
use crate::lua::canonical::Canonical;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// See the module.
#[derive(Debug)]
pub struct Load {
    script: Arc<Script>,
    then: Then,
    /// Why it is not Lua, by master.
    verdicts: Option<QuorumRead<Option<Box<[u8]>>>>,
    trouble: Trouble,
}

/// What a script is loaded for.
#[derive(Debug)]
pub enum Then {
    /// `SCRIPT LOAD`
    Tell,
    /// `EVAL`
    Run(Box<Program>),
    /// `EVAL_RO` of what its shebang keeps from running so: this is the reply, if the text is Lua at all.
    Refuse(Reply),
    /// `EVAL` after `MULTI`, which `EXEC` runs or complains about.
    Queue,
}

/// What comes after a [`Load`].
#[derive(Debug)]
pub(super) enum Loaded {
    /// This.
    Next(Next),
    /// The program.
    Run(Box<Program>),
}

/// A script that turned out to be one is run.
impl From<Loaded> for Next {
    fn from(loaded: Loaded) -> Self {
        match loaded {
            Loaded::Next(next) => next,
            Loaded::Run(program) => Self::go_on_as(Kind::Program(program)),
        }
    }
}

impl Load {
    /// A script that nobody was asked about yet.
    pub fn new(script: Arc<Script>, then: Then) -> Self {
        Self { script, then, verdicts: None, trouble: Trouble::default() }
    }

    /// Whether the script is run, if it is one.
    pub(super) fn runs(&self) -> bool {
        matches!(self.then, Then::Run(_))
    }

    fn answered(&mut self, rules: &Rules, received: Received<'_>) -> Loaded {
        let Some(verdicts) = &mut self.verdicts else { return Loaded::Next(Next::WAIT) };
        let why: Option<Box<[u8]>> = match received.answer {
            Some(Answer::Int(1)) => None,
            Some(Answer::Bulk(why)) => Some((*why).into()),
            other => {
                if let Some(Answer::Error(error)) = other {
                    self.trouble.remember(error);
                }
                return match verdicts.unknown(received.master) {
                    None => Loaded::Next(Next::WAIT),
                    Some(_) => self.unavailable(rules, Others::Gone),
                };
            }
        };
        match verdicts.value(received.master, |known| *known == why, || why.clone()) {
            None => Loaded::Next(Next::WAIT),
            Some(Verdict::Agreed(None, _)) => self.loaded(),
            Some(Verdict::Agreed(Some(why), _)) => {
                let why = refused(why);
                self.refused(why)
            }
            Some(_) => self.unavailable(rules, Others::Gone),
        }
    }

    /// Who is silent would decide, and is waited for until the patience ends.
    fn waited(&mut self, rules: &Rules, is_last: bool) -> Loaded {
        if !is_last {
            return Loaded::Next(Next::WAIT);
        }
        self.unavailable(rules, Others::Silent)
    }

    /// The client is told that it did not work: answers that come later must not make it work.
    fn unavailable(&mut self, rules: &Rules, others: Others) -> Loaded {
        let answered = self.verdicts.take().map_or(0, |verdicts| verdicts.answered());
        Loaded::Next(Next::reply(self.trouble.unavailable(rules, answered, others)))
    }

    fn loaded(&mut self) -> Loaded {
        // Later answers are no news.
        self.verdicts = None;
        self.script.found_lua();
        let then = std::mem::replace(&mut self.then, Then::Tell);
        if !matches!(then, Then::Queue) {
            self.script.keep();
        }
        match then {
            Then::Run(program) => Loaded::Run(program),
            Then::Tell => Loaded::Next(Next::reply(Reply::bulk(self.script.sha.clone()))),
            Then::Refuse(reply) => Loaded::Next(Next::reply(reply)),
            Then::Queue => Loaded::Next(Next::reply(Reply::QUEUED)),
        }
    }

    fn refused(&mut self, why: String) -> Loaded {
        self.verdicts = None;
        self.script.refuse(why.clone());
        let queued = matches!(self.then, Then::Queue);
        Loaded::Next(Next::reply(if queued { Reply::QUEUED } else { Reply::error(why) }))
    }
}

impl Behaviour for Load {
    fn order(&self) -> Order {
        Order::Alone
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Program
    }

    fn only_looks(&self) -> bool {
        true
    }

    fn wish(&self) -> LockRequest {
        if self.runs() { LockRequest::Other } else { LockRequest::Look }
    }

    /// Whether the program behind it is refused for the number of its keys.
    fn has_too_many_keys(&self) -> bool {
        matches!(&self.then, Then::Run(program) if program.has_too_many_keys())
    }

    /// The keys whose turns it takes.
    fn turns(&self) -> &[u64] {
        match &self.then {
            Then::Run(program) => program.turns(),
            Then::Tell | Then::Refuse(_) | Then::Queue => &[],
        }
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, .. } = on;
        let asked = asked.voters;
        self.verdicts = Some(QuorumRead::new(rules.quorum, asked));
    }

    fn encode(&self, _: On<'_>, form: Form, out: &mut Vec<u8>) {
        request::script(out, form, Canonical::Compile, b"", &[self.script.code()]);
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        self.answered(on.rules, received).into()
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        self.waited(on.rules, is_last).into()
    }
}

/// `luaCreateFunction` in `eval.c`.
fn refused(why: &[u8]) -> String {
    let why = String::from_utf8_lossy(why);
    format!("ERR Error compiling script (new function): {why}")
}
