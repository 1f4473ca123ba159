//! Which answers of masters count as the same, and what the client gets of those that do.

use bytes::Bytes;

use crate::command::number::parse_i64;
use crate::quorum::Quorum;
use crate::resp3::{self, Element};

/// What one master did and said.
#[derive(Clone, Debug)]
pub(crate) struct Ballot {
    /// It changed something.
    pub(crate) changed: bool,
    /// It said this, a RESP3 frame.
    pub(crate) reply: Bytes,
    /// Integers in it may be remaining times, which differ by milliseconds.
    pub(crate) read_ttl: bool,
    /// The array in it, or its second part, consists of groups of so many that have no order; 0: it has
    /// one.
    pub(crate) items_each: usize,
}

impl PartialEq for Ballot {
    fn eq(&self, other: &Self) -> bool {
        self.changed == other.changed
            && (self.reply == other.reply
                || (self.read_ttl || other.read_ttl) && alike(&self.reply, &other.reply)
                || has_no_order(&self.reply) && ordered(&self.reply) == ordered(&other.reply)
                || self.items_each > 0 && unordered_items(self) == unordered_items(other))
    }
}

/// Equal but for how large positive integers are: 0, -1 and -2 have meanings of their own.
fn alike(one: &[u8], other: &[u8]) -> bool {
    let mut others = resp3::elements(other);
    let alike = |a: Element<'_>, b: Element<'_>| a.bytes == b.bytes || positive(&a) && positive(&b);
    resp3::elements(one).all(|a| others.next().is_some_and(|b| alike(a, b)))
        && others.next().is_none()
}

fn positive(element: &Element<'_>) -> bool {
    element.marker == b':' && parse_i64(element.line).is_some_and(|number| number > 0)
}

/// Whether there is a set or a map anywhere in a frame. Masters keep their members in different orders.
fn has_no_order(reply: &[u8]) -> bool {
    resp3::elements(reply).any(|element| matches!(element.marker, b'~' | b'%'))
}

/// The frame with the members of every set and the pairs of every map in an order of their own.
fn ordered(reply: &[u8]) -> Vec<u8> {
    let mut rest = reply;
    let mut out = Vec::with_capacity(reply.len());
    ordered_frame(&mut rest, MAX_DEPTH, &mut out);
    out
}

/// Takes one frame off `rest`. Beyond `depth` it is left as it is: not equal is the safe side.
fn ordered_frame(rest: &mut &[u8], depth: usize, out: &mut Vec<u8>) {
    let Some(header) = resp3::elements(rest).next() else { return };
    let children = header.children().unwrap_or(0);
    if depth == 0 || children == 0 {
        if let Some((frame, after)) = resp3::split_frame(rest) {
            out.extend_from_slice(frame);
            *rest = after;
        }
        return;
    }
    *rest = &rest[header.bytes.len()..];
    out.extend_from_slice(header.bytes);
    let frames_each = if header.marker == b'%' { 2 } else { 1 };
    let mut items = Vec::new();
    for _ in 0..children / frames_each {
        let mut item = Vec::new();
        for _ in 0..frames_each {
            ordered_frame(rest, depth - 1, &mut item);
        }
        items.push(item);
    }
    if header.marker != b'*' {
        items.sort_unstable();
    }
    items.iter().for_each(|item| out.extend_from_slice(item));
}

/// How deep a reply may nest for its sets and maps to be compared without their order.
const MAX_DEPTH: usize = 32;

/// The cursor of a page, if it is one, and its groups of items in an order of their own.
fn unordered_items(ballot: &Ballot) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let whole = resp3::items(&ballot.reply)?;
    let (cursor, items) = match whole[..] {
        [cursor, page] if page.starts_with(b"*") => (cursor.to_vec(), resp3::items(page)?),
        _ => (Vec::new(), whole),
    };
    let mut groups: Vec<_> = items.chunks(ballot.items_each).map(|group| group.concat()).collect();
    groups.sort_unstable();
    Some((cursor, groups))
}

