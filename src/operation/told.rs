//! What onlookers are told about an operation on a lease: monitors the calls of a recognised script, and subscribers to
//! keyspace notifications the events of the key. Masters run neither that script nor the client's command.

use super::behaviour::On;
use super::on_register::ScriptCall;
use super::program::Message;
use super::request;
use crate::catalogue::events::KeyEvent;
use crate::lua::program::Tells;
use crate::lua::{Effect, LockState};
use crate::resp::reply::Reply;

/// What an operation has found and done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done<'a> {
    /// What a quorum held before.
    pub(super) held: LockState,
    /// The client's script; `None` if it has sent a command.
    pub(super) script: Option<&'a ScriptCall>,
    /// Effect of that command.
    pub(super) effect: LeaseEffect,
}

/// Effect of a command on a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseEffect {
    Nothing,
    Deleted,
    Prolonged,
    Written,
}

impl<'a> Done<'a> {
    /// Returns what a command on the client's own lease has found and done, as its reply tells: one of `missing` and
    /// `other`, or the one after an `effect`. `None` if that is unknown.
    pub(super) fn by_reply(
        reply: &Reply,
        (effect, missing, other): (Option<LeaseEffect>, &Reply, &Reply),
        script: Option<&'a ScriptCall>,
    ) -> Option<Self> {
        let (held, effect) = match effect {
            Some(effect) => (LockState::Ours, effect),
            None if reply == missing => (LockState::Missing, LeaseEffect::Nothing),
            None if reply == other => (LockState::Theirs, LeaseEffect::Nothing),
            None => return None,
        };
        Some(Self { held, script, effect })
    }

    /// Returns what onlookers are told.
    pub(super) fn told(self, on: On<'_>, tells: Tells) -> Vec<Message> {
        let deeds = self.script.and_then(|script| script.deeds(self.held, on.key));
        let effect = deeds.as_ref().map_or(self.effect, |deeds| deeds.effect.into());
        let calls = deeds.into_iter().filter(|_| tells.calls).flat_map(|deeds| deeds.calls);
        let called = calls.map(|call| {
            let mut words = Vec::new();
            call.iter().for_each(|word| request::word(&mut words, word));
            Message::Called { db: on.db, words: words.into() }
        });
        let events = self.events(effect).iter().filter(|_| tells.events);
        let happened = events
            .map(|(class, name)| Message::Happened(KeyEvent::new(*class, name, on.db, on.key)));
        called.chain(happened).collect()
    }

    /// Returns the class and name of each event.
    fn events(self, effect: LeaseEffect) -> &'static [(u8, &'static str)] {
        match effect {
            LeaseEffect::Nothing => &[],
            LeaseEffect::Deleted => &[(b'g', "del")],
            LeaseEffect::Prolonged => &[(b'g', "expire")],
            LeaseEffect::Written if self.held == LockState::Missing => {
                &[(b'n', "new"), (b'$', "set"), (b'g', "expire")]
            }
            LeaseEffect::Written => &[(b'$', "set"), (b'g', "expire")],
        }
    }
}

impl From<Effect> for LeaseEffect {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Nothing => Self::Nothing,
            Effect::Deleted => Self::Deleted,
            Effect::Prolonged { .. } => Self::Prolonged,
            Effect::Written { .. } => Self::Written,
        }
    }
}
