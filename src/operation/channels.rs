//! Commands about channels: `PUBLISH` and the questions of `PUBSUB`.
//!
//! They need no quorum. A message that one living master carries reaches every subscriber, and a channel exists if any
//! master knows it.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Asked;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::request::Form;
use super::verdict::{self, Trouble};
use super::{Next, Received, Rules, request};
use crate::catalogue::channel::ChannelKind;
use crate::catalogue::reserved::is_reserved;
use crate::client::outbox::Order;
use crate::client::subscriber_counts::Ours;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// The client's request.
#[derive(Debug)]
pub enum What {
    /// `PUBLISH`, `SPUBLISH` on the channel that is the operation's key.
    Publish {
        /// Kind of the channel.
        kind: ChannelKind,
        /// The message in its envelope.
        sealed: Vec<u8>,
        /// Recipients in this process.
        ours: Ours,
    },
    /// `PUBSUB CHANNELS`, `PUBSUB SHARDCHANNELS`
    List {
        /// Kind of the channels.
        kind: ChannelKind,
        /// Pattern that the channels match.
        pattern: Option<Bytes>,
    },
    /// `PUBSUB NUMSUB`, `PUBSUB SHARDNUMSUB`
    Subscribers {
        /// Kind of the channels.
        kind: ChannelKind,
        /// The channels, with their subscribers in this process.
        channels: Vec<(Bytes, Ours)>,
    },
    /// `PUBSUB NUMPAT`
    Patterns,
}

/// A message or a question for all reachable masters.
#[derive(Debug)]
pub struct Channels {
    what: What,
    pending: MasterSet,
    answered: MasterSet,
    /// Names that any master knows.
    names: BTreeSet<Bytes>,
    /// The largest count from any master, per channel in question; a single one for other requests.
    counts: Vec<i64>,
    done: bool,
    trouble: Trouble,
}

impl Channels {
    /// Creates a request that has not been sent yet.
    pub fn new(what: What) -> Self {
        let counts = match &what {
            What::Subscribers { channels, .. } => vec![0; channels.len()],
            _ => vec![0],
        };
        Self {
            what,
            pending: MasterSet::EMPTY,
            answered: MasterSet::EMPTY,
            names: BTreeSet::new(),
            counts,
            done: false,
            trouble: Trouble::default(),
        }
    }

    /// Whether this publishes a message.
    pub(super) fn is_publication(&self) -> bool {
        matches!(self.what, What::Publish { .. })
    }

    /// Whether to stop waiting: once a quorum has passed a message on, a stopped master would not improve delivery.
    fn is_enough(&self, rules: &Rules) -> bool {
        self.is_publication() && rules.quorum.reached_by(self.answered)
    }

    fn count(&mut self, master: MasterId, answer: Option<&Answer<'_>>) {
        match answer {
            Some(Answer::Int(count)) => self.at_least(0, *count),
            Some(Answer::Array(items)) => self.items(&items.elements().unwrap_or_default()),
            Some(Answer::Error(error)) => return self.trouble.remember(error),
            _ => return,
        }
        self.answered.insert(master);
    }

    fn items(&mut self, items: &[Answer<'_>]) {
        if let What::Subscribers { .. } = self.what {
            for (place, pair) in items.chunks_exact(2).enumerate() {
                if let Answer::Int(count) = pair[1] {
                    self.at_least(place, count);
                }
            }
        } else {
            items.iter().for_each(|item| self.name(item));
        }
    }

    fn name(&mut self, item: &Answer<'_>) {
        let Answer::Bulk(name) = *item else { return };
        // Another master has usually reported the name already.
        if !is_reserved(name) && !self.names.contains(name) {
            self.names.insert(Bytes::copy_from_slice(name));
        }
    }

    fn at_least(&mut self, place: usize, count: i64) {
        if let Some(largest) = self.counts.get_mut(place) {
            *largest = count.max(*largest);
        }
    }

    fn decided(&mut self, rules: &Rules) -> Next {
        self.done = true;
        if self.answered.is_empty() {
            return Next::reply(self.trouble.or(verdict::nobody_answered(rules)));
        }
        Next::reply(match &self.what {
            What::Publish { ours, .. } => Reply::Int(ours.correct(self.counts[0])),
            What::List { .. } => {
                Reply::Array(self.names.iter().cloned().map(Reply::Bulk).collect())
            }
            What::Subscribers { channels, .. } => {
                let counted = channels.iter().zip(&self.counts);
                let pairs = counted.flat_map(|((channel, ours), counted)| {
                    [Reply::Bulk(channel.clone()), Reply::Int(ours.correct(*counted))]
                });
                Reply::Array(pairs.collect())
            }
            What::Patterns => Reply::Int(self.counts[0]),
        })
    }
}

impl Behaviour for Channels {
    fn order(&self) -> Order {
        if self.is_publication() { Order::Announcing } else { Order::Read }
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Message
    }

    fn needs_quorum(&self) -> bool {
        false
    }

    fn ask(&mut self, _: On<'_>, asked: Asked, _: Instant) {
        let asked = asked.all;
        self.pending = asked;
    }

