//! The time that one task of a worker may take before it is the others' turn.
//!
//! A worker is one thread: whatever one client makes it do is time in which nobody else is read, no
//! master is heard and no deadline is noticed. So everything a client can make long is cut into
//! turns of [`TURN`], and whoever is not done goes to the back of the queue.

use std::task::{Context, Poll};
use std::time::Duration;

use crate::time::clock::{self, Instant};

/// How long a turn lasts: short beside a claim, which may wait for several turns on its way to the masters and back;
/// long beside a system call, of which each turn costs one.
pub const TURN: Duration = Duration::from_micros(25);

/// How much work is done between two looks at the clock: so many claims are begun, or some kilobytes decoded.
pub const LOOK: usize = 16;

/// What is left of a turn.
#[derive(Debug, Default)]
pub struct TimeSlice {
    /// Nothing has been done in this turn before somebody asks.
    until: Option<Instant>,
    spent: usize,
    over: bool,
}

impl TimeSlice {
    /// A turn that begins `now`.
    pub fn from(now: Instant) -> Self {
        Self { until: Some(now + TURN), spent: 0, over: false }
    }

    /// The turn began at `now`, unless it has begun before.
    pub fn begin(&mut self, now: Instant) {
        self.until.get_or_insert(now + TURN);
    }

    /// Counts some work, and says whether the turn is over. The clock is looked at after each [`LOOK`] of it
    /// only: a claim should not pay for that.
    #[inline]
    pub fn spend(&mut self, work: usize) -> bool {
        self.spent += work;
        if self.spent >= LOOK {
            self.spent = 0;
            self.look();
        }
        self.over
    }

    /// Says whether the turn is over.
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

    /// Whether it was over when somebody looked last.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Lets others do something if the turn of this task is over; then the next one begins.
    pub async fn rest(&mut self) {
        if self.look() {
            tokio::task::yield_now().await;
            *self = Self::from(clock::now());
        }
    }
}

/// Ends a turn with work left: all others come first, and so do those for whom there is something in the sockets
/// now. Whoever woke itself would have its next turns before anybody looks there.
pub fn others_first(cx: &mut Context<'_>) -> Poll<()> {
    // The runtime wakes the task when it has looked.
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
