//! A client's queue since `MULTI`.

use std::sync::Arc;

use crate::catalogue::table::{Command, Spec};
use crate::lua::Script;

/// Overhead of an allocation, in bytes.
pub const ALLOCATION: usize = 16;

/// A queued request.
#[derive(Debug)]
pub struct QueuedRequest {
    /// The request's command.
    pub spec: &'static Spec,
    /// The request's words, encoded.
    pub words: Box<[u8]>,
    /// The script that the request carries, with the masters' verdict on it: the cache may drop the script before
    /// `EXEC`.
    pub script: Option<Arc<Script>>,
}

/// A session's queue since `MULTI`.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The queued requests, in order.
    pub queue: Vec<QueuedRequest>,
    /// Bytes of their words.
    pub bytes: usize,
    /// Number of requests up to the last that changes something in the proxy: their replies have to be known before the
    /// change is made.
    pub to_last_change: usize,
    /// Whether a request involves the libraries of functions.
    pub needs_libraries: bool,
    /// Hash slot of the queued commands' keys, if there are shards and any command has keys.
    pub slot: Option<u16>,
    /// Whether a command was refused, so that `EXEC` will be, too.
    pub aborted: bool,
}

impl Transaction {
    /// Returns the memory that the queue takes.
    pub fn held(&self) -> usize {
        // Each request is an allocation of its own.
        let entries = self.queue.capacity() * size_of::<QueuedRequest>();
        entries + self.queue.len() * ALLOCATION + self.bytes
    }

    /// Whether the libraries of a quorum have to be known before `EXEC` is checked.
    pub fn needs_libraries(&self) -> bool {
        self.needs_libraries && !self.aborted
    }

    /// Whether `EXEC` will be refused.
    pub fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// Makes `EXEC` fail.
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// Returns the requests that load a script, encoded.
    pub fn loads(&self) -> impl Iterator<Item = &[u8]> {
        let loads =
            self.queue.iter().filter(|it| it.spec.id == Command::Script && it.script.is_some());
        loads.map(|request| &request.words[..])
    }
}
