//! Subscribers on their way from one process to another.
//!
//! The new process listens to all their topics before the first of them moves, and records what it hears. A subscriber
//! that moves carries a list of the messages that it has heard, and receives the rest of the recorded ones: each
//! message once. A slow master may deliver a message here that another one delivered there long ago. Messages published
//! directly at a master have no stamp: those that arrive at the moment of the move are lost.

use std::collections::HashSet;

use crate::catalogue::channel::Topic;
use crate::operation::envelope::MessageStamp;
use crate::resp::reply::Reply;

/// Maximum messages recorded. Beyond it the oldest are forgotten, and may be lost or delivered twice.
const MAX_NOTED: usize = 16_384;

/// The messages heard while subscribers move.
#[derive(Debug, Default)]
pub(super) struct Journal {
    is_kept: bool,
    noted: Vec<(Topic, MessageStamp, Reply)>,
    /// The topics of subscribers that will come.
    pub(super) expected: HashSet<Topic>,
}

impl Journal {
    pub(super) fn begin(&mut self) {
        self.is_kept = true;
    }

    /// Forgets everything. Returns the expected topics, which no longer have to be listened to for the move.
    pub(super) fn end(&mut self) -> HashSet<Topic> {
        std::mem::take(self).expected
    }

    pub(super) fn note(&mut self, topic: &Topic, stamp: Option<MessageStamp>, frame: &Reply) {
        let Some(stamp) = stamp.filter(|_| self.is_kept) else { return };
        if self.noted.len() == MAX_NOTED {
            self.noted.drain(..MAX_NOTED / 2);
        }
        self.noted.push((topic.clone(), stamp, frame.clone()));
    }

    /// Returns all recorded messages of these topics.
    pub(super) fn noted(
        &self,
        topics: &[Topic],
    ) -> impl Iterator<Item = (&Topic, MessageStamp, &Reply)> {
        let topics: HashSet<&Topic> = topics.iter().collect();
        let of_these = self.noted.iter().filter(move |(topic, ..)| topics.contains(topic));
        of_these.map(|(topic, stamp, frame)| (topic, *stamp, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::channel::TopicKind;

    fn topic(name: &'static str) -> Topic {
        Topic { kind: TopicKind::Channel, name: name.into() }
    }

    fn stamp(sequence: u64) -> MessageStamp {
        MessageStamp { publisher: 1, sequence }
    }

    #[test]
    fn what_is_wanted_is_noted_while_somebody_may_come() {
        let mut journal = Journal::default();
        journal.note(&topic("a"), Some(stamp(1)), &Reply::Int(1));
        journal.begin();
        for sequence in 2..=3 {
            journal.note(&topic("a"), Some(stamp(sequence)), &Reply::Int(sequence as i64));
        }
        journal.note(&topic("b"), Some(stamp(4)), &Reply::Int(4));
        journal.note(&topic("a"), None, &Reply::Int(5));
        let noted = |journal: &Journal| {
            let of_a = [topic("a")];
            journal.noted(&of_a).map(|(_, stamp, _)| stamp.sequence).collect::<Vec<_>>()
        };
        assert_eq!(noted(&journal), [2, 3]);
        journal.end();
        assert!(noted(&journal).is_empty());
    }
}
