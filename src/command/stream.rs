//! `XREAD` and `XREADGROUP`: entries of streams, at once or as soon as they exist (`xreadCommand` in `t_stream.c`).
//!
//! The proxy parses the words before the names of the streams, since no master must wait. The masters parse the ids.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::data::{MAX_WORDS, SHORT_RANGE};
use super::program::OneCommand;
use super::{Action, Outcome};
use crate::catalogue::error;
use crate::catalogue::table::{Nothing, RunBy, Spec};
use crate::context::caller::Caller;
use crate::context::waiting::{AwaitedEvent, BlockingWait, Entries, EntryPosition, First};
use crate::engine::sequential::Aside;
use crate::engine::sequential::large::Large;
use crate::operation::changed_keys::Line;
use crate::operation::program::Rendering;
use crate::operation::verbatim_read::Query;
use crate::operation::{Kind, Operation, request};
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;
use crate::time::clock;

/// A request, by its parts.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// `XREAD` or `XREADGROUP`
    name: &'static str,
    /// `BLOCK`, in milliseconds; 0 for ever.
    block_ms: Option<i64>,
    /// `COUNT`
    count: Option<i64>,
    /// `GROUP`: the group and the consumer.
    group: Option<[Vec<u8>; 2]>,
    /// `NOACK`
    no_ack: bool,
    keys: Vec<Box<[u8]>>,
    /// One for each key.
    ids: Vec<Box<[u8]>>,
}

/// Maximum entries of a stream that a waiting client receives without `COUNT` (`XREAD_BLOCKED_DEFAULT_COUNT`).
const MOST_AT_ONCE: i64 = 1000;

/// Runs the command that `spec` describes.
pub(super) fn read(caller: &Caller, spec: &Spec, args: Args<'_>) -> Outcome {
    let request = Request::parse(spec, args)?;
    if args.len() > MAX_WORDS {
        return Err(error::too_many_words(spec.name));
    }
    Ok(match request.block_ms {
        Some(block_ms) => request.wait(caller, block_ms),
        None if request.group.is_some() => Action::Start(request.delivery(caller).operation()),
        None if request.is_short() => Action::Start(request.query(caller, &request.ids)),
        None => Action::Aside(Box::new(Aside::Large(request.large(caller)))),
    })
}

