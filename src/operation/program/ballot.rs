//! Which answers of masters count as the same, and what the client gets of those that do.

use bytes::Bytes;

use super::times::{Times, guaranteed};
use crate::command::number::parse_i64;
use crate::quorum::Quorum;
use crate::quorum::program::Vote;
use crate::resp3::{self, Element};

/// What one master did and said.
#[derive(Clone, Debug)]
pub(crate) struct Ballot {
    /// It changed something.
    pub(crate) changed: bool,
    /// It said this, a RESP3 frame.
    pub(crate) reply: Bytes,
    /// The remaining times that it has handed out to the script.
    pub(crate) times: Times,
    /// What it left under the keys that it changed, if that may be made of those times.
    pub(crate) left: Vec<Left>,
    /// The array in it, or its second part, consists of groups of so many that have no order; 0: it has
    /// one.
    pub(crate) items_each: usize,
}

/// Database, key, and the checksum of its value.
pub(crate) type Left = (Bytes, Bytes, Bytes);

/// What was changed may have been made of the times, and then it has to be the same on all masters: the next
/// script reads it. Only the times at which keys end may differ as they always do.
impl PartialEq for Ballot {
    fn eq(&self, other: &Self) -> bool {
        self.changed == other.changed
            && (!self.changed || self.times == other.times || self.has_left_the_same(other))
            && self.says_the_same(other)
    }
}

impl Vote for Ballot {
    /// A number that is no remaining time has a meaning of its own, even if it looks like one.
    fn is_like(&self, other: &Self) -> bool {
        let without_times = |(element, time): (_, Option<i64>)| match time {
            Some(_) => None,
            None => Some(element),
        };
        !self.changed
            && !other.changed
            && self.elements().map(without_times).eq(other.elements().map(without_times))
    }

    fn says_the_same(&self, other: &Self) -> bool {
        self.reply == other.reply
            || has_no_order(&self.reply) && ordered(&self.reply) == ordered(&other.reply)
            || self.items_each > 0 && unordered_items(self) == unordered_items(other)
    }
}

impl Ballot {
    fn has_left_the_same(&self, other: &Self) -> bool {
        !self.left.is_empty() && self.left == other.left
    }

