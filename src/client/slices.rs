//! Replies that are made a slice at a time, over several turns of the event loop.
//!
//! What is long to make (a line for each of 5,000 clients), or long to copy (a value of 100 MB), would
//! hold up everybody else on the same worker. Its [`Slices`] are asked for one after the other, as long
//! as the session's turn lasts and its client reads: so there is never more of the reply in memory
//! than somebody is about to read, but for what [`Slices::bytes`] owns up to.

use std::fmt;

use bytes::{Buf, Bytes};

use crate::resp::flat;
use crate::resp::output::Output;
use crate::resp::reply::{Done, Head, Protocol, Reply};

/// What comes after the bytes of a string.
pub const LINE_END: Slice = Slice::Bytes(Bytes::from_static(b"\r\n"));

/// A reply that is made in slices. It is dropped when its client has gone.
pub trait Slices {
    /// Makes the next one within some ten microseconds; `None` when the reply is complete.
    fn next(&mut self) -> Option<Slice>;

    /// Bytes that it holds and that will be sent: the client's memory, bounded with its replies.
    fn bytes(&self) -> usize {
        0
    }
}

/// Any iterator will do.
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
    /// The head of an aggregate, whose items follow, or of a string, whose bytes and [`LINE_END`] do.
    Head(Head),
    /// An item, or the whole reply. If it is large, it is cut.
    Part(Reply),
    /// Items that go together.
    Whole(Reply),
    /// Bytes as they are sent.
    Bytes(Bytes),
    /// What became of one command of a transaction, which has this place in the table.
    Done(u16, Done),
}

/// A reply of the proxy itself.
#[derive(Debug)]
pub enum Made {
    /// All of it.
    Whole(Reply),
    /// What comes in slices.
    Sliced(Sliced),
}

/// A reply on its way. A part that is large is cut in its turn.
pub struct Sliced {
    stack: Vec<Box<dyn Slices>>,
    /// Whether anything of it is there, and it is counted.
    pub begun: bool,
    /// How many bytes that was.
    pub sent: usize,
    /// What the whole reply takes that is cut here, until it is sent.
    pub charged: usize,
    /// A command within it of which nothing is there yet, and which is not counted.
    pub uncounted: Option<u16>,
}

impl fmt::Debug for Sliced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sliced").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Sliced {
    /// A reply of these slices.
    pub fn new(slices: impl Slices + 'static) -> Self {
        Self::of(Box::new(slices))
    }

    fn of(slices: Box<dyn Slices>) -> Self {
        Self { stack: vec![slices], begun: false, sent: 0, charged: 0, uncounted: None }
    }

    /// The replies to the commands of a transaction, which are counted one by one.
    pub fn executed(parts: Vec<(u16, Done)>) -> Self {
        Self::new(Executed::new(parts))
    }

    /// `reply` comes next. What is large is cut; the rest is the next slice.
    pub fn with(&mut self, reply: Reply) -> Slice {
        if is_large(&reply) {
            self.stack.push(slices_of(reply));
            return Slice::Nothing;
        }
        Slice::Part(reply)
    }

    /// All of `other` comes next: the reply to this command.
    pub fn with_slices(&mut self, command: u16, other: Self) {
        self.stack.extend(other.stack);
        self.uncounted = Some(command);
    }

    /// The same reply in slices, if it is large.
    ///
    /// # Errors
    /// It is not, and comes back.
    #[inline]
    pub fn cut(reply: Reply) -> Result<Self, Reply> {
        if !is_large(&reply) {
            return Err(reply);
        }
        let charged = reply.held();
        Ok(Self { charged, ..Self::of(slices_of(reply)) })
    }

    /// The next slice, which is not large.
    pub fn next_slice(&mut self) -> Option<Slice> {
        loop {
            match self.stack.last_mut()?.next() {
                None => _ = self.stack.pop(),
                Some(Slice::Part(reply)) if is_large(&reply) => self.stack.push(slices_of(reply)),
                Some(slice) => return Some(slice),
            }
        }
    }

    /// Bytes that are held for what will be sent.
    pub fn bytes(&self) -> usize {
        self.stack.iter().map(|slices| slices.bytes()).sum()
    }

    /// The same without what is charged.
    pub fn uncharged(&self) -> usize {
        if self.charged > 0 { 0 } else { self.bytes() }
    }

    /// All at once, as the RESP3 that it is: for a task that has the time.
    pub fn whole(mut self) -> Reply {
        let mut frame = Output::default();
        while let Some(slice) = self.next_slice() {
            slice.encode(Protocol::Resp3, &mut frame);
        }
        Reply::Raw(frame.into_bytes())
    }
}

impl Slice {
    /// Appends its bytes to `out`.
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

/// What is copied in no time: as much as is written at once.
const LARGE_BYTES: usize = 64 << 10;

/// The same of items.
pub const LARGE_ITEMS: usize = 256;

/// How many bytes of them are made a slice, or a little more.
const BYTES_AT_ONCE: usize = 8 << 10;

/// Room for what is around an item's bytes.
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

/// How much it is to encode, roughly; nobody counts many items.
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

/// Small items several at once: a slice for each would cost more than to encode it.
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

/// What masters answered: some elements at a time, whatever they are nested in.
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

/// One large element of `frame`. It is a string, and whatever else it may be is not cut.
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
            Reply::Map(many().into_iter().map(|field| (field, Reply::Bool(true))).collect()),
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
