//! The time that one task of a worker may run before it yields to the others.
//!
//! A worker is one thread. While it works for one client, it reads from no other client, receives nothing from the
//! masters and notices no deadline. Work that a client can make long is therefore cut into turns of [`TURN`]. A task
//! that isn't done goes to the back of the queue.

use std::task::{Context, Poll};
use std::time::Duration;

use crate::time::clock::{self, Instant};

/// Length of a turn. It is short compared with a claim, which may wait for several turns on its way to the masters and
/// back. It is long compared with a system call, of which each turn costs one.
pub const TURN: Duration = Duration::from_micros(25);

/// Amount of work between two readings of the clock: this many claims started, or some kilobytes decoded.
pub const LOOK: usize = 16;

/// The rest of a turn.
#[derive(Debug, Default)]
pub struct TimeSlice {
    /// End of the turn, or `None` until it has begun.
    until: Option<Instant>,
    spent: usize,
    over: bool,
}

impl TimeSlice {
    /// Starts a turn at `now`.
    pub fn from(now: Instant) -> Self {
        Self { until: Some(now + TURN), spent: 0, over: false }
    }

    /// Starts the turn at `now`, unless it has already started.
    pub fn begin(&mut self, now: Instant) {
        self.until.get_or_insert(now + TURN);
    }

    /// Counts some work and returns whether the turn is over. It reads the clock only once per [`LOOK`] of work: a
    /// claim should not pay for that.
    #[inline]
    pub fn spend(&mut self, work: usize) -> bool {
        self.spent += work;
        if self.spent >= LOOK {
            self.spent = 0;
            self.look();
        }
        self.over
    }

    /// Reads the clock and returns whether the turn is over.
    pub fn look(&mut self) -> bool {
        let now = clock::now();
        let until = *self.until.get_or_insert(now + TURN);
        self.over = self.over || now >= until;
        self.over
    }

    /// Ends the turn before its time is up.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// Whether the turn was over when the clock was last read. Does not read the clock.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Yields to other tasks if the turn is over, and then starts the next one.
    pub async fn rest(&mut self) {
        if self.look() {
            tokio::task::yield_now().await;
            *self = Self::from(clock::now());
        }
    }
}

/// Ends a turn with work left. All other tasks run first, including those whose sockets have become ready. A task that
/// woke itself would get its next turns before the runtime polls the sockets.
pub fn others_first(cx: &mut Context<'_>) -> Poll<()> {
    // The runtime wakes the task after it has polled the sockets.
    let looked = std::pin::pin!(tokio::task::yield_now());
    let _ = looked.poll(cx);
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_over_when_its_time_is_up() {
        let mut time = TimeSlice::from(clock::now());
        tokio::time::advance(TURN - Duration::from_micros(1)).await;
        assert!(!time.look() && !time.is_over());
        tokio::time::advance(Duration::from_micros(1)).await;
        assert!(!time.is_over(), "nobody has looked");
        assert!(time.look() && time.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_was_ended_is_over() {
        let mut time = TimeSlice::from(clock::now());
        time.end();
        assert!(time.look() && time.is_over() && time.spend(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_begins_with_its_first_work() {
        let mut time = TimeSlice::default();
        tokio::time::advance(2 * TURN).await;
        assert!(!time.look());
        time.begin(clock::now() - TURN);
        assert!(!time.look(), "it has begun");
        tokio::time::advance(TURN).await;
        assert!(time.look());
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_looked_at_now_and_then() {
        let mut time = TimeSlice::from(clock::now());
        tokio::time::advance(TURN).await;
        assert!(!time.spend(LOOK - 1));
        assert!(time.spend(1));
    }

    #[tokio::test(start_paused = true)]
    async fn others_have_a_turn_in_between() {
        let mut time = TimeSlice::from(clock::now());
        let other = tokio::spawn(async {});
        time.rest().await;
        assert!(!other.is_finished(), "there was time left");
        tokio::time::advance(TURN).await;
        time.rest().await;
        assert!(other.is_finished() && !time.is_over());
    }
}
