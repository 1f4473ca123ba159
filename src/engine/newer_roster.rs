//! Votes that prove a version of the roster unknown to this proxy.
//!
//! A master learned of a membership change before this proxy did. Its vote is kept until the proxy has learned the
//! members from the masters. Only then is it clear whether the vote counts together with the others.

use std::rc::Rc;

use super::Engine;
use super::link::Waiting;
use crate::decision::roster::mark::{Proven, Seal};
use crate::operation::Heard;
use crate::resp::answer::Decoder;
use crate::time::clock;

impl Engine {
    /// Counts a vote again once its version is known. If that takes longer than a client's patience, the vote is
    /// unknown.
    pub(super) fn wait_for_version(self: &Rc<Self>, waiting: Waiting, vote: Proven<Heard<'_>>) {
        let (engine, master, seal) = (Rc::clone(self), vote.master(), vote.seal());
        let raw = vote.answer().raw.to_vec();
        self.rules().quorum.everybody().iter().for_each(|master| self.electorate.attend(master));
        tokio::task::spawn_local(async move {
            let is_known = engine.version_is_known(seal).await;
            let now = clock::now();
            engine.see(now);
            match Decoder::default().decode(&raw) {
                Ok(Some((answer, raw))) if is_known => {
                    engine.answered(waiting, seal.proves(Heard { answer: &answer, raw }), now);
                }
                _ => engine.lost(master, waiting),
            }
        });
    }

    async fn version_is_known(&self, seal: Seal) -> bool {
        let limit = clock::now() + self.rules().patience;
        loop {
            let changed = self.electorate.changed();
            if self.term().version() >= seal.version() {
                return true;
            }
            if tokio::time::timeout_at(limit, changed).await.is_err() {
                return false;
            }
        }
    }
}
