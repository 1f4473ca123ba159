//! `CLIENT TRACKING`, as it concerns the requests of one client.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::caller::Caller;
use super::worker::Worker;
use crate::catalogue::keys;
use crate::catalogue::table::{self, Command, Family, Spec};
use crate::client::invalidation::Invalidation;
use crate::client::outbox::{Notice, Order, Target};
use crate::operation::{Behaviour, Operation};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::requests::Args;
use crate::tracking::options::TrackingOptions;
use crate::tracking::tracked::Tracked;

/// Time for which a client from another process waits for the one that is told instead, and the interval at which it
/// looks.
const REDIRECT_ARRIVES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(10));

impl Caller {
    /// Returns the client as one that is told of changes, if it is.
    pub fn tracked(&self) -> Option<&Rc<Tracked>> {
        self.tracking.as_ref().filter(|tracked| tracked.is_on())
    }

    /// Tells the client of changes from now on.
    pub fn begin_tracking(&mut self, options: TrackingOptions) -> Rc<Tracked> {
        if let Some(tracked) = self.tracked() {
            tracked.set_options(options);
            return Rc::clone(tracked);
        }
        let (client, outbox) = (self.client.clone(), Rc::clone(&self.outbox));
        let tracked = Tracked::new(client, outbox, self.home.registry().clone(), options);
        self.home.clusters().for_each(|worker| worker.tracker().enter(&tracked));
        self.tracking = Some(Rc::clone(&tracked));
        tracked
    }

    /// Ends that.
    pub fn end_tracking(&mut self) {
        if let Some(tracked) = self.tracking.take() {
            end(&self.home, &tracked);
        }
    }

    /// Continues the tracking that another process has begun. The client may have missed changes in between.
    pub fn resume_tracking(&mut self, options: TrackingOptions) {
        let redirect = options.redirect;
        let tracked = self.begin_tracking(options);
        tracked.begins();
        if redirect == 0 {
            return tracked.tell(Invalidation::Everything);
        }
        let registry = self.home.registry().clone();
        tokio::task::spawn_local(async move {
            let (limit, interval) = REDIRECT_ARRIVES;
            let arrived = async {
                while registry.client(redirect).is_none() {
                    tokio::time::sleep(interval).await;
                }
            };
            let _ = tokio::time::timeout(limit, arrived).await;
            tracked.tell(Invalidation::Everything);
        });
    }

    /// Notes what the current request, which has just been started, reads. Nothing has been sent to masters yet.
    #[inline]
    pub fn note_reads(&self, args: Args<'_>) {
        if let Some(tracked) = self.tracked() {
            self.note_reads_of(tracked, args);
        } else if self.side.as_ref().is_some_and(|side| side.is_tracking) {
            self.keep_locks_uncached(args);
        }
    }

    /// Has a client that the data Redis tells of changes drop what it reads of locks, right behind the reply: the data
    /// Redis does not know when that changes.
    fn keep_locks_uncached(&self, args: Args<'_>) {
        let spec = table::at(self.command);
        let is_exec = spec.is_some_and(|spec| spec.id == Command::Exec);
        let keys = read_keys(spec, args).into_iter().map(Bytes::copy_from_slice);
        let invalidation = match keys.collect::<Vec<_>>() {
            // The keys of its commands are not known any more.
            _ if is_exec => Invalidation::Everything,
            keys if keys.is_empty() || self.transaction.is_some() => return,
            keys => Invalidation::Keys(keys),
        };
        if self.outbox.protocol() == Protocol::Resp3 {
            self.outbox.push_behind(Notice::Own(invalidation.push()));
        }
    }

    fn note_reads_of(&self, tracked: &Tracked, args: Args<'_>) {
        let spec = table::at(self.command);
        let id = spec.map(|spec| spec.id);
        if self.transaction.is_some() {
            match id {
                Some(Command::Multi) => tracked.begins_transaction(),
                _ => tracked.queue(read_keys(spec, args).into_iter().map(Into::into)),
            }
            return;
        }
        let queued = tracked.take_queued();
        match id {
            // `CLIENT CACHING` is about the request after it.
            Some(Command::Client) => return,
            Some(Command::Exec) if tracked.may_cache_transaction() => {
                self.reads(tracked, queued.iter().map(|key| &**key));
            }
            Some(Command::Exec) => {}
            _ if tracked.may_cache() => self.reads(tracked, read_keys(spec, args).into_iter()),
            _ => {}
        }
        tracked.set_caching(false);
    }

    fn reads<'a>(&self, tracked: &Tracked, keys: impl ExactSizeIterator<Item = &'a [u8]>) {
        if keys.len() > 0 {
            self.worker.tracker().reads(tracked, self.db, keys);
        }
    }

    /// With `NOLOOP`, notes that an operation is about to change its key. `target` is that of its reply.
    #[inline]
    pub fn note_own_change(&self, operation: &Operation, target: &Target) {
        if let Some(tracked) = self.tracked().filter(|tracked| tracked.has_no_loop())
            && operation.kind.order() != Order::Read
        {
            let (tracker, tracked) = (Rc::clone(self.worker.tracker()), Rc::clone(tracked));
            let key = operation.key.clone();
            tracker.begins_to_change(&tracked, &key);
            target.watch(Box::new(move |changed| tracker.has_changed(&tracked, &key, changed)));
        }
    }

    /// Sends the client what others have redirected to it. In RESP2 it must have subscribed to anything at all, as in
    /// Redis.
    #[cold]
    pub fn take_mail(&self) {
        for invalidation in self.client.take_mail() {
            match self.outbox.protocol() {
                Protocol::Resp3 => {
                    self.outbox.push_message(&invalidation.push());
                }
                _ if self.has_subscriptions() => {
                    self.outbox.push_message(&invalidation.message());
                }
                _ => {}
            }
        }
    }
}

/// Answers `CLIENT TRACKING ON` once the client can cache what it reads.
pub async fn begun(home: Rc<Worker>, tracked: Rc<Tracked>, target: Target) {
    let caught_up = home.clusters().map(|worker| worker.tracker().caught_up());
    match try_join_all(caught_up).await {
        Ok(_) => {
            tracked.begins();
            target.deliver(Reply::OK);
        }
        Err(refused) => {
            end(&home, &tracked);
            target.deliver(refused);
        }
    }
}

fn end(home: &Rc<Worker>, tracked: &Tracked) {
    home.clusters().for_each(|worker| worker.tracker().leave(tracked));
}

/// Returns the keys of which a request tells its client something. Redis asks whether a script has read anything; the
/// proxy takes it that every script has.
fn read_keys<'a>(spec: Option<&'static Spec>, args: Args<'a>) -> Vec<&'a [u8]> {
    match spec {
        Some(spec) if spec.flags.contains(&"readonly") || spec.family == Family::Script => {
            keys::of(spec, args)
        }
        Some(_) => Vec::new(),
        None => keys::of_other(args),
    }
}
