//! What a client has queued since `MULTI`.

use std::sync::Arc;

use crate::catalogue::table::{Command, Spec};
use crate::lua::Script;

/// What an allocation takes beside its bytes.
pub const ALLOCATION: usize = 16;

/// A queued request.
#[derive(Debug)]
pub struct Request {
    /// Its command.
    pub spec: &'static Spec,
    /// Its words, encoded.
    pub words: Box<[u8]>,
    /// The script that it brings along, with what masters said of it: the cache may forget that before `EXEC`.
    pub script: Option<Arc<Script>>,
}

/// What a session has queued since `MULTI`.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The queued requests, in order.
    pub queue: Vec<Request>,
    /// Bytes of their words.
    pub bytes: usize,
    /// How many there are up to the last that changes something in the proxy: what they answer has to be known
    /// before it is done.
    pub to_last_change: usize,
    /// Something has to do with the libraries of functions.
    pub needs_libraries: bool,
    /// A command was refused; `EXEC` will be, too.
    pub aborted: bool,
}

impl Transaction {
    /// What the queue takes.
    pub fn held(&self) -> usize {
        // Each request is an allocation of its own.
        let entries = self.queue.capacity() * size_of::<Request>();
        entries + self.queue.len() * ALLOCATION + self.bytes
    }

    /// Whether a quorum has to tell which libraries there are before `EXEC` is looked at.
    pub fn needs_libraries(&self) -> bool {
        self.needs_libraries && !self.aborted
    }

    /// Whether `EXEC` will be refused.
    pub fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// `EXEC` will be refused.
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// The requests that load a script, encoded.
    pub fn loads(&self) -> impl Iterator<Item = &[u8]> {
        let loads =
            self.queue.iter().filter(|it| it.spec.id == Command::Script && it.script.is_some());
        loads.map(|request| &request.words[..])
    }
}
