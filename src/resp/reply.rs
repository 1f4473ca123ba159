//! One reply to a client, and its encoding in RESP2 and RESP3.
//!
//! Commands build a [`Reply`] without checking the session's protocol. Types missing from RESP2 (maps, booleans, a
//! separate null) are flattened here, like Redis's `addReply...` family in `networking.c` does.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::flat;
use super::output::{LARGE, Output};

/// Protocol version of a session. Every session starts with RESP2; `HELLO 3` changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Protocol of Redis before version 6, and of clients that never send `HELLO`.
    #[default]
    Resp2,
    /// Protocol with types for maps, sets, booleans, doubles and null.
    Resp3,
}

impl Protocol {
    /// Returns the version number, as used by `HELLO`.
    pub fn number(self) -> &'static [u8] {
        match self {
            Self::Resp2 => b"2",
            Self::Resp3 => b"3",
        }
    }
}

/// One reply, independent of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A status such as `OK`. It must not contain CR or LF, so only our own words are sent this way.
    Simple(&'static str),
    /// An error, without the leading `-` but with its code: `ERR syntax error`.
    Error(Cow<'static, str>),
    /// An integer.
    Int(i64),
    /// Any bytes, or none.
    Bulk(Bytes),
    /// A missing bulk string: `$-1`, or the one null in RESP3.
    Nil,
    /// A missing array, e.g. from an `EXEC` that did not run: `*-1`, or the one null in RESP3.
    NilArray,
    /// Replies in order.
    Array(Vec<Reply>),
    /// Pairs of field and value; a flat array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Replies in no particular order; an array in RESP2.
    Set(Vec<Reply>),
    /// Text for people, such as `INFO`: `txt:` in RESP3, a bulk string in RESP2.
    Verbatim(Bytes),
    /// Unsolicited data, such as a published message; an array in RESP2.
    Push(Vec<Reply>),
    /// Several replies to one request, one after the other: `SUBSCRIBE` confirms every channel.
    Each(Vec<Reply>),
    /// A master's answer, in its original RESP3.
    Raw(Bytes),
    /// Replies to the commands of a transaction, each with its command's place in the table.
    Executed(Vec<(u16, Done)>),
    /// A constant reply.
    Encoded(Encoded),
}

// Long lists consist of these.
const _: () = assert!(size_of::<Reply>() <= 40);

/// State of one command of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// The command has been answered.
    Reply(Reply),
    /// The proxy answers this request itself, once its turn has come and the client reads.
    Own(Box<[u8]>),
}

impl Done {
    /// Returns the bytes of memory held in addition to the value itself.
    pub fn held(&self) -> usize {
        match self {
            Self::Reply(reply) => reply.held(),
            Self::Own(request) => request.len(),
        }
    }
}

/// A reply encoded in advance for both protocols, so that long constant replies are built only once.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded(Arc<Encodings>);

#[derive(Debug, PartialEq)]
struct Encodings {
    resp2: Bytes,
    resp3: Bytes,
}

impl Encoded {
    /// Encodes `reply`.
    pub fn new(reply: &Reply) -> Self {
        let encoded = |protocol| {
            let mut out = Output::default();
            reply.encode(protocol, &mut out);
            out.into_bytes()
        };
        let (resp2, resp3) = (encoded(Protocol::Resp2), encoded(Protocol::Resp3));
        Self(Arc::new(Encodings { resp2, resp3 }))
    }

    /// Returns the length of the longer of the two encodings.
    pub fn longest(&self) -> usize {
        self.0.resp2.len().max(self.0.resp3.len())
    }

    fn bytes(&self, protocol: Protocol) -> &Bytes {
        match protocol {
            Protocol::Resp2 => &self.0.resp2,
            Protocol::Resp3 => &self.0.resp3,
        }
    }
}

/// Head of a reply that is sent piece by piece. The sender is responsible for what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Number of replies in order.
    Array(usize),
    /// Number of replies in no particular order.
    Set(usize),
    /// Number of pairs.
    Map(usize),
    /// Number of unsolicited replies.
    Push(usize),
    /// Number of bytes.
    Bulk(usize),
    /// Number of bytes of text.
    Verbatim(usize),
}

