//! Replies that are made a slice at a time, over several turns of the event loop.
//!
//! Some replies take long to make (a line for each of 5,000 clients) or to copy (a value of 100 MB). They would hold up
//! all other clients of the same worker. So the session takes the next of its [`Slices`] only while its turn lasts and
//! its client reads. Memory therefore never holds more of the reply than the client is about to read, except for what
//! [`Slices::bytes`] reports.

use std::fmt;

use bytes::{Buf, Bytes};

use crate::resp::flat;
use crate::resp::output::Output;
use crate::resp::reply::{Done, Head, Protocol, Reply};

/// The end of a string, after its bytes.
pub const LINE_END: Slice = Slice::Bytes(Bytes::from_static(b"\r\n"));

/// A reply that is made in slices. It is dropped when its client has gone.
pub trait Slices {
    /// Makes the next slice within some ten microseconds. Returns `None` when the reply is complete.
    fn next(&mut self) -> Option<Slice>;

    /// Returns the bytes held that will be sent. They count as the client's memory, which is bounded along with its
    /// replies.
    fn bytes(&self) -> usize {
        0
    }
}

/// Any iterator of slices is a reply.
impl<T: Iterator<Item = Slice>> Slices for T {
    fn next(&mut self) -> Option<Slice> {
        Iterator::next(self)
    }
}

/// A part of a reply.
#[derive(Debug, PartialEq)]
pub enum Slice {
    /// Some work was done, and there is nothing to send yet.
    Nothing,
    /// The head of an aggregate, whose items follow, or of a string, whose bytes and [`LINE_END`] follow.
    Head(Head),
    /// An item, or the whole reply. It is cut if it is large.
    Part(Reply),
    /// Items that are kept together.
    Whole(Reply),
    /// Bytes as they are sent.
    Bytes(Bytes),
    /// The outcome of one command of a transaction, after the command's place in the table.
    Done(u16, Done),
}

/// A reply of the proxy itself.
#[derive(Debug)]
pub enum Made {
    /// The whole reply.
    Whole(Reply),
    /// A reply that comes in slices.
    Sliced(Sliced),
}

/// A reply in progress. Large parts are themselves cut.
pub struct Sliced {
    stack: Vec<Box<dyn Slices>>,
    /// Whether any part of the reply has been made, and the reply is counted.
    pub begun: bool,
    /// Bytes made so far.
    pub sent: usize,
    /// Memory charged for a whole reply that is cut here, until it is sent.
    pub charged: usize,
    /// A command within the reply that is not counted, because no part of its own reply has been made yet.
    pub uncounted: Option<u16>,
}

impl fmt::Debug for Sliced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sliced").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Sliced {
    /// Returns a reply made of these slices.
    pub fn new(slices: impl Slices + 'static) -> Self {
        Self::of(Box::new(slices))
    }

    fn of(slices: Box<dyn Slices>) -> Self {
        Self { stack: vec![slices], begun: false, sent: 0, charged: 0, uncounted: None }
    }

    /// Returns the replies to the commands of a transaction, which are counted one by one.
    pub fn executed(parts: Vec<(u16, Done)>) -> Self {
        Self::new(Executed::new(parts))
    }

    /// Continues with `reply`. A large reply is cut, and its pieces are the next slices.
    pub fn with(&mut self, reply: Reply) -> Slice {
        if is_large(&reply) {
            self.stack.push(slices_of(reply));
            return Slice::Nothing;
        }
        Slice::Part(reply)
    }

    /// Continues with all of `other`, the reply to this command.
    pub fn with_slices(&mut self, command: u16, other: Self) {
        self.stack.extend(other.stack);
        self.uncounted = Some(command);
    }

    /// Cuts the reply into slices, if it is large.
    ///
    /// # Errors
    /// Returns the reply itself if it is not large.
    #[inline]
    pub fn cut(reply: Reply) -> Result<Self, Reply> {
        if !is_large(&reply) {
            return Err(reply);
        }
        let charged = reply.held();
        Ok(Self { charged, ..Self::of(slices_of(reply)) })
    }

    /// Returns the next slice, which is not large.
    pub fn next_slice(&mut self) -> Option<Slice> {
        loop {
            match self.stack.last_mut()?.next() {
                None => _ = self.stack.pop(),
                Some(Slice::Part(reply)) if is_large(&reply) => self.stack.push(slices_of(reply)),
                Some(slice) => return Some(slice),
            }
        }
    }

    /// Returns the bytes held that will be sent.
    pub fn bytes(&self) -> usize {
        self.stack.iter().map(|slices| slices.bytes()).sum()
    }

    /// Returns the bytes held that are not charged already.
    pub fn uncharged(&self) -> usize {
        if self.charged > 0 { 0 } else { self.bytes() }
    }

    /// Returns the whole reply at once, as RESP3, for a task that has the time.
    pub fn whole(mut self) -> Reply {
        let mut frame = Output::default();
        while let Some(slice) = self.next_slice() {
            slice.encode(Protocol::Resp3, &mut frame);
        }
        Reply::Raw(frame.into_bytes())
    }
}

