//! `MONITOR`: streams every request of every client, as it arrives, to the clients that asked for it (`replication.c`,
//! `replicationFeedMonitors`).

use std::fmt::Write as _;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};

use super::outbox::Outbox;
use super::registry::{Client, Peer};
use crate::acl::catalogue::{self, CommandEntry};
use crate::catalogue::table::{self, Command, Spec};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::time::clock;

/// Requests that a monitor may fall behind before it is disconnected.
const BEHIND: usize = 16 << 10;

/// The monitors of all workers.
#[derive(Debug)]
pub struct Monitors {
    watching: AtomicUsize,
    requests: Sender<Bytes>,
}

/// Counts a client as a monitor until it is dropped.
#[derive(Debug)]
pub struct Watching(Arc<Monitors>);

impl Default for Monitors {
    fn default() -> Self {
        Self { watching: AtomicUsize::new(0), requests: broadcast::channel(BEHIND).0 }
    }
}

impl Monitors {
    /// Whether there is any monitor.
    #[inline]
    pub fn any(&self) -> bool {
        self.watching.load(Ordering::Relaxed) > 0
    }

    /// Sends a request to all monitors. As in Redis, administrative commands are left out.
    pub fn show(&self, spec: &Spec, args: Args<'_>, db: u32, address: &Peer) {
        if !is_for_operators(spec, args) {
            let line = format!("+{}\r\n", line(spec, args, db, address));
            // Sending fails if the last monitor has just gone.
            let _ = self.requests.send(line.into());
        }
    }

    /// Sends a call of a script to all monitors. Its words begin with the name of a command that Redis has run.
    pub fn show_call(&self, words: &[&[u8]], db: u32) {
        let spec = words.first().and_then(|name| table::lookup(name));
        let is_hidden = spec.is_some_and(|spec| {
            let (_, entry) = catalogue::of(spec);
            let subcommand = words.get(1).and_then(|word| entry.subcommand(word));
            is_admin(subcommand.map_or(entry, |place| &catalogue::all()[place]))
        });
        if self.any() && !is_hidden {
            let mut line = format!("+{} [{db} lua]", moment());
            for word in words {
                line.push(' ');
                quote(&mut line, word);
            }
            line.push_str("\r\n");
            let _ = self.requests.send(line.into());
        }
    }

    /// Sends `client` all requests from now on, until the returned value is dropped.
    pub fn watch(self: &Arc<Self>, client: Arc<Client>, outbox: &Rc<Outbox>) -> Watching {
        self.watching.fetch_add(1, Ordering::Relaxed);
        let requests = self.requests.subscribe();
        tokio::task::spawn_local(forward(requests, client, Rc::downgrade(outbox)));
        Watching(Arc::clone(self))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watching.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn forward(mut requests: Receiver<Bytes>, client: Arc<Client>, outbox: Weak<Outbox>) {
    loop {
        let request = requests.recv().await;
        let Some(outbox) = outbox.upgrade().filter(|_| client.is_monitor()) else { return };
        match request {
            Ok(line) => outbox.push_message(&Reply::Raw(line)),
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(client = %client.address, missed, "disconnecting a monitor that fell too far behind");
                return client.kill();
            }
            Err(RecvError::Closed) => return,
        }
    }
}

/// Whether Redis counts the command as `@admin`: it doesn't show those either (`call` in `server.c`).
fn is_for_operators(spec: &Spec, args: Args<'_>) -> bool {
    let (_, entry) = catalogue::named(spec, args);
    is_admin(entry)
}

fn is_admin(entry: &CommandEntry) -> bool {
    entry.categories.names().any(|name| name == "@admin")
}

/// Returns the time of day in seconds, with microseconds.
fn moment() -> String {
    let now = clock::unix_micros();
    format!("{}.{:06}", now / 1_000_000, now % 1_000_000)
}

/// `1700000000.000001 [0 127.0.0.1:1234] "set" "key" "value"`
fn line(spec: &Spec, args: Args<'_>, db: u32, address: &Peer) -> String {
    let from = match address {
        Peer::Tcp(address) => address.to_string(),
        Peer::Unix(path) => format!("unix:{}", path.display()),
    };
    let mut line = format!("{} [{db} {from}]", moment());
    let secrets = secrets(spec, args);
    for (at, word) in args.iter().enumerate() {
        line.push(' ');
        match secrets.contains(&at) {
            true => line.push_str("\"(redacted)\""),
            false => quote(&mut line, word),
        }
    }
    line
}

/// Returns the positions of passwords (`redactClientCommandArgument` in `acl.c` and `networking.c`).
fn secrets(spec: &Spec, args: Args<'_>) -> std::ops::Range<usize> {
    match spec.id {
        Command::Auth => 1..args.len(),
        Command::Hello => {
            let auth = args.iter().position(|word| word.eq_ignore_ascii_case(b"auth"));
            auth.map_or(0..0, |at| at + 1..(at + 3).min(args.len()))
        }
        _ => 0..0,
    }
}

/// Quotes a word as `sdscatrepr` of Redis's `sds.c` does.
fn quote(line: &mut String, word: &[u8]) {
    line.push('"');
    for byte in word {
        match byte {
            b'\\' | b'"' => line.extend(['\\', char::from(*byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            7 => line.push_str("\\a"),
            8 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(*byte)),
            _ => _ = write!(line, "\\x{byte:02x}"),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::table;
    use crate::resp::requests::{Decoder, Limits};

    fn shown(request: &str) -> String {
        let (mut decoder, request) = (Decoder::new(), format!("{request}\n"));
        let limits = Limits { max_request_bytes: 1000, authenticated: true, may_pass: false };
        decoder.decode(request.as_bytes(), limits).expect("valid").expect("complete");
        let args = decoder.args(request.as_bytes());
        let spec = table::lookup(args.at(0)).expect("a command");
        let line = line(spec, args, 3, &Peer::Unix(std::path::Path::new("/s").into()));
        line.split_once(" [3 unix:/s] ").expect("who and where").1.to_owned()
    }

    #[test]
    fn requests_are_quoted_as_redis_does() {
        assert_eq!(
            shown("set k \"a\\\"b\\\\c\\r\\n\\t\\a\\b\\x00\\xff \""),
            r#""set" "k" "a\"b\\c\r\n\t\a\b\x00\xff ""#
        );
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("auth hunter2"), r#""auth" "(redacted)""#);
        assert_eq!(shown("AUTH alice hunter2"), r#""AUTH" "(redacted)" "(redacted)""#);
        assert_eq!(
            shown("HELLO 3 SETNAME me AUTH alice hunter2"),
            r#""HELLO" "3" "SETNAME" "me" "AUTH" "(redacted)" "(redacted)""#
        );
        assert_eq!(shown("HELLO 3 AUTH hunter2"), r#""HELLO" "3" "AUTH" "(redacted)""#);
    }
}
