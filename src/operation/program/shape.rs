//! Conversion of the masters' reply to a program into the client's.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::lua::Script;
use crate::operation::streams;
use crate::resp::flat;
use crate::resp::reply::{Done, Protocol, Reply};

/// The conversion of the masters' reply to the client's.
#[derive(Debug)]
pub enum ProgramShape {
    /// A script's reply, unchanged.
    Script,
    /// The reply to the only command in a transaction.
    Command(Rendering),
    /// The replies of a `MULTI`.
    Transaction(Executing),
}

/// Conversion of the reply to one command. Scripts cannot run some commands under their own names, and Lua has only one
/// null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendering {
    /// No conversion.
    AsIs,
    /// Numbers and null become the proxy's own replies.
    Own,
    /// Like [`Own`](Self::Own), with null if the key has another type.
    OwnOrNil,
    /// Null becomes a null array.
    NullArray,
    /// Reply of `LMPOP`, which ran for `BLPOP`: `[key, [element]]` becomes `[key, element]`.
    ListPop,
    /// Streams with their entries, in this protocol version.
    Streams(Protocol),
    /// Reply of `ZMPOP`, which ran for `BZPOPMIN`: `[key, [[member, score]]]` becomes `[key, member, score]`.
    ScorePop,
}

/// The commands of a `MULTI`.
#[derive(Debug)]
pub struct Executing {
    /// Each with its index in the table of commands.
    pub queued: Vec<(u16, Queued)>,
    /// Receives the database that the transaction selected.
    pub chosen_db: Rc<Cell<Option<u32>>>,
    /// Whether some are [`Queued::Own`].
    pub has_own: bool,
    /// Bytes held by known replies and by requests that the proxy answers itself.
    pub held: usize,
}

/// One of the replies of an `EXEC`.
#[derive(Debug)]
pub enum Queued {
    /// The next of the masters' answers.
    Asked(Rendering),
    /// The next of the masters' answers, to this script. Clients may call it by its SHA1 from then on.
    Script(Arc<Script>),
    /// The next of the masters' answers, after which this database is selected.
    Select(u32),
    /// A reply that is already known.
    Known(Reply),
    /// A request that the proxy answers itself, once the masters have answered the others.
    Own(Box<[u8]>),
}

impl ProgramShape {
    /// Converts the masters' reply to the client's. Takes `&mut self` because there is only one reply.
    pub(super) fn reply(&mut self, raw: Bytes) -> Reply {
        match self {
            Self::Script => Reply::Raw(raw),
            Self::Command(rendering) => match flat::items(&raw).as_deref() {
                Some([reply]) => rendering.reply(&raw, reply),
                _ => Rendering::AsIs.reply(&raw, &raw),
            },
            Self::Transaction(executing) => match flat::items(&raw) {
                Some(replies) => executing.reply(&raw, &replies),
                None => Reply::Raw(raw),
            },
        }
    }
}

impl Rendering {
    /// Converts the reply to one command. No command replies with big numbers of its own: they stand for integers
    /// beyond Lua's precision.
    fn reply(self, raw: &Bytes, frame: &[u8]) -> Reply {
        if let [b'(', digits @ ..] = frame {
            return Reply::Raw([b":", digits].concat().into());
        }
        let popped = match self {
            Self::AsIs => None,
            Self::OwnOrNil if frame.starts_with(b"-WRONGTYPE") => return Reply::Nil,
            Self::Own | Self::OwnOrNil => return own(raw, frame),
            Self::Streams(protocol) => return streams::reply(raw, frame, protocol),
            _ if frame == b"_\r\n" => return Reply::NilArray,
            Self::NullArray => None,
            Self::ListPop => popped(frame),
            Self::ScorePop => popped(frame).and_then(|parts| {
                let [key, pair] = parts[..] else { return None };
                let [member, score] = flat::items(pair)?[..] else { return None };
                Some(vec![key, member, score])
            }),
        };
        let reply = |frame: &[u8]| Reply::Raw(raw.slice_ref(frame));
        match popped {
            Some(parts) => Reply::Array(parts.into_iter().map(reply).collect()),
            None => reply(frame),
        }
    }
}

/// Returns a number or null as the proxy's own reply.
fn own(raw: &Bytes, frame: &[u8]) -> Reply {
    match flat::int(frame) {
        Some(number) => Reply::Int(number),
        None if frame == b"_\r\n" => Reply::Nil,
        None => Reply::Raw(raw.slice_ref(frame)),
    }
}

/// Returns key and element of `[key, [element]]`.
fn popped(frame: &[u8]) -> Option<Vec<&[u8]>> {
    let [key, elements] = flat::items(frame)?[..] else { return None };
    let [element] = flat::items(elements)?[..] else { return None };
    Some(vec![key, element])
}

impl Executing {
    fn reply(&mut self, raw: &Bytes, replies: &[&[u8]]) -> Reply {
        let mut replies = replies.iter();
        let mut done = |queued| {
            Some(Done::Reply(match queued {
                Queued::Known(reply) => reply,
                Queued::Own(request) => return Some(Done::Own(request)),
                Queued::Script(script) => {
                    let frame = replies.next()?;
                    script.keep();
                    Reply::Raw(raw.slice_ref(frame))
                }
                Queued::Select(db) => {
                    let frame = replies.next()?;
                    if *frame == b"+OK\r\n" {
                        self.chosen_db.set(Some(db));
                    }
                    Reply::Raw(raw.slice_ref(frame))
                }
                Queued::Asked(rendering) => rendering.reply(raw, replies.next()?),
            }))
        };
        let queued = std::mem::take(&mut self.queued).into_iter();
        Reply::Executed(queued.map_while(|(place, queued)| Some((place, done(queued)?))).collect())
    }
}
