//! `PUBSUB NUMSUB` of many channels: in portions, one after the other.
//!
//! Otherwise a master would cast no votes while it counts the subscribers of 90,000 channels, and a worker would serve
//! nobody while it reads the answer.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::catalogue::channel::ChannelKind;
use crate::client::outbox::Target;
use crate::client::registry::Registry;
use crate::client::timeslice::TimeSlice;
use crate::engine::Engine;
use crate::operation::channels::{Channels, What};
use crate::operation::{Kind, Operation, verdict};
use crate::resp::reply::Reply;

/// Maximum channels per request to masters.
pub const AT_ONCE: usize = 1000;

/// Maximum attempts at a portion that no master answers: one of many may come at a bad moment.
const ATTEMPTS: usize = 3;

/// The channels in question.
#[derive(Debug)]
pub struct NumSub {
    /// The kind of the channels.
    pub kind: ChannelKind,
    /// Their concatenated names.
    pub names: Bytes,
    /// The end offset of each name.
    pub ends: Vec<usize>,
    /// The subscribers of this process.
    pub registry: Arc<Registry>,
}

impl NumSub {
    /// Returns the reply.
    pub(super) async fn run(&self, engine: &Rc<Engine>, target: &Target) -> Reply {
        let (mut time, mut pairs) = (TimeSlice::default(), Vec::new());
        for start in (0..self.ends.len()).step_by(AT_ONCE) {
            if target.is_closed() {
                return Reply::Nil;
            }
            let portion = start..self.ends.len().min(start + AT_ONCE);
            target.hold(portion.len() * 2 * size_of::<Reply>());
            let mut reply = self.ask(engine, portion.clone()).await;
            for _ in 1..ATTEMPTS {
                if matches!(&reply, Reply::Error(error) if verdict::is_undecided(error)) {
                    reply = self.ask(engine, portion.clone()).await;
                }
            }
            match reply {
                Reply::Array(some) => pairs.extend(some),
                error => return error,
            }
            time.rest().await;
        }
        Reply::Array(pairs)
    }

    async fn ask(&self, engine: &Rc<Engine>, portion: Range<usize>) -> Reply {
        let kind = Kind::Channels(Box::new(Channels::new(self.question(portion))));
        let operation = Operation { db: 0, key: Box::default(), kind };
        engine.run_now(operation).await
    }

    fn question(&self, portion: Range<usize>) -> What {
        let audience = self.registry.audience();
        let channels = portion.map(|at| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            let name = self.names.slice(start..self.ends[at]);
            let ours = audience.of(&self.kind.topic(name.clone()));
            (name, ours)
        });
        What::Subscribers { kind: self.kind, channels: channels.collect() }
    }
}
