//! What masters have still to answer.

use super::run::Token;
use crate::decision::quorum::{MasterId, MasterSet};

/// The answers that are still to come, in the order in which masters were asked. A master may owe several: to what all are asked,
/// and of what it has.
#[derive(Debug, Default)]
pub struct Awaited(Vec<(MasterId, Token)>);

impl Awaited {
    /// These masters are asked what this stands for, besides what they owe.
    pub fn ask(&mut self, masters: MasterSet, token: Token) {
        self.0.extend(masters.iter().map(|master| (master, token)));
    }

    /// The same, and nothing that was asked for anything else is waited for any more.
    pub fn ask_only(&mut self, masters: MasterSet, token: Token) {
        self.ask(masters, token);
        self.0.retain(|(_, other)| *other == token);
    }

    /// Nobody but these masters is waited for.
    pub fn keep(&mut self, masters: MasterSet) {
        self.0.retain(|(master, _)| masters.contains(*master));
    }

    /// What a master has answered: it answers in the order in which it was asked. `None`: it is not waited for.
    pub fn answered(&mut self, master: MasterId) -> Option<Token> {
        let at = self.0.iter().position(|(other, _)| *other == master)?;
        Some(self.0.remove(at).1)
    }

    /// The masters that owe any.
    pub fn masters(&self) -> MasterSet {
        self.0.iter().map(|(master, _)| *master).collect()
    }

    /// Whether nobody owes any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
