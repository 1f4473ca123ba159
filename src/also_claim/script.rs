//! The scripts for the data Redis. Each selects its database itself, so that one connection serves all databases.

use redis::Cmd;

use crate::catalogue::reserved;
use crate::operation::claim::How;

/// Unique name of the last change to a lock: tokens may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyName(pub u128);

/// Whether a claim has the lock now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claimed {
    /// It was free.
    Taken,
    /// The key already held the client's token, and ends no sooner than the client wants.
    Owned,
    /// Another client has it.
    Held,
}

/// The lock that a request is about.
#[derive(Clone, Debug)]
pub struct ScriptPlace {
    /// The database of the client.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
}

impl ScriptPlace {
    fn script(&self, text: &'static str) -> Cmd {
        let mut script = redis::cmd("EVAL");
        script.arg(text).arg(2).arg(&*self.key).arg(beside(&self.key)).arg(self.db);
        script
    }

    /// Takes the lock for `ttl_ms`, or extends it.
    pub fn claim(&self, token: &[u8], name: CopyName, ttl_ms: i64, how: How) -> Cmd {
        let mut script = self.script(include_str!("claim.lua"));
        script.arg(token).arg(bytes(name)).arg(ttl_ms);
        match how {
            How::IfFree => script.arg("none").arg(1),
            How::IfFreeOrOurs { create, prefix } => script.arg(prefix).arg(u8::from(create)),
        };
        script
    }

    /// Lets the lock expire in `ttl_ms`, or never.
    pub fn settle(&self, name: CopyName, ttl_ms: Option<i64>) -> Cmd {
        let mut script = self.script(include_str!("settle.lua"));
        script.arg(bytes(name)).arg(ttl_ms.unwrap_or(-1));
        script
    }

    /// Takes the lock back.
    pub fn take_back(&self, name: CopyName, token: &[u8]) -> Cmd {
        let mut script = self.script(include_str!("take_back.lua"));
        script.arg(bytes(name)).arg(token);
        script
    }

    /// Releases the lock by its token.
    pub fn release(&self, token: &[u8]) -> Cmd {
        let mut script = self.script(include_str!("release.lua"));
        script.arg(token);
        script
    }

    /// Deletes the lock, whoever has it.
    pub fn delete(&self) -> Cmd {
        self.script(include_str!("delete.lua"))
    }

    /// Lets the lock expire in `ttl_ms`, whoever has it.
    pub fn expire(&self, name: CopyName, ttl_ms: i64, conditions: &[&str]) -> Cmd {
        let mut script = self.script(include_str!("expire.lua"));
        script.arg(bytes(name)).arg(ttl_ms).arg(conditions);
        script
    }

    /// Removes the lock's TTL, whoever has it.
    pub fn persist(&self, name: CopyName) -> Cmd {
        let mut script = self.script(include_str!("persist.lua"));
        script.arg(bytes(name));
        script
    }
}

fn bytes(name: CopyName) -> Vec<u8> {
    name.0.to_be_bytes().into()
}

/// Returns the key next to a lock that holds its [`CopyName`] and ends with it.
fn beside(key: &[u8]) -> Vec<u8> {
    [reserved::PREFIX.as_bytes(), b"moving:", key].concat()
}
