//! Signals between the probes of a master and the tasks that wait for one.
//!
//! [`Watch`](super::watch::MasterWatch) probes each master once a second. A task that has changed something on a master, or
//! has met a vote without its proof, needs a probe that starts after that.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Sequence of the probes of one master.
#[derive(Debug, Default)]
pub struct Looks {
    /// Number of probes begun.
    begun: AtomicU64,
    /// Number of the latest probe that has ended.
    ended: AtomicU64,
    wanted: Notify,
    has_ended: Notify,
}

impl Looks {
    /// Records the start of a probe.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of a probe whose findings have been reported.
    pub fn end(&self) {
        self.ended.store(self.begun.load(Ordering::Relaxed), Ordering::Release);
        self.has_ended.notify_waiters();
    }

    /// Requests a probe now instead of at the next interval.
    pub fn want(&self) {
        self.wanted.notify_one();
    }

    /// Waits until a probe is requested.
    pub async fn is_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Requests a probe and waits until one has ended that began after this call.
    pub async fn another(&self) {
        let before = self.begun.load(Ordering::Relaxed);
        self.wanted.notify_one();
        loop {
            let mut ended = std::pin::pin!(self.has_ended.notified());
            ended.as_mut().enable();
            if self.ended.load(Ordering::Acquire) > before {
                return;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    async fn is_ready(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn a_look_that_had_begun_before_tells_nothing() {
        let looks = Looks::default();
        looks.begin();
        let mut another = Box::pin(looks.another());
        assert!(!is_ready(&mut another).await);
        looks.end();
        assert!(!is_ready(&mut another).await, "it may not have seen it");
        looks.begin();
        assert!(!is_ready(&mut another).await, "it has not seen everything yet");
        looks.end();
        assert!(is_ready(&mut another).await);
    }

    #[tokio::test]
    async fn whoever_waits_is_not_kept_waiting_for_the_next_second() {
        let looks = Looks::default();
        let mut another = Box::pin(looks.another());
        assert!(!is_ready(&mut another).await);
        assert!(is_ready(&mut Box::pin(looks.is_wanted())).await);
        assert!(!is_ready(&mut Box::pin(looks.is_wanted())).await, "once is enough");
    }
}