    /// What it said, and which of it are remaining times.
    fn elements(&self) -> impl Iterator<Item = (Element<'_>, Option<i64>)> {
        resp3::elements(&self.reply).map(|element| {
            let number = if element.marker == b':' { parse_i64(element.line) } else { None };
            (element, number.filter(|number| self.times.include(*number)))
        })
    }
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

/// One reply for all of a quorum: each remaining time in it that they do not agree on is the longest that at
/// least a quorum of masters guarantees.
pub(super) fn conservative(quorum: Quorum, won: &[&Ballot]) -> Bytes {
    let Some(first) = won.first() else { return Bytes::new() };
    if won.iter().all(|ballot| ballot == first) {
        return first.reply.clone();
    }
    let mut walks: Vec<_> = won.iter().map(|ballot| ballot.elements()).collect();
    let mut merged = Vec::with_capacity(first.reply.len());
    loop {
        let column: Vec<_> = walks.iter_mut().filter_map(Iterator::next).collect();
        let Some((element, _)) = column.first() else { return merged.into() };
        match guaranteed(quorum, column.iter().filter_map(|(_, time)| *time).collect()) {
            Some(time) => merged.extend_from_slice(format!(":{time}\r\n").as_bytes()),
            None => merged.extend_from_slice(element.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::MasterId;
    use crate::quorum::program::{Did, Program, Step};

    fn ballot(reply: &'static str, times_ms: &[i64]) -> Ballot {
        let pairs: String = times_ms.iter().map(|ms| format!("$1\r\nk\r\n:{ms}\r\n")).collect();
        let times = format!("*{}\r\n{pairs}", 2 * times_ms.len());
        let times = Times::parse(times.as_bytes()).expect("times");
        let reply = Bytes::from_static(reply.as_bytes());
        Ballot { changed: false, reply, times, left: Vec::new(), items_each: 0 }
    }

    fn changed(reply: &'static str, times_ms: &[i64]) -> Ballot {
        Ballot { changed: true, ..ballot(reply, times_ms) }
    }

    #[test]
    fn remaining_times_may_differ_but_not_what_means_something() {
        let alike = |a, b| {
            let times = [29_990, 30_000, 5000, 7000, -1, -2, 0];
            ballot(a, &times).is_like(&ballot(b, &times))
        };
        assert!(alike(":29990\r\n", ":30000\r\n"));
        assert!(alike("*2\r\n$1\r\nt\r\n:5\r\n", "*2\r\n$1\r\nt\r\n:7\r\n"));
        assert!(!alike(":-1\r\n", ":-2\r\n") && !alike(":0\r\n", ":5\r\n"));
        assert!(!alike("*1\r\n:5\r\n", "*2\r\n:5\r\n:7\r\n"));
        assert!(!alike("*2\r\n$1\r\nt\r\n:5\r\n", "*2\r\n$1\r\nu\r\n:5\r\n"));
    }

    #[test]
    fn numbers_that_no_master_has_read_as_a_time_must_agree() {
        let refused = ballot(":29990\r\n", &[29_990]);
        let granted = ballot(":1\r\n", &[]);
        assert!(refused != granted && !refused.is_like(&granted) && !granted.is_like(&refused));
        let counted = |reply, ms| ballot(reply, &[ms]);
        let (one, other) = (":7\r\n", ":8\r\n");
        assert!(!counted(one, 29_990).is_like(&counted(other, 30_000)));
    }

    #[test]
    fn what_was_changed_must_be_made_of_the_same_times() {
        let (one, other) = (changed(":1\r\n", &[29_990]), changed(":1\r\n", &[30_000]));
        assert!(one != other && !one.is_like(&other));
        assert!(one == changed(":1\r\n", &[29_990]));
        let (one, other) = (changed(":29990\r\n", &[29_990]), changed(":30000\r\n", &[30_000]));
        assert!(one != other && !one.is_like(&other));
        assert!(ballot(":1\r\n", &[29_990]) == ballot(":1\r\n", &[30_000]));
    }

    #[test]
    fn what_was_left_tells_whether_it_was_made_of_the_times() {
        let left = |checksum: &'static str, ms| {
            let [db, key, checksum] =
                ["0", "k", checksum].map(|text| Bytes::from_static(text.as_bytes()));
            Ballot { left: vec![(db, key, checksum)], ..changed(":1\r\n", &[ms]) }
        };
        assert!(left("a", 29_990) == left("a", 30_000), "an additive extension");
        assert!(left("a", 29_990) != left("b", 30_000), "a time that was stored");
        assert!(left("a", 29_990) == left("b", 29_990), "members in another order");
    }

    /// The first two have both an equal and an alike one when the last has answered.
    #[test]
    fn equal_replies_win_over_such_that_are_alike() {
        let mut program = Program::new(Quorum::of(3), 0);
        program.ask(Quorum::of(3).everybody());
        let did = Did { changed: false, failed: false, timed: true };
        let replies = [ballot(":5\r\n", &[]), ballot(":7\r\n", &[7000]), ballot(":5\r\n", &[5000])];
        let steps = replies
            .into_iter()
            .enumerate()
            .map(|(master, reply)| program.voted(0, MasterId::new(master), did, reply).step);
        let winners = [0, 2].map(MasterId::new).into_iter().collect();
        assert_eq!(steps.last(), Some(Step::Won(winners)));
    }

    #[test]
    fn sets_and_maps_have_no_order() {
        let same = |a, b| ballot(a, &[]) == ballot(b, &[]);
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
            ..ballot(Box::leak(format!("*2\r\n+0\r\n*4\r\n{items}").into_boxed_str()), &[])
        };
        let one = page("+a\r\n+1\r\n+b\r\n+2\r\n");
        assert!(one == page("+b\r\n+2\r\n+a\r\n+1\r\n"));
        assert!(one != page("+a\r\n+2\r\n+b\r\n+1\r\n"));
    }

    #[test]
    fn what_a_quorum_guarantees_is_answered() {
        let merged = |won: &[Ballot]| conservative(Quorum::of(3), &won.iter().collect::<Vec<_>>());
        let replies = [(":30\r\n", 30), (":10\r\n", 10), (":20\r\n", 20)];
        let replies = replies.map(|(reply, ms)| ballot(reply, &[ms]));
        assert_eq!(&merged(&replies)[..], b":20\r\n");
        assert_eq!(&merged(&replies[..2])[..], b":10\r\n");
        let pairs = [("*2\r\n:77\r\n:9\r\n", 9), ("*2\r\n:77\r\n:8\r\n", 8)];
        let pairs = pairs.map(|(reply, ms)| ballot(reply, &[ms]));
        assert_eq!(&merged(&pairs)[..], b"*2\r\n:77\r\n:8\r\n");
    }
}
