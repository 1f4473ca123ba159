//! Loading an unknown script: masters check whether it is Lua. If it is, the script is kept, and run if requested.

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
use crate::decision::quorum::agreement::{Agreement, Verdict};
use crate::lua::Script;
use crate::lua::canonical::Canonical;
use crate::metrics::QuestionKind;
use crate::names::slot::Share;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// The load of an unknown script; see the module.
#[derive(Debug)]
pub struct Load {
    script: Arc<Script>,
    then: Then,
    /// The compile error, by master; none if the script is Lua.
    verdicts: Option<Agreement<Option<Box<[u8]>>>>,
    trouble: Trouble,
}

/// Purpose of loading a script.
#[derive(Debug)]
pub enum Then {
    /// `SCRIPT LOAD`
    Tell,
    /// `EVAL`
    Run(Box<Program>),
    /// `EVAL_RO` of a script whose shebang forbids that. This is the reply, provided that the text is Lua.
    Refuse(Reply),
    /// `EVAL` after `MULTI`, which `EXEC` runs or rejects.
    Queue,
}

/// The step after a [`Load`].
#[derive(Debug)]
pub(super) enum Loaded {
    /// A plain step.
    Next(Next),
    /// Run the program.
    Run(Box<Program>),
}

/// Runs a script that has proved valid.
impl From<Loaded> for Next {
    fn from(loaded: Loaded) -> Self {
        match loaded {
            Loaded::Next(next) => next,
            Loaded::Run(program) => Self::go_on_as(Kind::Program(program)),
        }
    }
}

impl Load {
    /// Creates the load of a script that has not been sent yet.
    pub fn new(script: Arc<Script>, then: Then) -> Self {
        Self { script, then, verdicts: None, trouble: Trouble::default() }
    }

    /// Whether a valid script is run.
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
        match verdicts.answer(received.master, why) {
            None => Loaded::Next(Next::WAIT),
            Some(Verdict::Agreed(None)) => self.loaded(),
            Some(Verdict::Agreed(Some(why))) => {
                let why = refused(why);
                self.refused(why)
            }
            Some(Verdict::Apart) => self.unavailable(rules, Others::Gone),
        }
    }

    /// Waits for silent masters, whose answers would decide, until the patience ends.
    fn waited(&mut self, rules: &Rules, is_last: bool) -> Loaded {
        if !is_last {
            return Loaded::Next(Next::WAIT);
        }
        self.unavailable(rules, Others::Silent)
    }

    /// Reports failure to the client. Later answers must not turn that into success.
    fn unavailable(&mut self, rules: &Rules, others: Others) -> Loaded {
        let answered = self.verdicts.take().map_or(0, |verdicts| verdicts.answered());
        Loaded::Next(Next::reply(self.trouble.unavailable(rules, answered, others)))
    }

    fn loaded(&mut self) -> Loaded {
        // Later answers add nothing.
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

    /// Whether the program to run is rejected for its number of keys.
    fn has_too_many_keys(&self) -> bool {
        matches!(&self.then, Then::Run(program) if program.has_too_many_keys())
    }

    fn leaves(&self, share: Share) -> bool {
        matches!(&self.then, Then::Run(program) if program.leaves(share))
    }

    /// Returns the keys on which it takes turns.
    fn turns(&self) -> &[u64] {
        match &self.then {
            Then::Run(program) => program.turns(),
            Then::Tell | Then::Refuse(_) | Then::Queue => &[],
        }
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, .. } = on;
        let asked = asked.voters;
        self.verdicts = Some(Agreement::new(rules.quorum, asked));
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

/// See `luaCreateFunction` in `eval.c`.
fn refused(why: &[u8]) -> String {
    let why = String::from_utf8_lossy(why);
    format!("ERR Error compiling script (new function): {why}")
}
