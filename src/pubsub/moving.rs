//! Subscribers on their way from one process to another.
//!
//! The new process listens to all that they are interested in before the first of them moves, and notes what it hears; so
//! does the old one. Who moves brings along what he has heard, by its stamps, and gets the rest of what was noted: each
//! message once. What was published at a master directly has no stamp: of that, what comes in the moment of the move
//! is lost.

use std::collections::HashSet;

use super::Topic;
use super::envelope::Stamp;
use crate::client::reply::Reply;

/// So many messages are noted; beyond it the oldest are forgotten, and may be lost or come twice.
const MAX_NOTED: usize = 16_384;

/// What was heard while subscribers move.
#[derive(Debug, Default)]
pub(super) struct Journal {
    is_kept: bool,
    noted: Vec<(Topic, Stamp, Reply)>,
    /// What is listened to for those who will come.
    pub(super) expected: HashSet<Topic>,
}

impl Journal {
    pub(super) fn begin(&mut self) {
        self.is_kept = true;
    }

    /// Forgets everything; what was expected is not listened to any more on that account.
    pub(super) fn end(&mut self) -> HashSet<Topic> {
        std::mem::take(self).expected
    }

    pub(super) fn note(&mut self, topic: &Topic, stamp: Option<Stamp>, frame: &Reply) {
        let Some(stamp) = stamp.filter(|_| self.is_kept) else { return };
        if self.noted.len() == MAX_NOTED {
            self.noted.drain(..MAX_NOTED / 2);
        }
        self.noted.push((topic.clone(), stamp, frame.clone()));
    }

    /// What was noted of these.
    pub(super) fn stamps(&self, topics: &[Topic]) -> Vec<(Topic, Stamp)> {
        let of_these = self.noted.iter().filter(|(topic, ..)| topics.contains(topic));
        of_these.map(|(topic, stamp, _)| (topic.clone(), *stamp)).collect()
    }

    /// What was noted of these and was not heard.
    pub(super) fn unheard(
        &self,
        topics: &[Topic],
        heard: &[(Topic, Stamp)],
    ) -> impl Iterator<Item = &Reply> {
        let topics: HashSet<&Topic> = topics.iter().collect();
        let heard: HashSet<(&Topic, Stamp)> =
            heard.iter().map(|(topic, it)| (topic, *it)).collect();
        let is_missing = move |(topic, stamp): (&Topic, Stamp)| {
            topics.contains(topic) && !heard.contains(&(topic, stamp))
        };
        let noted = self.noted.iter();
        noted.filter(move |(topic, stamp, _)| is_missing((topic, *stamp))).map(|(.., frame)| frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::TopicKind;

    fn topic(name: &'static str) -> Topic {
        Topic { kind: TopicKind::Channel, name: name.into() }
    }

    fn stamp(sequence: u64) -> Stamp {
        Stamp { publisher: 1, sequence }
    }

    #[test]
    fn who_moves_gets_what_was_not_heard_of_what_is_wanted() {
        let (mut before, mut after) = (Journal::default(), Journal::default());
        before.note(&topic("a"), Some(stamp(1)), &Reply::Int(1));
        before.begin();
        after.begin();
        for sequence in 2..=3 {
            before.note(&topic("a"), Some(stamp(sequence)), &Reply::Int(0));
        }
        for sequence in 3..=5 {
            after.note(&topic("a"), Some(stamp(sequence)), &Reply::Int(sequence as i64));
        }
        after.note(&topic("b"), Some(stamp(6)), &Reply::Int(6));
        after.note(&topic("a"), None, &Reply::Int(7));
        let heard = before.stamps(&[topic("a")]);
        assert_eq!(heard, [(topic("a"), stamp(2)), (topic("a"), stamp(3))]);
        let unheard: Vec<&Reply> = after.unheard(&[topic("a")], &heard).collect();
        assert_eq!(unheard, [&Reply::Int(4), &Reply::Int(5)]);
        after.end();
        assert!(after.stamps(&[topic("a")]).is_empty());
    }
}