/// Returns the words without `BLOCK`, for a transaction, in which nothing waits.
pub(super) fn without_block(spec: &Spec, args: Args<'_>) -> Vec<Vec<u8>> {
    let words = |request: Request| Request { block_ms: None, ..request }.words();
    // The request was parsed when it was planned, so it cannot fail here.
    Request::parse(spec, args).map_or_else(|_| args.iter().map(<[u8]>::to_vec).collect(), words)
}

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    /// Returns the errors that Redis reports before it reads any stream.
    pub(super) fn parse(spec: &Spec, args: Args<'_>) -> Result<Self, Reply> {
        let is_of_group = spec.run == RunBy::Deliver;
        let mut request = Self {
            name: spec.name,
            block_ms: None,
            count: None,
            group: None,
            no_ack: false,
            keys: Vec::new(),
            ids: Vec::new(),
        };
        let mut at = 1;
        while let Some(option) = args.get(at) {
            at += match (args.get(at + 1), args.get(at + 2)) {
                (Some(value), _) if is(option, &["block"]) => {
                    request.block_ms = Some(milliseconds(value)?);
                    2
                }
                (Some(value), _) if is(option, &["count"]) => {
                    request.count = Some(parse_i64(value).ok_or(error::NOT_AN_INTEGER)?);
                    2
                }
                (Some(_), _) if is(option, &["streams"]) => {
                    request.take_streams(args.from(at + 1))?;
                    break;
                }
                (Some(group), Some(consumer)) if is(option, &["group"]) => {
                    only_of_groups(is_of_group, "GROUP")?;
                    request.group = Some([group.to_vec(), consumer.to_vec()]);
                    3
                }
                _ if is(option, &["noack"]) => {
                    only_of_groups(is_of_group, "NOACK")?;
                    request.no_ack = true;
                    1
                }
                _ => return Err(error::SYNTAX),
            };
        }
        match () {
            () if request.keys.is_empty() => Err(error::SYNTAX),
            () if is_of_group && request.group.is_none() => Err(error::MISSING_GROUP),
            () => Ok(request),
        }
    }

    fn take_streams(&mut self, streams: Args<'_>) -> Result<(), Reply> {
        if !streams.len().is_multiple_of(2) {
            return Err(error::UNBALANCED_STREAMS);
        }
        let mut words = streams.iter().map(Into::into);
        self.keys = words.by_ref().take(streams.len() / 2).collect();
        self.ids = words.collect();
        Ok(())
    }

    fn words(&self) -> Vec<Vec<u8>> {
        let mut words = vec![self.name.as_bytes().to_vec()];
        if let Some([group, consumer]) = &self.group {
            words.extend([b"GROUP".to_vec(), group.clone(), consumer.clone()]);
        }
        let numbers = [("COUNT", self.count), ("BLOCK", self.block_ms)];
        for (option, number) in numbers {
            let number = number.map(|number| [option.into(), number.to_string().into_bytes()]);
            words.extend(number.into_iter().flatten());
        }
        if self.no_ack {
            words.push(b"NOACK".to_vec());
        }
        words.push(b"STREAMS".to_vec());
        words.extend(self.keys.iter().chain(&self.ids).map(|word| word.to_vec()));
        words
    }

    fn encoded(&self) -> Vec<u8> {
        let words = self.words();
        request::of(words.iter().map(Vec::as_slice)).into_vec()
    }

    /// Returns the request from other ids on, without waiting for them.
    fn behind(&self, ids: &[Box<[u8]>]) -> Self {
        Self { block_ms: None, ids: ids.to_vec(), ..self.clone() }
    }

    /// Returns the request for a client that has been waiting.
    fn awaited(&self) -> Self {
        Self {
            count: Some(self.count.filter(|it| *it > 0).unwrap_or(MOST_AT_ONCE)),
            ..self.clone()
        }
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }

    fn key(&self) -> &[u8] {
        &self.keys[0]
    }

    /// Whether the request is limited to so few entries that all masters may be queried at once, whatever they hold.
    fn is_short(&self) -> bool {
        self.count.is_some_and(|count| (1..=SHORT_RANGE as i64).contains(&count))
    }

    fn query(&self, caller: &Caller, ids: &[Box<[u8]>]) -> Operation {
        let nothing = Nothing::Streams(caller.outbox.protocol());
        self.query_in(caller.db, nothing, ids)
    }

    fn query_in(&self, db: u32, nothing: Nothing, ids: &[Box<[u8]>]) -> Operation {
        let request = self.behind(ids).encoded().into();
        let query = Query::new(request, nothing).on_keys(self.names());
        Operation { db, key: self.key().into(), kind: Kind::Query(Box::new(query)) }
    }

    fn large(&self, caller: &Caller) -> Large {
        Large {
            db: caller.db,
            keys: self.keys.clone(),
            request: self.behind(&self.ids).encoded().into(),
            words: None,
            nothing: Nothing::Streams(caller.outbox.protocol()),
            flat: false,
        }
    }

    /// Returns the delivery of entries to a consumer, which the group records.
    fn delivery(&self, caller: &Caller) -> OneCommand {
        let words = self.behind(&self.ids).words();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let keys: Vec<&[u8]> = self.names().collect();
        let rendering = Rendering::Streams(caller.outbox.protocol());
        OneCommand::on_keys(caller, &keys, &words, rendering)
    }

    fn wait(self, caller: &Caller, block_ms: i64) -> Action {
        let entries = match &self.group {
            Some([group, _]) => {
                let line = Line::Group(caller.worker.engine().fingerprint(caller.db, group));
                self.deliveries(caller, line)
            }
            None => self.readings(caller),
        };
        let until = Duration::from_millis(block_ms.unsigned_abs());
        let waiting = BlockingWait {
            keys: self.keys.clone(),
            has_options: true,
            db: caller.db,
            until: (block_ms > 0).then(|| clock::now() + until),
            awaited: AwaitedEvent::Entries(entries),
        };
        Action::Wait(Box::new(waiting))
    }

    fn readings(&self, caller: &Caller) -> Entries {
        let (awaited, db) = (self.awaited(), caller.db);
        let nothing = Nothing::Streams(caller.outbox.protocol());
        let next = move |ids: &[Box<[u8]>]| awaited.query_in(db, nothing, ids);
        self.entries(First::Read(self.large(caller)), Box::new(next), Line::Readers)
    }

    fn deliveries(&self, caller: &Caller, line: Line) -> Entries {
        let (first, next) = (self.delivery(caller), self.awaited().delivery(caller));
        let first = First::Operation(Box::new(move || first.operation()));
        self.entries(first, Box::new(move |_| next.operation()), line)
    }

    fn entries(&self, first: First, next: EntryPosition<Operation>, line: Line) -> Entries {
        let request = self.clone();
        let again =
            move |ids: &[Box<[u8]>]| Self { ids: ids.to_vec(), ..request.clone() }.encoded();
        Entries {
            first,
            next,
            again: Box::new(again),
            ids: RefCell::new(self.ids.clone()),
            line,
            has_begun: Cell::new(false),
            seen: RefCell::default(),
        }
    }
}

fn only_of_groups(is_of_group: bool, option: &str) -> Result<(), Reply> {
    if is_of_group { Ok(()) } else { Err(error::only_of_xreadgroup(option)) }
}

/// Parses a timeout like `getTimeoutFromObjectOrReply` in `timeout.c`.
fn milliseconds(word: &[u8]) -> Result<i64, Reply> {
    match parse_i64(word).ok_or(error::TIMEOUT_NOT_AN_INTEGER)? {
        ..0 => Err(error::TIMEOUT_NEGATIVE),
        block_ms => Ok(block_ms.min(LONGEST_MS)),
    }
}

/// A century. A clock cannot represent longer times.
const LONGEST_MS: i64 = 100 * 31_557_600_000;