impl Head {
    /// Appends the bytes of this head to `out`.
    pub fn encode(self, protocol: Protocol, out: &mut Output) {
        match (self, protocol) {
            (Self::Array(items), _) => put_header(b'*', length(items), out),
            (Self::Set(items), _) => put_header(aggregate(protocol, b'~'), length(items), out),
            (Self::Push(items), _) => put_header(aggregate(protocol, b'>'), length(items), out),
            (Self::Map(pairs), Protocol::Resp2) => put_header(b'*', length(pairs * 2), out),
            (Self::Map(pairs), Protocol::Resp3) => put_header(b'%', length(pairs), out),
            (Self::Bulk(bytes), _) | (Self::Verbatim(bytes), Protocol::Resp2) => {
                put_header(b'$', length(bytes), out);
            }
            (Self::Verbatim(bytes), Protocol::Resp3) => {
                put_header(b'=', length(TEXT.len() + bytes), out);
                out.extend_from_slice(TEXT);
            }
        }
    }
}

impl Reply {
    /// `+OK`
    pub const OK: Reply = Reply::Simple("OK");

    /// `+QUEUED`
    pub const QUEUED: Reply = Reply::Simple("QUEUED");

    /// Creates an error with this text, which includes the code but not the leading `-`.
    ///
    /// The text may contain CR and LF, e.g. from a command name that is quoted back. They are sent as spaces;
    /// otherwise a client would read the rest as the next reply.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Reply {
        Reply::Error(text.into())
    }

    /// Creates a bulk string of these bytes.
    pub fn bulk(bytes: impl Into<Bytes>) -> Reply {
        Reply::Bulk(bytes.into())
    }

    /// Parses the frame of a scalar, so that replies can be compared.
    #[must_use]
    pub fn parsed(self) -> Self {
        let Self::Raw(frame) = &self else { return self };
        let Ok(Some(element)) = flat::element(frame) else { return self };
        match (element.marker, element.body) {
            (b'+', _) if element.line == b"OK" => Self::OK,
            (b':', _) => flat::integer(element.line).map_or(self.clone(), Self::Int),
            (b'$', Some(bytes)) => Self::Bulk(frame.slice_ref(bytes)),
            _ if element.is_null() => Self::Nil,
            _ => self,
        }
    }

    /// Whether this reply is an error.
    pub fn is_error(&self) -> bool {
        match self {
            Reply::Error(_) => true,
            Reply::Raw(frame) => frame.starts_with(b"-"),
            _ => false,
        }
    }

    /// Returns the bytes of memory held in addition to the value itself.
    pub fn held(&self) -> usize {
        let all = |replies: &[Self]| {
            replies.iter().map(|reply| size_of::<Self>() + reply.held()).sum::<usize>()
        };
        match self {
            Reply::Bulk(bytes) | Reply::Verbatim(bytes) | Reply::Raw(bytes) => bytes.len(),
            Reply::Error(text) => text.len(),
            Reply::Array(replies)
            | Reply::Set(replies)
            | Reply::Push(replies)
            | Reply::Each(replies) => all(replies),
            Reply::Map(pairs) => {
                let of_pair = |(field, value): &(Self, Self)| {
                    2 * size_of::<Self>() + field.held() + value.held()
                };
                pairs.iter().map(of_pair).sum()
            }
            Reply::Executed(replies) => {
                let of_one = |(_, done): &(u16, Done)| size_of::<(u16, Done)>() + done.held();
                replies.iter().map(of_one).sum()
            }
            _ => 0,
        }
    }

    /// Returns the texts of the errors in this reply, without their leading `-`. Scripts may also return them inside
    /// arrays.
    pub fn errors(&self) -> impl Iterator<Item = &[u8]> {
        let (own, frame): (Option<&[u8]>, &[u8]) = match self {
            Reply::Error(text) => (Some(text.as_bytes()), &[]),
            Reply::Raw(frame) => (None, frame),
            _ => (None, &[]),
        };
        let may_be_within = matches!(frame.first(), Some(b'-' | b'!' | b'*' | b'%' | b'~'));
        let elements = if may_be_within { frame } else { &[] };
        let elements = flat::elements(elements).take(ELEMENTS_LOOKED_AT);
        own.into_iter().chain(elements.filter_map(|element| match element.marker {
            b'-' => Some(element.line),
            b'!' => element.body,
            _ => None,
        }))
    }

    /// Appends the bytes of this reply to `out`.
    pub fn encode(&self, protocol: Protocol, out: &mut Output) {
        match self {
            Reply::Simple(text) => put_simple(text, out),
            Reply::Error(text) => put_error(text, out),
            Reply::Int(number) => put_header(b':', *number, out),
            Reply::Bulk(bytes) => put_bulk(bytes, out),
            Reply::Nil => out.extend_from_slice(null(protocol, b"$-1\r\n")),
            Reply::NilArray => out.extend_from_slice(null(protocol, b"*-1\r\n")),
            Reply::Array(items) => put_items(Head::Array(items.len()), items, protocol, out),
            Reply::Executed(replies) => put_executed(replies, protocol, out),
            Reply::Map(pairs) => put_pairs(pairs, protocol, out),
            Reply::Set(items) => put_items(Head::Set(items.len()), items, protocol, out),
            Reply::Verbatim(bytes) => put_verbatim(bytes, protocol, out),
            Reply::Push(items) => put_items(Head::Push(items.len()), items, protocol, out),
            Reply::Each(replies) => replies.iter().for_each(|reply| reply.encode(protocol, out)),
            Reply::Encoded(encoded) => out.share(encoded.bytes(protocol)),
            Reply::Raw(frame) => put_raw(frame, protocol, out),
        }
    }
}

