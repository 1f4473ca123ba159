//! Keyspace notifications that masters send: that a key has expired.
//!
//! Nobody decides on an expiry: each master deletes its copy by itself, and says so if its own
//! `notify-keyspace-events` has `x`. Subscribers hear of it once, when a quorum of masters has said so. A master that
//! has missed the end of a lock says so alone, and later.
//!
//! All other notifications of masters are about their own commands, and not for clients.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use crate::catalogue::channel::Topic;
use crate::catalogue::events::EventClasses;
use crate::catalogue::reserved::is_reserved;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// Time within which masters must say the same. Masters with many keys delete them some seconds late.
const WINDOW: Duration = Duration::from_secs(10);

/// Maximum expiries to remember. Beyond it, the oldest are forgotten.
const MOST: usize = 16 << 10;

/// An expiry as one subscription hears of it: the topic, the channel and the message.
type Said = (Topic, Bytes, Bytes);

/// Expiries that some masters have told of.
#[derive(Debug, Default)]
pub struct Expiries {
    by: HashMap<Said, Report>,
    /// In the order of their beginnings.
    order: VecDeque<(Said, Duration)>,
}

#[derive(Debug)]
struct Report {
    since: Duration,
    masters: MasterSet,
    /// Masters that have yet to tell of the expiry before: their next report is about that.
    owed: MasterSet,
    is_told: bool,
}

impl Expiries {
    /// Notes what a master has said, at `now`. Returns whether subscribers hear of it now.
    pub fn said(&mut self, said: Said, master: MasterId, quorum: Quorum, now: Duration) -> bool {
        self.forget_old(now);
        let known = self.by.get(&said);
        if known.is_none_or(|known| known.masters.contains(master)) {
            let told = known.filter(|known| known.is_told);
            let owed = told.map_or(MasterSet::EMPTY, |it| quorum.everybody().without(it.masters));
            let report = Report { since: now, masters: MasterSet::EMPTY, owed, is_told: false };
            self.by.insert(said.clone(), report);
            self.order.push_back((said.clone(), now));
        }
        let Some(report) = self.by.get_mut(&said) else { return false };
        if report.owed.contains(master) {
            report.owed.remove(master);
            return false;
        }
        report.masters.insert(master);
        !report.is_told && {
            report.is_told = quorum.reached_by(report.masters);
            report.is_told
        }
    }

    fn forget_old(&mut self, now: Duration) {
        while let Some((said, since)) = self.order.front()
            && (self.order.len() > MOST || now.saturating_sub(*since) >= WINDOW)
        {
            // A later expiry of the same key has another beginning.
            if self.by.get(said).is_some_and(|report| report.since == *since) {
                self.by.remove(said);
            }
            self.order.pop_front();
        }
    }
}

/// Whether messages of this channel are keyspace notifications.
pub fn is_notification(channel: &[u8]) -> bool {
    channel.starts_with(b"__keyspace@") || channel.starts_with(b"__keyevent@")
}

/// Whether a notification of a master says that a client's key has expired, and these classes have that.
pub fn is_expiry(channel: &[u8], message: &[u8], classes: EventClasses) -> bool {
    let Some(colon) = channel.windows(3).position(|bytes| bytes == b"__:") else { return false };
    let name = &channel[colon + 3..];
    let (letter, event, key) = match channel.starts_with(b"__keyspace@") {
        true => (b'K', message, name),
        false => (b'E', name, message),
    };
    event == b"expired" && !is_reserved(key) && classes.has(b'x') && classes.has(letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::channel::TopicKind;

    fn said() -> Said {
        let topic = Topic { kind: TopicKind::Channel, name: "__keyevent@0__:expired".into() };
        (topic.clone(), topic.name, "key".into())
    }

    /// Returns at which of these reports, each by a master at a second, subscribers hear of an expiry.
    fn told(reports: &[(usize, u64)]) -> Vec<usize> {
        let mut expiries = Expiries::default();
        let mut is_told = |(master, second): &(usize, u64)| {
            let now = Duration::from_secs(*second);
            expiries.said(said(), MasterId::new(*master), Quorum::of(3), now)
        };
        let told: Vec<_> = reports.iter().map(&mut is_told).collect();
        (0..reports.len()).filter(|at| told[*at]).collect()
    }

    #[test]
    fn an_expiry_is_told_once_a_quorum_has_told_it() {
        assert_eq!(told(&[(0, 1), (1, 1), (2, 2)]), [1]);
        assert_eq!(told(&[(0, 1), (1, 1), (2, 2), (1, 5), (0, 5), (2, 6)]), [1, 4]);
    }

    #[test]
    fn one_master_that_missed_an_end_is_not_believed() {
        assert!(told(&[(2, 1), (2, 3)]).is_empty());
        assert!(told(&[(2, 1), (1, 12)]).is_empty(), "long after each other");
        assert_eq!(told(&[(2, 1), (2, 12), (0, 12), (1, 12)]), [2]);
    }

    #[test]
    fn the_last_master_of_an_expiry_does_not_count_for_the_next() {
        assert_eq!(told(&[(0, 1), (1, 1), (0, 3), (2, 4), (1, 5)]), [1, 4]);
        assert_eq!(told(&[(0, 1), (1, 1), (2, 3), (2, 4)]), [1]);
    }

    #[test]
    fn only_expiries_of_clients_keys_are_for_clients() {
        let is = |channel: &str, message: &str, classes: &str| {
            let classes = EventClasses::read(classes).unwrap();
            is_expiry(channel.as_bytes(), message.as_bytes(), classes)
        };
        assert!(
            is("__keyevent@0__:expired", "k", "KEA") && is("__keyspace@12__:k", "expired", "Kx")
        );
        assert!(is("__keyspace@0__:a__:b", "expired", "KEx"), "a key may look like a channel");
        assert!(
            !is("__keyspace@0__:k", "expired", "Ex") && !is("__keyevent@0__:expired", "k", "Eg")
        );
        assert!(
            !is("__keyevent@0__:del", "k", "KEA") && !is("__keyspace@0__:expired", "set", "KEA")
        );
        assert!(!is("__keyevent@0__:expired", "redlock-proxy:s:k", "KEA"));
        assert!(is_notification(b"__keyspace@0__:k") && !is_notification(b"__key"));
    }
}
