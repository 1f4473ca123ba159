//! Replies of masters to one program.
//!
//! Masters that hold the same state and run the same program reach the same state and reply the same. A master that
//! replies differently may also hold something different, and its stamp does not show that.

use bytes::Bytes;

use super::RegisterReply;
use crate::decision::quorum::Quorum;
use crate::resp::flat;

/// Distinct replies of a round, each with the number of masters that gave it.
#[derive(Debug, Default)]
pub(super) struct Replies {
    given: Vec<(RegisterReply, usize)>,
    /// Whether a quorum ran the program without agreeing on a reply yet.
    pub(super) is_open: bool,
}

impl Replies {
    /// Adds the reply of one more master.
    pub(super) fn add(&mut self, reply: &RegisterReply) {
        match self.given.iter_mut().find(|(given, _)| is_alike(given, reply)) {
            Some((_, count)) => *count += 1,
            None => self.given.push((reply.clone(), 1)),
        }
    }

    /// Returns any of the replies. If one master has run the program, all masters that run it reply the same.
    pub(super) fn first(&self) -> Option<&RegisterReply> {
        self.given.first().map(|(reply, _)| reply)
    }

    /// Returns whether masters gave different replies.
    pub(super) fn differ(&self) -> bool {
        self.given.len() > 1
    }

    /// Returns the reply that a quorum gave.
    pub(super) fn agreed(&self, quorum: Quorum) -> Option<&RegisterReply> {
        let agreed = self.given.iter().find(|(_, count)| *count >= quorum.needed());
        agreed.map(|(reply, _)| reply)
    }
}

/// Returns the reply to the client if no quorum agrees on one.
pub(super) fn differing() -> RegisterReply {
    let error = "-ERR the script ran, but replied differently on masters that held the same data, and may have written different data: \
                 make it deterministic (docs/scripts.md)\r\n";
    RegisterReply::Frame(Bytes::from_static(error.as_bytes()), Vec::new(), None)
}

/// Returns whether two replies are equal. Each master orders the members of a set and the pairs of a map in its own
/// way, so their order does not count.
fn is_alike(one: &RegisterReply, other: &RegisterReply) -> bool {
    let (RegisterReply::Frame(one, messages, _), RegisterReply::Frame(other, others, _)) =
        (one, other)
    else {
        return one == other;
    };
    messages == others && (one == other || flat::in_order(one) == flat::in_order(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &'static str) -> RegisterReply {
        RegisterReply::Frame(Bytes::from_static(text.as_bytes()), Vec::new(), None)
    }

    fn given(replies: &[&'static str]) -> Replies {
        let mut all = Replies::default();
        replies.iter().for_each(|reply| all.add(&frame(reply)));
        all
    }

    #[test]
    fn a_quorum_of_equal_replies_is_the_answer() {
        let quorum = Quorum::of(3);
        let two = given(&[":1\r\n", ":2\r\n", ":2\r\n"]);
        assert_eq!(two.agreed(quorum), Some(&frame(":2\r\n")));
        assert!(two.differ());
        assert_eq!(given(&[":1\r\n", ":2\r\n", ":3\r\n"]).agreed(quorum), None);
        assert!(!given(&[":1\r\n", ":1\r\n"]).differ());
    }

    #[test]
    fn sets_and_maps_have_no_order() {
        assert!(!given(&["*1\r\n~2\r\n:1\r\n:2\r\n", "*1\r\n~2\r\n:2\r\n:1\r\n"]).differ());
        assert!(
            !given(&["%2\r\n:1\r\n:9\r\n:2\r\n:8\r\n", "%2\r\n:2\r\n:8\r\n:1\r\n:9\r\n"]).differ()
        );
        assert!(given(&["%1\r\n:1\r\n:9\r\n", "%1\r\n:9\r\n:1\r\n"]).differ());
        assert!(given(&["*2\r\n:1\r\n:2\r\n", "*2\r\n:2\r\n:1\r\n"]).differ());
    }
}
