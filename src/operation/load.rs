//! A script that is seen for the first time: do the masters take it for Lua? If so it is kept, and run
//! if it was to be run.

use std::sync::Arc;

use super::program::Program;
use super::request::{self, Form};
use super::verdict::{Others, Trouble};
use super::{Next, Received, Rules};
use crate::decision::quorum::MasterSet;
use crate::decision::quorum::read::{Read, Verdict};
use crate::lua::Script;
use crate::lua::canonical::Canonical;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;

/// See the module.
#[derive(Debug)]
pub struct Load {
    script: Arc<Script>,
    then: Then,
    /// Why it is not Lua, by master.
    verdicts: Option<Read<Option<Box<[u8]>>>>,
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

impl Load {
    /// A script that nobody was asked about yet.
    pub fn new(script: Arc<Script>, then: Then) -> Self {
        Self { script, then, verdicts: None, trouble: Trouble::default() }
    }

    /// Whether the program behind it is refused for the number of its keys.
    pub(super) fn has_too_many_keys(&self) -> bool {
        matches!(&self.then, Then::Run(program) if program.has_too_many_keys())
    }

    /// Whether the script is run, if it is one.
    pub(super) fn runs(&self) -> bool {
        matches!(self.then, Then::Run(_))
    }

    /// The keys whose turns it takes.
    pub(super) fn turns(&self) -> &[u64] {
        match &self.then {
            Then::Run(program) => program.turns(),
            Then::Tell | Then::Refuse(_) | Then::Queue => &[],
        }
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet) {
        self.verdicts = Some(Read::new(rules.quorum, asked));
    }

    pub(super) fn encode(&self, form: Form, out: &mut Vec<u8>) {
        request::script(out, form, Canonical::Compile, b"", &[self.script.code()]);
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Loaded {
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
    pub(super) fn deadline(&mut self, rules: &Rules, is_last: bool) -> Loaded {
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

/// `luaCreateFunction` in `eval.c`.
fn refused(why: &[u8]) -> String {
    let why = String::from_utf8_lossy(why);
    format!("ERR Error compiling script (new function): {why}")
}