impl Slice {
    /// Appends the slice's bytes to `out`.
    pub fn encode(&self, protocol: Protocol, out: &mut Output) {
        match self {
            Self::Nothing => {}
            Self::Head(head) => head.encode(protocol, out),
            Self::Part(reply) | Self::Whole(reply) => reply.encode(protocol, out),
            Self::Bytes(bytes) => out.share(bytes),
            Self::Done(_, Done::Reply(reply)) => reply.encode(protocol, out),
            Self::Done(_, Done::Own(_)) => debug_assert!(false, "the session makes the reply"),
        }
    }
}

/// Maximum bytes that are not large: they are copied in no time, and written in one go.
const LARGE_BYTES: usize = 64 << 10;

/// Maximum items that are not large.
pub const LARGE_ITEMS: usize = 256;

/// Approximate size of a slice of grouped items, in bytes.
const BYTES_AT_ONCE: usize = 8 << 10;

/// Allowance for the framing of an item.
const LEAST_WEIGHT: usize = 32;

#[inline]
fn is_large(reply: &Reply) -> bool {
    match reply {
        Reply::Bulk(bytes) | Reply::Verbatim(bytes) | Reply::Raw(bytes) => {
            bytes.len() > LARGE_BYTES
        }
        Reply::Array(_) | Reply::Set(_) | Reply::Push(_) | Reply::Each(_) | Reply::Map(_) => {
            weight(reply) > LARGE_BYTES
        }
        _ => false,
    }
}

/// Estimates the cost of encoding a reply, without visiting all of many items.
fn weight(reply: &Reply) -> usize {
    let most = |items: usize| if items > LARGE_ITEMS { 2 * LARGE_BYTES } else { 0 };
    LEAST_WEIGHT
        + match reply {
            Reply::Bulk(bytes) | Reply::Verbatim(bytes) | Reply::Raw(bytes) => bytes.len(),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Each(items) => {
                most(items.len()) + items.iter().take(LARGE_ITEMS).map(weight).sum::<usize>()
            }
            Reply::Map(pairs) => {
                let pairs_weigh =
                    pairs.iter().take(LARGE_ITEMS).map(|(f, v)| weight(f) + weight(v));
                most(pairs.len()) + pairs_weigh.sum::<usize>()
            }
            Reply::Encoded(encoded) => encoded.longest(),
            _ => 0,
        }
}

fn slices_of(reply: Reply) -> Box<dyn Slices> {
    match reply {
        Reply::Bulk(bytes) => Text::boxed(Head::Bulk(bytes.len()), bytes),
        Reply::Verbatim(bytes) => Text::boxed(Head::Verbatim(bytes.len()), bytes),
        Reply::Raw(frame) => Box::new(Frame(frame)),
        Reply::Array(items) => Box::new(aggregate(Head::Array(items.len()), items)),
        Reply::Set(items) => Box::new(aggregate(Head::Set(items.len()), items)),
        Reply::Push(items) => Box::new(aggregate(Head::Push(items.len()), items)),
        Reply::Each(items) => Box::new(in_groups(items.into_iter())),
        Reply::Map(pairs) => {
            let head = Slice::Head(Head::Map(pairs.len()));
            let items = pairs.into_iter().flat_map(|(field, value)| [field, value]);
            Box::new(std::iter::once(head).chain(in_groups(items)))
        }
        other => Box::new(std::iter::once(Slice::Part(other))),
    }
}