fn put_simple(text: &str, out: &mut Output) {
    debug_assert!(!text.contains(['\r', '\n']), "a status is one line: {text:?}");
    out.reserve(text.len() + 3);
    out.put_u8(b'+');
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes an error. Line breaks at the ends are dropped and inner ones become spaces, as in
/// `addReplyErrorFormatInternal`.
fn put_error(text: &str, out: &mut Output) {
    out.put_u8(b'-');
    let text = text.trim_matches(['\r', '\n']).as_bytes();
    out.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn put_bulk(bytes: &Bytes, out: &mut Output) {
    put_header(b'$', length(bytes.len()), out);
    out.share(bytes);
    out.extend_from_slice(b"\r\n");
}

fn put_word(word: &[u8], out: &mut Output) {
    put_header(b'$', length(word.len()), out);
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Prefix that marks a verbatim string as plain text.
const TEXT: &[u8] = b"txt:";

fn put_verbatim(bytes: &Bytes, protocol: Protocol, out: &mut Output) {
    Head::Verbatim(bytes.len()).encode(protocol, out);
    out.share(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes nested replies. Recurses as deep as the reply is nested, which never depends on a client.
fn put_items(head: Head, items: &[Reply], protocol: Protocol, out: &mut Output) {
    head.encode(protocol, out);
    for item in items {
        item.encode(protocol, out);
    }
}

/// Writes a transaction's replies. All commands must have been answered before.
fn put_executed(replies: &[(u16, Done)], protocol: Protocol, out: &mut Output) {
    Head::Array(replies.len()).encode(protocol, out);
    for (_, done) in replies {
        match done {
            Done::Reply(reply) => reply.encode(protocol, out),
            Done::Own(_) => debug_assert!(false, "the session makes the reply"),
        }
    }
}

fn put_pairs(pairs: &[(Reply, Reply)], protocol: Protocol, out: &mut Output) {
    Head::Map(pairs.len()).encode(protocol, out);
    for (field, value) in pairs {
        field.encode(protocol, out);
        value.encode(protocol, out);
    }
}

/// Writes a RESP3 frame. For RESP2, each element is rewritten the way Redis's `addReply...` would send it. Unchanged
/// bytes between two such elements are passed on in one piece.
fn put_raw(frame: &Bytes, protocol: Protocol, out: &mut Output) {
    if protocol == Protocol::Resp3 {
        return out.share(frame);
    }
    if frame.len() < LARGE {
        return flat::elements(frame).for_each(|element| put_element(&element, out));
    }
    let (mut at, mut kept) = (0, 0);
    for element in flat::elements(frame) {
        let end = at + element.bytes.len();
        if is_rewritten(element.marker) {
            out.share(&frame.slice(kept..at));
            put_element(&element, out);
            kept = end;
        }
        at = end;
    }
    out.share(&frame.slice(kept..at));
}

fn is_rewritten(marker: u8) -> bool {
    matches!(marker, b'_' | b'#' | b',' | b'(' | b'=' | b'%' | b'~' | b'>')
}

/// Writes one element of a RESP3 frame for RESP2.
fn put_element(element: &flat::Element<'_>, out: &mut Output) {
    let children = || element.children().map_or(0, |children| length(children as usize));
    match (element.marker, element.line) {
        (b'_', _) => out.extend_from_slice(b"$-1\r\n"),
        (b'#', truth) => put_header(b':', (truth == b"t").into(), out),
        (b',' | b'(', number) => put_word(number, out),
        (b'=', _) => put_word(element.body.and_then(|b| b.get(4..)).unwrap_or_default(), out),
        (b'%' | b'~' | b'>', _) => put_header(b'*', children(), out),
        _ => out.extend_from_slice(element.bytes),
    }
}

/// Writes a marker, a decimal number and CRLF. Nearly every reply has such a head, so this avoids `format!`.
#[inline]
fn put_header(marker: u8, number: i64, out: &mut Output) {
    let mut line = [0; HEADER_MAX];
    let mut at = HEADER_MAX - 2;
    line[at..].copy_from_slice(b"\r\n");
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        line[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        line[at] = b'-';
    }
    at -= 1;
    line[at] = marker;
    out.extend_from_slice(&line[at..]);
}

#[inline]
fn null(protocol: Protocol, resp2: &'static [u8]) -> &'static [u8] {
    match protocol {
        Protocol::Resp2 => resp2,
        Protocol::Resp3 => b"_\r\n",
    }
}

fn aggregate(protocol: Protocol, resp3: u8) -> u8 {
    match protocol {
        Protocol::Resp2 => b'*',
        Protocol::Resp3 => resp3,
    }
}

#[inline]
fn length(len: usize) -> i64 {
    i64::try_from(len).expect("no allocation is longer than isize::MAX bytes")
}

/// Maximum elements of one reply that are searched for errors to count. In a larger reply, searching further costs
/// more than it is worth.
const ELEMENTS_LOOKED_AT: usize = 1024;

/// Length of a marker, a sign, the 19 digits of `i64::MIN`, CR and LF.
const HEADER_MAX: usize = 1 + 1 + 19 + 2;

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;
    use redis_protocol::resp2::{decode::decode as decode2, types::OwnedFrame as Frame2};
    use redis_protocol::resp3::{
        decode::complete::decode as decode3,
        types::{OwnedFrame as Frame3, VerbatimStringFormat},
    };

    use super::*;

    fn encoded(reply: &Reply, protocol: Protocol) -> Vec<u8> {
        let mut out = Output::default();
        reply.encode(protocol, &mut out);
        out.take()
    }

    #[track_caller]
    fn assert_bytes(reply: Reply, resp2: &str, resp3: &str) {
        assert_eq!(String::from_utf8_lossy(&encoded(&reply, Protocol::Resp2)), resp2);
        assert_eq!(String::from_utf8_lossy(&encoded(&reply, Protocol::Resp3)), resp3);
    }

    #[test]
    fn scalars_have_the_forms_of_redis() {
        assert_bytes(Reply::OK, "+OK\r\n", "+OK\r\n");
        assert_bytes(Reply::error("ERR no"), "-ERR no\r\n", "-ERR no\r\n");
        assert_bytes(Reply::Int(0), ":0\r\n", ":0\r\n");
        assert_bytes(Reply::Int(-120), ":-120\r\n", ":-120\r\n");
        assert_bytes(
            Reply::Int(i64::MIN),
            ":-9223372036854775808\r\n",
            ":-9223372036854775808\r\n",
        );
        assert_bytes(Reply::bulk(""), "$0\r\n\r\n", "$0\r\n\r\n");
        assert_bytes(Reply::bulk("0123456789"), "$10\r\n0123456789\r\n", "$10\r\n0123456789\r\n");
        assert_bytes(Reply::Nil, "$-1\r\n", "_\r\n");
        assert_bytes(Reply::NilArray, "*-1\r\n", "_\r\n");
        assert_bytes(Reply::Verbatim("a".into()), "$1\r\na\r\n", "=5\r\ntxt:a\r\n");
    }

    #[test]
    fn aggregates_are_flat_arrays_in_resp2() {
        let map = Reply::Map(vec![(Reply::bulk("a"), Reply::Nil), (Reply::Int(1), Reply::OK)]);
        assert_bytes(
            map,
            "*4\r\n$1\r\na\r\n$-1\r\n:1\r\n+OK\r\n",
            "%2\r\n$1\r\na\r\n_\r\n:1\r\n+OK\r\n",
        );
        assert_bytes(Reply::Set(vec![Reply::Int(1)]), "*1\r\n:1\r\n", "~1\r\n:1\r\n");
        assert_bytes(Reply::Push(vec![Reply::Int(1)]), "*1\r\n:1\r\n", ">1\r\n:1\r\n");
        let each = Reply::Each(vec![Reply::Push(vec![Reply::Nil]), Reply::Int(2)]);
        assert_bytes(each, "*1\r\n$-1\r\n:2\r\n", ">1\r\n_\r\n:2\r\n");
        assert_bytes(Reply::Array(vec![]), "*0\r\n", "*0\r\n");
    }

    #[test]
    fn what_masters_said_is_rewritten_for_resp2_only() {
        let raw = "*6\r\n_\r\n#t\r\n,1.5\r\n=5\r\ntxt:a\r\n%1\r\n+a\r\n(12\r\n~1\r\n$1\r\nb\r\n";
        let resp2 =
            "*6\r\n$-1\r\n:1\r\n$3\r\n1.5\r\n$1\r\na\r\n*2\r\n+a\r\n$2\r\n12\r\n*1\r\n$1\r\nb\r\n";
        assert_bytes(Reply::Raw(raw.into()), resp2, raw);
    }

    /// Above a certain size, bytes that need no rewriting are passed on in pieces.
    #[test]
    fn large_raw_replies_are_rewritten_as_small_ones() {
        let value = "v".repeat(3 * LARGE);
        let raw = |null: &str, map: &str| {
            let bulk = format!("${}\r\n{value}\r\n", value.len());
            let many = ":7\r\n".repeat(LARGE);
            format!("*5\r\n{null}{bulk}{map}+a\r\n{bulk}{null}*{LARGE}\r\n{many}")
        };
        let (resp3, resp2) = (raw("_\r\n", "%1\r\n"), raw("$-1\r\n", "*2\r\n"));
        assert_bytes(Reply::Raw(resp3.clone().into()), &resp2, &resp3);
    }

    #[test]
    fn what_was_encoded_before_is_the_same() {
        let reply = Reply::Map(vec![(Reply::bulk("a"), Reply::Nil), (Reply::Int(1), Reply::OK)]);
        let encoded = Reply::Encoded(Encoded::new(&reply));
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            assert_eq!(
                super::tests::encoded(&encoded, protocol),
                super::tests::encoded(&reply, protocol)
            );
        }
    }

    #[test]
    fn an_error_stays_on_one_line() {
        let forged = Reply::error("ERR unknown command 'a\r\n+OK'\r\n");
        assert_bytes(
            forged,
            "-ERR unknown command 'a  +OK'\r\n",
            "-ERR unknown command 'a  +OK'\r\n",
        );
    }

    proptest! {
        #[test]
        fn another_decoder_reads_what_we_encode(reply in any_reply()) {
            let bytes = encoded(&reply, Protocol::Resp2);
            let (frame, read) = decode2(&bytes).unwrap().expect("a whole frame");
            prop_assert_eq!((frame, read), (in_resp2(&reply), bytes.len()));

            let bytes = encoded(&reply, Protocol::Resp3);
            let (frame, read) = decode3(&bytes).unwrap().expect("a whole frame");
            prop_assert_eq!((frame, read), (in_resp3(&reply), bytes.len()));
        }
    }

    fn any_reply() -> impl Strategy<Value = Reply> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        let leaf = prop_oneof![
            Just(Reply::OK),
            "[A-Z]{3} [a-z' \r\n]{0,30}".prop_map(Reply::error),
            any::<i64>().prop_map(Reply::Int),
            bytes().prop_map(Reply::Bulk),
            Just(Reply::Nil),
            Just(Reply::NilArray),
            bytes().prop_map(Reply::Verbatim),
        ];
        let nested = leaf.prop_recursive(3, 24, 4, |inner| {
            let items = proptest::collection::vec(inner.clone(), 0..4);
            // Members and fields are strings everywhere in Redis, and the other decoder requires that.
            let word = || "[a-z]{0,8}";
            prop_oneof![
                items.prop_map(Reply::Array),
                proptest::collection::vec(word().prop_map(Reply::bulk), 0..4).prop_map(Reply::Set),
                proptest::collection::btree_map(word(), inner, 0..4).prop_map(|fields| {
                    let pair = |(field, value)| (Reply::bulk(field), value);
                    Reply::Map(fields.into_iter().map(pair).collect())
                }),
            ]
        });
        prop_oneof![
            nested.clone(),
            proptest::collection::vec(nested, 1..4).prop_map(|mut items| {
                items.insert(0, Reply::bulk("message"));
                Reply::Push(items)
            })
        ]
    }

    fn one_line(text: &str) -> String {
        text.trim_matches(['\r', '\n']).replace(['\r', '\n'], " ")
    }

    fn in_resp2(reply: &Reply) -> Frame2 {
        let array = |items: &[Reply]| Frame2::Array(items.iter().map(in_resp2).collect());
        match reply {
            Reply::Simple(text) => Frame2::SimpleString(text.as_bytes().to_vec()),
            Reply::Error(text) => Frame2::Error(one_line(text)),
            Reply::Int(number) => Frame2::Integer(*number),
            Reply::Bulk(bytes) | Reply::Verbatim(bytes) => Frame2::BulkString(bytes.to_vec()),
            Reply::Nil | Reply::NilArray => Frame2::Null,
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => array(items),
            Reply::Map(pairs) => Frame2::Array(
                pairs
                    .iter()
                    .flat_map(|(field, value)| [in_resp2(field), in_resp2(value)])
                    .collect(),
            ),
            Reply::Each(_) => unreachable!("it is no frame of its own"),
            Reply::Raw(_) | Reply::Encoded(_) | Reply::Executed(_) => unreachable!("not generated"),
        }
    }

    fn in_resp3(reply: &Reply) -> Frame3 {
        let attributes = None;
        let all = |items: &[Reply]| items.iter().map(in_resp3).collect::<Vec<_>>();
        match reply {
            Reply::Simple(text) => {
                Frame3::SimpleString { data: text.as_bytes().to_vec(), attributes }
            }
            Reply::Error(text) => Frame3::SimpleError { data: one_line(text), attributes },
            Reply::Int(number) => Frame3::Number { data: *number, attributes },
            Reply::Bulk(bytes) => Frame3::BlobString { data: bytes.to_vec(), attributes },
            Reply::Nil | Reply::NilArray => Frame3::Null,
            Reply::Array(items) => Frame3::Array { data: all(items), attributes },
            Reply::Map(pairs) => {
                let data: HashMap<_, _> =
                    pairs.iter().map(|(field, value)| (in_resp3(field), in_resp3(value))).collect();
                Frame3::Map { data, attributes }
            }
            Reply::Set(items) => {
                let data: HashSet<_> = all(items).into_iter().collect();
                Frame3::Set { data, attributes }
            }
            Reply::Verbatim(bytes) => Frame3::VerbatimString {
                data: bytes.to_vec(),
                format: VerbatimStringFormat::Text,
                attributes,
            },
            Reply::Push(items) => Frame3::Push { data: all(items), attributes },
            Reply::Each(_) => unreachable!("it is no frame of its own"),
            Reply::Raw(_) | Reply::Encoded(_) | Reply::Executed(_) => unreachable!("not generated"),
        }
    }
}
