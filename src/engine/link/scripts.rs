//! Scripts: a master receives each before its first call, and drops those no longer in use.

use super::{Expected, Link, State};
use crate::lua::canonical::Canonical;
use crate::lua::keyspace;
use crate::lua::program::ProgramText;
use crate::resp::answer::Answer;

/// Maximum programs tracked as loaded. Beyond that, all are loaded again when called.
const MAX_LOADED: usize = 4096;

impl Link {
    /// Sends the master a program before its first call. Waiting for `NOSCRIPT` would not do: later requests rely on
    /// this one being done.
    pub(super) fn load(&self, program: &ProgramText) {
        self.keep_in_step();
        if self.state.borrow_mut().has_to_load(program) {
            self.append_words(&[b"SCRIPT", b"LOAD", &program.text], Expected::Load);
        }
    }

    /// Notes that the master has forgotten a program, and therefore all of them.
    pub fn forgot(&self) {
        self.state.borrow_mut().loaded.clear();
    }

    /// Forgets the programs that were evicted, and makes the master forget them, unless another link does.
    pub fn keep_in_step(&self) {
        let generation = self.residents.generation();
        {
            let mut state = self.state.borrow_mut();
            if std::mem::replace(&mut state.generation, generation) == generation {
                return;
            }
            state.loaded.clear();
        }
        if self.residents.claim_flush(self.master, generation) {
            self.flush_scripts();
        }
    }

    /// Flushes the master's scripts and reloads our own in one transaction, so that no caller, even in another proxy,
    /// misses them.
    fn flush_scripts(&self) {
        self.append_words(&[b"MULTI"], Expected::Flush);
        self.append_words(&[b"SCRIPT", b"FLUSH", b"ASYNC"], Expected::Flush);
        let canonical = Canonical::ALL.iter().map(|script| script.text().as_bytes());
        let programs = self.residents.ours().iter().map(|program| &program.text[..]);
        let of_registers = keyspace::all().into_iter().map(|script| script.text.as_bytes());
        for text in canonical.chain(of_registers).chain(programs) {
            self.append_words(&[b"SCRIPT", b"LOAD", text], Expected::Load);
        }
        self.append_words(&[b"EXEC"], Expected::Flush);
    }

    /// Retries a flush on a master busy with a script, but not on one whose ACL forbids it.
    pub(super) fn flush_answered(&self, answer: &Answer<'_>) {
        let Answer::Error(error) = answer else { return };
        let why = String::from_utf8_lossy(error);
        if !why.contains("NOPERM") {
            self.residents.flush_lost(self.master);
            self.state.borrow_mut().generation = 0;
        } else if self.residents.flush_refused() {
            tracing::warn!(
                master = %self.name(),
                "the master refuses to flush scripts, so later ones run slower: {why}: allow the proxy to call MULTI, EXEC and SCRIPT FLUSH there, and restart the proxy"
            );
        }
    }
}

impl State {
    /// Whether the program must be loaded first; marks it as loaded.
    pub(super) fn has_to_load(&mut self, program: &ProgramText) -> bool {
        if self.loaded.contains(&program.sha) {
            return false;
        }
        if self.loaded.len() >= MAX_LOADED {
            self.loaded.clear();
        }
        self.loaded.insert(program.sha.clone())
    }
}
