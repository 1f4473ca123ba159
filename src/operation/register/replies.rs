//! What masters replied to one program.
//!
//! Masters that hold the same state and run the same program come to the same state, and say the same. Who says something
//! else may hold something else as well, and its stamp does not tell.

use bytes::Bytes;

use super::RegisterReply;
use crate::decision::quorum::Quorum;
use crate::resp::flat;

/// The replies of a round, each once, with how many masters gave it.
#[derive(Debug, Default)]
pub(super) struct Replies {
    given: Vec<(RegisterReply, usize)>,
    /// A quorum ran the program, and no reply is a quorum's yet.
    pub(super) is_open: bool,
}

impl Replies {
    /// One more master has replied.
    pub(super) fn add(&mut self, reply: &RegisterReply) {
        match self.given.iter_mut().find(|(given, _)| is_alike(given, reply)) {
            Some((_, count)) => *count += 1,
            None => self.given.push((reply.clone(), 1)),
        }
    }

    /// Any of them: as long as a master has run the program, it is what all reply that run it.
    pub(super) fn first(&self) -> Option<&RegisterReply> {
        self.given.first().map(|(reply, _)| reply)
    }

    /// Whether there are several.
    pub(super) fn differ(&self) -> bool {
        self.given.len() > 1
    }

    /// The one that a quorum gave.
    pub(super) fn agreed(&self, quorum: Quorum) -> Option<&RegisterReply> {
        let agreed = self.given.iter().find(|(_, count)| *count >= quorum.needed());
        agreed.map(|(reply, _)| reply)
    }
}

/// What is answered when no reply is a quorum's.
pub(super) fn differing() -> RegisterReply {
    let error = "-ERR masters answered differently although they held the same: the script ran, and what it wrote may differ. \
                 Let it not depend on what differs from master to master (docs/scripts.md)\r\n";
    RegisterReply::Frame(Bytes::from_static(error.as_bytes()), Vec::new(), None)
}

/// The members of a set and the pairs of a map have an order of each master's own.
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