/// One reply for all of a quorum: each remaining time in it is the longest that at least a quorum of
/// masters guarantees.
pub(super) fn conservative(quorum: Quorum, replies: &[Bytes]) -> Bytes {
    let Some(first) = replies.first() else { return Bytes::new() };
    if replies.iter().all(|reply| reply == first) || has_no_order(first) {
        return first.clone();
    }
    let mut walks: Vec<_> = replies.iter().map(|reply| resp3::elements(reply)).collect();
    let mut merged = Vec::with_capacity(first.len());
    loop {
        let column: Vec<_> = walks.iter_mut().filter_map(Iterator::next).collect();
        let Some(element) = column.first() else { return merged.into() };
        if column.iter().all(positive) {
            let mut times: Vec<_> = column.iter().filter_map(|e| parse_i64(e.line)).collect();
            times.sort_unstable_by(|a, b| b.cmp(a));
            let time = times.get(quorum.needed() - 1).or(times.last()).copied().unwrap_or(1);
            merged.extend_from_slice(format!(":{time}\r\n").as_bytes());
        } else {
            merged.extend_from_slice(element.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(reply: &'static str, read_ttl: bool) -> Ballot {
        let reply = Bytes::from_static(reply.as_bytes());
        Ballot { changed: false, reply, read_ttl, items_each: 0 }
    }

    #[test]
    fn remaining_times_may_differ_but_not_what_means_something() {
        let alike = |a, b| ballot(a, true) == ballot(b, true);
        assert!(alike(":29990\r\n", ":30000\r\n"));
        assert!(alike("*2\r\n$1\r\nt\r\n:5\r\n", "*2\r\n$1\r\nt\r\n:7\r\n"));
        assert!(!alike(":-1\r\n", ":-2\r\n") && !alike(":0\r\n", ":5\r\n"));
        assert!(!alike("*1\r\n:5\r\n", "*2\r\n:5\r\n:6\r\n"));
        assert!(!alike("*2\r\n$1\r\nt\r\n:5\r\n", "*2\r\n$1\r\nu\r\n:5\r\n"));
    }

    #[test]
    fn numbers_of_a_script_that_read_no_time_must_agree() {
        assert!(ballot(":7\r\n", false) != ballot(":8\r\n", false));
    }

    #[test]
    fn sets_and_maps_have_no_order() {
        let same = |a, b| ballot(a, false) == ballot(b, false);
        assert!(same("~2\r\n+a\r\n+b\r\n", "~2\r\n+b\r\n+a\r\n"));
        assert!(same("%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", "%2\r\n+b\r\n:2\r\n+a\r\n:1\r\n"));
        assert!(!same("%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", "%2\r\n+b\r\n:1\r\n+a\r\n:2\r\n"));
        assert!(!same("*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n"));
        let nested = |set: &str| format!("*2\r\n:1\r\n*1\r\n%1\r\n+k\r\n{set}");
        let (one, other) = (nested("~2\r\n+a\r\n+b\r\n"), nested("~2\r\n+b\r\n+a\r\n"));
        assert_eq!(ordered(one.as_bytes()), ordered(other.as_bytes()));
        assert_ne!(ordered(one.as_bytes()), ordered(nested("~1\r\n+a\r\n").as_bytes()));
    }

    #[test]
    fn the_pairs_of_a_page_have_no_order_but_stay_pairs() {
        let page = |items: &str| Ballot {
            items_each: 2,
            ..ballot(Box::leak(format!("*2\r\n+0\r\n*4\r\n{items}").into_boxed_str()), false)
        };
        let one = page("+a\r\n+1\r\n+b\r\n+2\r\n");
        assert!(one == page("+b\r\n+2\r\n+a\r\n+1\r\n"));
        assert!(one != page("+a\r\n+2\r\n+b\r\n+1\r\n"));
    }

    #[test]
    fn what_a_quorum_guarantees_is_answered() {
        let replies = [":30\r\n", ":10\r\n", ":20\r\n"].map(|r| Bytes::from_static(r.as_bytes()));
        assert_eq!(&conservative(Quorum::of(3), &replies)[..], b":20\r\n");
        assert_eq!(&conservative(Quorum::of(3), &replies[..2])[..], b":10\r\n");
        let pairs =
            ["*2\r\n+t\r\n:9\r\n", "*2\r\n+t\r\n:8\r\n"].map(|r| Bytes::from_static(r.as_bytes()));
        assert_eq!(&conservative(Quorum::of(3), &pairs)[..], b"*2\r\n+t\r\n:8\r\n");
    }
}