    fn encode(&self, on: On<'_>, _: Form, out: &mut Vec<u8>) {
        let channel = on.key;
        match &self.what {
            What::Publish { kind: ChannelKind::Plain, sealed, .. } => {
                request::encode(out, &[b"PUBLISH", channel, sealed]);
            }
            What::Publish { kind: ChannelKind::Shard, sealed, .. } => {
                request::encode(out, &[b"SPUBLISH", channel, sealed]);
            }
            What::List { kind, pattern } => {
                let word: &[u8] = match kind {
                    ChannelKind::Plain => b"CHANNELS",
                    ChannelKind::Shard => b"SHARDCHANNELS",
                };
                // Omitting the pattern differs from `*`, which does not match the channel with the empty name.
                let words = [b"PUBSUB", word].into_iter().chain(pattern.as_deref());
                request::encode(out, &words.collect::<Vec<_>>());
            }
            What::Subscribers { kind, channels } => {
                let word: &[u8] = match kind {
                    ChannelKind::Plain => b"NUMSUB",
                    ChannelKind::Shard => b"SHARDNUMSUB",
                };
                let mut words: Vec<&[u8]> = vec![b"PUBSUB", word];
                words.extend(channels.iter().map(|(channel, _)| &channel[..]));
                request::encode(out, &words);
            }
            What::Patterns => request::encode(out, &[b"PUBSUB", b"NUMPAT"]),
        }
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        if self.done {
            return Next::WAIT;
        }
        self.pending.remove(received.master);
        self.count(received.master, received.answer);
        if self.pending.is_empty() || self.is_enough(rules) {
            self.decided(rules)
        } else {
            Next::WAIT
        }
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        let On { rules, .. } = on;
        let is_due = is_last || !self.answered.is_empty();
        if self.done || !is_due { Next::WAIT } else { self.decided(rules) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Then;
    use crate::time::clock;

    /// Creates a request that was sent to the first `masters` masters.
    fn asked(what: What, masters: usize) -> Channels {
        let mut channels = Channels::new(what);
        let rules = Rules::for_tests();
        channels.ask(On::for_tests(&rules), Asked::for_tests(masters), clock::now());
        channels
    }

    fn publish() -> What {
        let ours = Ours { clients: 5, workers: 1 };
        What::Publish { kind: ChannelKind::Plain, sealed: Vec::new(), ours }
    }

    fn answer(channels: &mut Channels, master: usize, answer: Option<Answer<'_>>) -> Option<Reply> {
        let (master, now) = (MasterId::new(master), clock::now());
        let received = Received { master, round: 0, answer: answer.as_ref(), raw: b"", now };
        reply(channels.received(On::for_tests(&Rules::for_tests()), received))
    }

    fn waited(channels: &mut Channels, is_last: bool) -> Option<Reply> {
        reply(channels.deadline(On::for_tests(&Rules::for_tests()), clock::now(), is_last))
    }

    fn reply(next: Next) -> Option<Reply> {
        match next.then {
            Then::Reply(reply, _) => Some(reply),
            _ => None,
        }
    }

    #[test]
    fn a_message_is_answered_by_the_largest_count_of_a_quorum() {
        let mut publish = asked(publish(), 3);
        assert_eq!(answer(&mut publish, 0, Some(Answer::Int(3))), None);
        assert_eq!(answer(&mut publish, 2, Some(Answer::Int(2))), Some(Reply::Int(2 + 5)));
        assert_eq!(answer(&mut publish, 1, Some(Answer::Int(9))), None, "answered once");
    }

    #[test]
    fn one_master_is_enough_for_a_message() {
        assert_eq!(answer(&mut asked(publish(), 1), 0, Some(Answer::Int(1))), Some(Reply::Int(5)));
        let mut slow = asked(publish(), 3);
        assert_eq!(answer(&mut slow, 1, Some(Answer::Int(1))), None);
        assert_eq!(waited(&mut slow, false), Some(Reply::Int(5)));
        let mut lost = asked(publish(), 2);
        assert_eq!(answer(&mut lost, 0, None), None);
        assert_eq!(answer(&mut lost, 1, Some(Answer::Int(1))), Some(Reply::Int(5)));
    }

    #[test]
    fn without_an_answer_there_is_an_error() {
        let nobody = Some(verdict::nobody_answered(&Rules::for_tests()));
        assert_eq!(waited(&mut asked(publish(), 3), true), nobody);
        assert_eq!(answer(&mut asked(publish(), 1), 0, None), nobody);
        let refused = answer(&mut asked(publish(), 1), 0, Some(Answer::Error(b"NOPERM no")));
        assert_eq!(refused, Some(Reply::error("NOPERM no")));
    }

    #[test]
    fn a_question_waits_for_all_who_were_asked() {
        let mut patterns = asked(What::Patterns, 3);
        assert_eq!(answer(&mut patterns, 0, Some(Answer::Int(1))), None);
        assert_eq!(answer(&mut patterns, 1, Some(Answer::Int(4))), None);
        assert_eq!(answer(&mut patterns, 2, Some(Answer::Int(2))), Some(Reply::Int(4)));
    }
}
