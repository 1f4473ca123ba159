//! A script that is seen for the first time: do the masters take it for Lua? If so it is kept, and run
//! if it was to be run.

use std::sync::Arc;

use crate::client::reply::Reply;
use crate::lua::Script;
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::program::Program;
use crate::operation::request::{self, Form};
use crate::operation::verdict::Trouble;
use crate::operation::{Next, Received, Rules};
use crate::quorum::MasterSet;
use crate::quorum::read::{Read, Verdict};

/// See the module.
#[derive(Debug)]
pub struct Load {
    script: Arc<Script>,
    /// What runs then; nothing for `SCRIPT LOAD`.
    then: Option<Box<Program>>,
    /// Why it is not Lua, by master.
    verdicts: Option<Read<Option<Box<[u8]>>>>,
    trouble: Trouble,
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
    /// `SCRIPT LOAD`, or an `EVAL` that runs `then`.
    pub fn new(script: Arc<Script>, then: Option<Program>) -> Self {
        let then = then.map(|program| Box::new(program.after(1)));
        Self { script, then, verdicts: None, trouble: Trouble::default() }
    }

    /// The keys whose turns it takes.
    pub(super) fn turns(&self) -> &[u64] {
        self.then.as_ref().map_or(&[], |program| program.turns())
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
                let answered = verdicts.answered();
                return match verdicts.unknown(received.master) {
                    None => Loaded::Next(Next::WAIT),
                    Some(_) => Loaded::Next(Next::reply(self.trouble.unavailable(rules, answered))),
                };
            }
        };
        match verdicts.value(received.master, |known| *known == why, || why.clone()) {
            None => Loaded::Next(Next::WAIT),
            Some(Verdict::Agreed(None, _)) => self.loaded(),
            Some(Verdict::Agreed(Some(why), _)) => Loaded::Next(Next::reply(refused(why))),
            Some(_) => self.deadline(rules),
        }
    }

    pub(super) fn deadline(&mut self, rules: &Rules) -> Loaded {
        let answered = self.verdicts.as_ref().map_or(0, Read::answered);
        Loaded::Next(Next::reply(self.trouble.unavailable(rules, answered)))
    }

    fn loaded(&mut self) -> Loaded {
        self.script.is_lua();
        match self.then.take() {
            Some(program) => Loaded::Run(program),
            None => Loaded::Next(Next::reply(Reply::bulk(self.script.sha.clone()))),
        }
    }
}

/// `luaCreateFunction` in `eval.c`.
fn refused(why: &[u8]) -> Reply {
    let why = String::from_utf8_lossy(why);
    Reply::error(format!("ERR Error compiling script (new function): {why}"))
}