fn aggregate(head: Head, items: Vec<Reply>) -> impl Iterator<Item = Slice> {
    std::iter::once(Slice::Head(head)).chain(in_groups(items.into_iter()))
}

/// Groups small items: a slice for each would cost more than its encoding.
fn in_groups(items: impl Iterator<Item = Reply>) -> impl Iterator<Item = Slice> {
    let mut items = items.peekable();
    std::iter::from_fn(move || {
        let first = items.next()?;
        let mut weighs = weight(&first);
        if weighs > BYTES_AT_ONCE {
            return Some(Slice::Part(first));
        }
        let mut group = vec![first];
        let mut fits = |item: &Reply| {
            weighs += weight(item);
            weighs <= BYTES_AT_ONCE
        };
        while let Some(item) = items.next_if(&mut fits) {
            group.push(item);
        }
        Some(Slice::Whole(Reply::Each(group)))
    })
}

/// A long string.
struct Text {
    head: Option<Head>,
    bytes: Bytes,
    ended: bool,
}

impl Text {
    fn boxed(head: Head, bytes: Bytes) -> Box<dyn Slices> {
        Box::new(Self { head: Some(head), bytes, ended: false })
    }
}

impl Slices for Text {
    fn next(&mut self) -> Option<Slice> {
        if let Some(head) = self.head.take() {
            return Some(Slice::Head(head));
        }
        let len = self.bytes.len().min(LARGE_BYTES);
        if len > 0 {
            return Some(Slice::Bytes(self.bytes.split_to(len)));
        }
        (!std::mem::replace(&mut self.ended, true)).then_some(LINE_END)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The replies to the commands of a transaction, one at a time.
struct Executed {
    head: Option<Head>,
    parts: std::vec::IntoIter<(u16, Done)>,
    held: usize,
}

impl Executed {
    fn new(parts: Vec<(u16, Done)>) -> Self {
        let held = parts.iter().map(|(_, done)| Self::held(done)).sum();
        Self { head: Some(Head::Array(parts.len())), parts: parts.into_iter(), held }
    }

    fn held(done: &Done) -> usize {
        size_of::<(u16, Done)>() + done.held()
    }
}

impl Slices for Executed {
    fn next(&mut self) -> Option<Slice> {
        if let Some(head) = self.head.take() {
            return Some(Slice::Head(head));
        }
        let (command, done) = self.parts.next()?;
        self.held -= Self::held(&done);
        Some(Slice::Done(command, done))
    }

    fn bytes(&self) -> usize {
        self.held
    }
}

/// The masters' answer: some elements at a time, however they are nested.
struct Frame(Bytes);

impl Slices for Frame {
    fn next(&mut self) -> Option<Slice> {
        let frame = self.0.clone();
        let first = flat::elements(&frame).next()?;
        if first.bytes.len() > LARGE_BYTES {
            self.0.advance(first.bytes.len());
            return Some(alone(&frame, &first));
        }
        let mut len = 0;
        let small = |element: &flat::Element<'_>| element.bytes.len() <= LARGE_BYTES;
        for element in flat::elements(&frame).take_while(small) {
            len += element.bytes.len();
            if len > BYTES_AT_ONCE {
                break;
            }
        }
        Some(Slice::Whole(Reply::Raw(self.0.split_to(len))))
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// Returns one large element of `frame`. Elements other than strings are not cut.
fn alone(frame: &Bytes, element: &flat::Element<'_>) -> Slice {
    match (element.marker, element.body) {
        (b'$', Some(body)) => Slice::Part(Reply::Bulk(frame.slice_ref(body))),
        (b'=', Some(body)) if body.starts_with(b"txt:") => {
            Slice::Part(Reply::Verbatim(frame.slice_ref(&body[4..])))
        }
        _ => Slice::Whole(Reply::Raw(frame.slice_ref(element.bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sliced(reply: Reply, protocol: Protocol) -> (Vec<u8>, usize, usize) {
        let mut sliced = Sliced::of(slices_of(reply));
        let (mut out, mut slices, mut longest) = (Output::default(), 0, 0);
        while let Some(slice) = sliced.next_slice() {
            let before = out.len();
            slice.encode(protocol, &mut out);
            slices += 1;
            longest = longest.max(out.len() - before);
        }
        assert_eq!(sliced.bytes(), 0);
        (out.take(), slices, longest)
    }

    fn whole(reply: &Reply, protocol: Protocol) -> Vec<u8> {
        let mut out = Output::default();
        reply.encode(protocol, &mut out);
        out.take()
    }

    fn replies() -> Vec<Reply> {
        let long = || Bytes::from(vec![b'x'; 3 * LARGE_BYTES + 7]);
        let many = || (0..2000).map(Reply::Int).collect::<Vec<_>>();
        let mixed = || vec![Reply::Nil, Reply::Bulk(long()), Reply::OK, Reply::Array(many())];
        let raw: Bytes = whole(&Reply::Array(mixed()), Protocol::Resp3).into();
        let verbatim: Bytes = whole(&Reply::Verbatim(long()), Protocol::Resp3).into();
        let number = [&b"("[..], &vec![b'1'; 2 * LARGE_BYTES], b"\r\n"].concat();
        vec![
            Reply::OK,
            Reply::bulk(""),
            Reply::Bulk(long()),
            Reply::Verbatim(long()),
            Reply::Array(many()),
            Reply::Set(many()),
            Reply::Push(many()),
            Reply::Each(many()),
            Reply::Map(many().into_iter().zip(mixed()).collect()),
            Reply::Map(many().into_iter().map(|field| (field, Reply::Int(1))).collect()),
            Reply::Array(mixed()),
            Reply::Array(vec![Reply::Array(mixed()), Reply::Array(Vec::new())]),
            Reply::Raw(raw),
            Reply::Raw(verbatim),
            Reply::Raw(number.into()),
            Reply::Raw(Bytes::from_static(b"%1\r\n+a\r\n#t\r\n")),
        ]
    }

    #[test]
    fn slices_are_the_reply() {
        for reply in replies() {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let (bytes, ..) = sliced(reply.clone(), protocol);
                assert!(bytes == whole(&reply, protocol), "{protocol:?} {:.100?}", reply);
            }
        }
    }

    #[test]
    fn no_slice_is_long() {
        let item = Reply::Bulk(vec![b'x'; LARGE_BYTES].into());
        let items = vec![item; 300];
        let raw: Bytes = whole(&Reply::Array(items.clone()), Protocol::Resp3).into();
        let long = Reply::Bulk(vec![b'x'; 100 * LARGE_BYTES].into());
        for reply in [Reply::Array(items), Reply::Raw(raw), long] {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let (bytes, slices, longest) = sliced(reply.clone(), protocol);
                assert!(longest <= 2 * LARGE_BYTES, "{longest} of {} at once", bytes.len());
                assert!(slices >= bytes.len() / (2 * LARGE_BYTES));
            }
        }
    }

    #[test]
    fn a_task_gets_all_at_once() {
        for reply in replies() {
            let frame: Bytes = whole(&reply, Protocol::Resp3).into();
            assert!(Sliced::of(slices_of(reply)).whole() == Reply::Raw(frame));
        }
    }

    #[test]
    fn what_is_small_stays_whole() {
        assert_eq!(Sliced::cut(Reply::OK).err(), Some(Reply::OK));
        assert!(Sliced::cut(Reply::Array(vec![Reply::Nil; 1000])).is_ok());
        let within = Reply::Array(vec![Reply::Array(vec![Reply::Nil; 10]); 10]);
        assert_eq!(Sliced::cut(within.clone()).err(), Some(within));
    }
}
