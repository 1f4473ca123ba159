//! One page of a walk, and the other masters' answers about its entries.

use bytes::Bytes;

use super::WalkOver;
use crate::decision::quorum::Quorum;
use crate::decision::quorum::walk::walks;
use crate::operation::request;
use crate::resp::flat::{self, Element};
use crate::resp::reply::Reply;

/// One page of a master's entries.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    /// The master's cursor for the next page.
    pub(super) next: u64,
    pub(super) found: Vec<Found>,
}

/// A key, or a field or member with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) name: Bytes,
    value: Option<Bytes>,
}

impl Page {
    /// Parses the reply `[cursor, [name, ...]]`; `frames_each` is the number of frames per entry.
    pub(super) fn parse(reply: &Bytes, frames_each: usize) -> Option<Self> {
        let whole = flat::items(reply)?;
        let [cursor, list] = whole[..] else { return None };
        let next = std::str::from_utf8(flat::bulk(cursor)?).ok()?.parse().ok()?;
        let frames = flat::items(list)?;
        let found = |frames: &[&[u8]]| {
            let name = reply.slice_ref(flat::bulk(frames[0])?);
            let value = frames.get(1).map(|frame| text(frame).map(|text| reply.slice_ref(text)));
            Some(Found { name, value: value.flatten() })
        };
        Some(Self { next, found: frames.chunks(frames_each).filter_map(found).collect() })
    }
}

impl WalkOver {
    /// Returns the number of frames per entry on a page.
    pub(super) fn frames_each(&self) -> usize {
        match self {
            Self::Keys | Self::Set(_) => 1,
            Self::Hash(_) | Self::SortedSet(_) => 2,
        }
    }

    /// Returns the requests for a master's values of these names, and the number of replies.
    pub(super) fn whether_there<'a>(
        &'a self,
        names: impl Iterator<Item = &'a [u8]>,
    ) -> (Vec<u8>, usize) {
        let (verb, key): (&[u8], &[u8]) = match self {
            // Keys are checked differently (`keys`).
            Self::Keys => return (Vec::new(), 0),
            Self::Hash(key) => (b"HMGET", key),
            Self::Set(key) => (b"SMISMEMBER", key),
            Self::SortedSet(key) => (b"ZMSCORE", key),
        };
        let words: Vec<&[u8]> = [verb, key].into_iter().chain(names).collect();
        let mut request = Vec::new();
        request::encode(&mut request, &words);
        (request, 1)
    }

    /// Parses a master's answer for each name; empty if the key has another type there.
    pub(super) fn said(&self, answer: &Bytes) -> Vec<Said> {
        let frames = flat::items(answer).unwrap_or_default();
        let said = |frame: &[u8]| match text(frame) {
            Some(b"0") if !self.has_values() => Said::Absent,
            None => Said::Absent,
            Some(_) if !self.has_values() => Said::There(None),
            Some(text) => Said::There(Some(answer.slice_ref(text))),
        };
        frames.into_iter().map(said).collect()
    }

    fn has_values(&self) -> bool {
        self.frames_each() == 2
    }
}

/// Returns a string, or the text of a number.
fn text(frame: &[u8]) -> Option<&[u8]> {
    match flat::elements(frame).next()? {
        Element { marker: b':' | b',', line, .. } => Some(line),
        element => element.body,
    }
}

/// A master's value of a name.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Absent,
    There(Option<Bytes>),
}

/// One entry, and how many masters have it.
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) found: Found,
    quorum: Quorum,
    /// Whether values are scores, which have two notations.
    has_scores: bool,
    values: Vec<(Option<Bytes>, usize)>,
    absent: usize,
}

impl Poll {
    /// Creates a poll of an entry that one master has.
    pub(super) fn new(quorum: Quorum, found: Found, has_scores: bool) -> Self {
        let values = vec![(found.value.clone(), 1)];
        Self { found, quorum, has_scores, values, absent: 0 }
    }

    /// Counts the answer of another master.
    pub(super) fn hears(&mut self, said: Said) {
        let Said::There(value) = said else {
            self.absent += 1;
            return;
        };
        let is_same =
            |known: &Option<Bytes>| *known == value || self.has_scores && is_equal(known, &value);
        match self.values.iter_mut().find(|(known, _)| is_same(known)) {
            Some((_, holders)) => *holders += 1,
            None => self.values.push((value, 1)),
        }
    }

