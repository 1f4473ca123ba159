//! Outstanding answers of masters.

use super::run::Token;
use crate::decision::quorum::{MasterId, MasterSet};

/// Outstanding answers, in the order of the requests. A master may owe several: one to the request that all receive,
/// and one about the content that it holds.
#[derive(Debug, Default)]
pub struct Awaited(Vec<(MasterId, Token)>);

impl Awaited {
    /// Adds a request to these masters. Answers that they already owe stay outstanding.
    pub fn ask(&mut self, masters: MasterSet, token: Token) {
        self.0.extend(masters.iter().map(|master| (master, token)));
    }

    /// Adds a request to these masters, and drops all answers to other requests.
    pub fn ask_only(&mut self, masters: MasterSet, token: Token) {
        self.ask(masters, token);
        self.0.retain(|(_, other)| *other == token);
    }

    /// Drops the answers of all masters but these.
    pub fn keep(&mut self, masters: MasterSet) {
        self.0.retain(|(master, _)| masters.contains(*master));
    }

    /// Removes the next answer of a master, which answers in the order of its requests, and returns its token. `None`
    /// if no answer is outstanding.
    pub fn answered(&mut self, master: MasterId) -> Option<Token> {
        let at = self.0.iter().position(|(other, _)| *other == master)?;
        Some(self.0.remove(at).1)
    }

    /// Returns the masters that owe an answer.
    pub fn masters(&self) -> MasterSet {
        self.0.iter().map(|(master, _)| *master).collect()
    }

    /// Returns whether no answer is outstanding.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
