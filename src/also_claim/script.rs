//! The scripts that the data Redis gets. Each selects its database by itself, so that one connection does for all.

use redis::Cmd;

use super::copy::Name;
use crate::catalogue::reserved;
use crate::operation::claim::How;

/// Which lock a request is about.
#[derive(Clone, Debug)]
pub struct Place {
    /// The database of the client.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
}

impl Place {
    fn script(&self, text: &'static str) -> Cmd {
        let mut script = redis::cmd("EVAL");
        script.arg(text).arg(2).arg(&*self.key).arg(beside(&self.key)).arg(self.db);
        script
    }

    /// Takes it for `ttl_ms`, or prolongs it.
    pub fn claim(&self, token: &[u8], name: Name, ttl_ms: i64, how: How) -> Cmd {
        let mut script = self.script(include_str!("claim.lua"));
        script.arg(token).arg(bytes(name)).arg(ttl_ms);
        match how {
            How::IfFree => script.arg("none").arg(1),
            How::IfFreeOrOurs { create, prefix } => script.arg(prefix).arg(u8::from(create)),
        };
        script
    }

    /// Lets it end in `ttl_ms`, or never.
    pub fn settle(&self, name: Name, ttl_ms: Option<i64>) -> Cmd {
        let mut script = self.script(include_str!("settle.lua"));
        script.arg(bytes(name)).arg(ttl_ms.unwrap_or(-1));
        script
    }

    /// Takes it back.
    pub fn take_back(&self, name: Name, token: &[u8]) -> Cmd {
        let mut script = self.script(include_str!("take_back.lua"));
        script.arg(bytes(name)).arg(token);
        script
    }

    /// Gives it back by its token.
    pub fn release(&self, token: &[u8]) -> Cmd {
        let mut script = self.script(include_str!("release.lua"));
        script.arg(token);
        script
    }

    /// Deletes it, whoever has it.
    pub fn delete(&self) -> Cmd {
        self.script(include_str!("delete.lua"))
    }

    /// Lets it end in `ttl_ms`, whoever has it.
    pub fn expire(&self, name: Name, ttl_ms: i64, conditions: &[&str]) -> Cmd {
        let mut script = self.script(include_str!("expire.lua"));
        script.arg(bytes(name)).arg(ttl_ms).arg(conditions);
        script
    }

    /// Lets it end never, whoever has it.
    pub fn persist(&self, name: Name) -> Cmd {
        let mut script = self.script(include_str!("persist.lua"));
        script.arg(bytes(name));
        script
    }
}

fn bytes(name: Name) -> Vec<u8> {
    name.0.to_be_bytes().into()
}

/// The key beside a lock in which its [`Name`] stands, and which ends with it.
fn beside(key: &[u8]) -> Vec<u8> {
    [reserved::PREFIX.as_bytes(), b"moving:", key].concat()
}