    /// Whether more masters are needed to decide.
    pub(super) fn is_open(&self) -> bool {
        self.agreed().is_none() && !self.is_held_by_too_few()
    }

    /// Whether too many masters lack it for a quorum to have it.
    pub(super) fn is_held_by_too_few(&self) -> bool {
        self.absent >= walks(self.quorum)
    }

    fn agreed(&self) -> Option<&Option<Bytes>> {
        let mut agreed = self.values.iter().filter(|(_, holders)| *holders >= self.quorum.needed());
        agreed.next().map(|(value, _)| value)
    }

    /// Returns the entry with the value of a quorum, or with some master's value while it is changing.
    pub(super) fn shown(self) -> impl Iterator<Item = Reply> {
        let value = self.agreed().unwrap_or(&self.found.value).clone();
        [Some(self.found.name), value].into_iter().flatten().map(Reply::bulk)
    }
}

fn is_equal(one: &Option<Bytes>, other: &Option<Bytes>) -> bool {
    let number = |value: &Option<Bytes>| {
        let text = std::str::from_utf8(value.as_deref()?).ok()?;
        text.parse::<f64>().ok()
    };
    number(one).is_some_and(|one| Some(one) == number(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &'static str, value: Option<&'static str>) -> Found {
        Found { name: Bytes::from(name), value: value.map(Bytes::from) }
    }

    fn there(value: &'static str) -> Said {
        Said::There(Some(Bytes::from(value)))
    }

    #[test]
    fn a_page_is_read_with_its_cursor() {
        let page = Bytes::from("*2\r\n$2\r\n17\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n");
        let pairs = Page { next: 17, found: vec![found("a", Some("1"))] };
        assert_eq!(Page::parse(&page, 2), Some(pairs));
        let names = Page { next: 17, found: vec![found("a", None), found("1", None)] };
        assert_eq!(Page::parse(&page, 1), Some(names));
        for broken in ["*0\r\n", "+OK\r\n", "*2\r\n$1\r\nx\r\n*0\r\n", "*2\r\n$1\r\n1\r\n:3\r\n"] {
            assert_eq!(Page::parse(&Bytes::from(broken), 1), None, "{broken:?}");
        }
    }

    #[test]
    fn masters_say_in_their_own_ways_what_they_have() {
        let said = |over: WalkOver, answer: &'static str| over.said(&Bytes::from(answer));
        let key = || Bytes::from("k");
        let yes = || Said::There(None);
        assert_eq!(said(WalkOver::Set(key()), "*2\r\n:1\r\n:0\r\n"), [yes(), Said::Absent]);
        assert_eq!(
            said(WalkOver::Hash(key()), "*2\r\n$1\r\n0\r\n_\r\n"),
            [there("0"), Said::Absent]
        );
        assert_eq!(
            said(WalkOver::SortedSet(key()), "*2\r\n,0\r\n_\r\n"),
            [there("0"), Said::Absent]
        );
        assert_eq!(said(WalkOver::Hash(key()), "-WRONGTYPE x\r\n"), []);
    }

    #[test]
    fn what_a_quorum_does_not_have_is_not_shown_unless_it_may_have_it() {
        let mut poll = Poll::new(Quorum::of(3), found("k", None), false);
        poll.hears(Said::Absent);
        assert!(poll.is_open() && !poll.is_held_by_too_few(), "the third may have it");
        poll.hears(Said::Absent);
        assert!(!poll.is_open() && poll.is_held_by_too_few());
        let mut poll = Poll::new(Quorum::of(3), found("k", None), false);
        poll.hears(Said::There(None));
        assert!(!poll.is_open() && !poll.is_held_by_too_few());
    }

    #[test]
    fn a_field_is_shown_with_the_value_of_a_quorum() {
        let shown = |said: Vec<Said>| {
            let mut poll = Poll::new(Quorum::of(3), found("f", Some("1.5")), true);
            said.into_iter().for_each(|said| poll.hears(said));
            poll.shown().nth(1)
        };
        let value = |text: &'static str| Some(Reply::bulk(text));
        assert_eq!(shown(vec![there("1.50")]), value("1.5"));
        assert_eq!(shown(vec![there("2"), there("2")]), value("2"));
        assert_eq!(shown(vec![there("2"), there("3")]), value("1.5"), "while it is changing");
    }
}
