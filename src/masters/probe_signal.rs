//! Looks at a master, for whoever has to wait for one.
//!
//! [`Watch`](super::watch::Watch) looks at each master once a second. Whoever has changed something on a master, or has
//! met a vote without its proof, wants a look that comes after that.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The looks at one master, one after the other.
#[derive(Debug, Default)]
pub struct Looks {
    /// How many have begun.
    begun: AtomicU64,
    /// Which one was the last that has ended.
    ended: AtomicU64,
    wanted: Notify,
    has_ended: Notify,
}

impl Looks {
    /// One begins.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended, and what was seen has been told.
    pub fn end(&self) {
        self.ended.store(self.begun.load(Ordering::Relaxed), Ordering::Release);
        self.has_ended.notify_waiters();
    }

    /// Somebody does not want to wait for the next one.
    pub fn want(&self) {
        self.wanted.notify_one();
    }

    /// Resolves when somebody does not want to wait for the next one.
    pub async fn is_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Resolves once one has ended that had not begun before this call.
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
