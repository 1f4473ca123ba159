//! Pauses after split votes, and while an operation waits for masters.

use std::rc::Rc;
use std::time::Duration;

use super::Engine;
use super::flight::Flight;
use crate::operation::{Behaviour, Kind, Next, Then};
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};

/// Longest pause after lost rounds.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Maximum length of a pause, as a multiple of a round or of the split-vote delay.
const ROUNDS_OF_A_PAUSE: u32 = 2;

impl Engine {
    /// Waits a random time after a split vote, so that the claims that split it do not meet again.
    pub(super) fn pause(self: &Rc<Self>, flight: &mut Flight) {
        flight.pauses += 1;
        self.metrics.retried(flight.operation.kind.question());
        let round = Duration::from_micros(self.stopwatch.since(flight.asked_us));
        let longest_ms = self.longest_pause(flight.pauses, round).as_millis().max(1) as u64;
        let pause = Duration::from_millis(fastrand::u64(1..=longest_ms));
        // Pauses end with the patience.
        let left = flight.last.map_or(pause, |last| last.saturating_duration_since(clock::now()));
        let pause = pause.min(left.max(Duration::from_millis(1)));
        self.pause_until(flight, tokio::time::sleep(pause), |engine, flight, now| {
            match engine.end_of_patience(flight, now) {
                Some(next) => engine.act(flight, next),
                None if engine.may_be_told_later(flight, now) => engine.pause(flight),
                None => engine.ask(flight, &engine.panel()),
            }
        });
    }

    /// Suspends the operation until `over` resolves, then continues it.
    pub(super) fn pause_until(
        self: &Rc<Self>,
        flight: &mut Flight,
        over: impl Future<Output = ()> + 'static,
        go_on: impl FnOnce(&Rc<Self>, &mut Flight, Instant) + 'static,
    ) {
        flight.pausing = true;
        let (engine, id) = (Rc::clone(self), flight.id);
        tokio::task::spawn_local(async move {
            over.await;
            let now = clock::now();
            engine.see(now);
            engine.on_flight(id, |flight| {
                flight.pausing = false;
                go_on(&engine, flight, now);
            });
            engine.start_ready();
        });
    }

    /// Returns the maximum length of the pause with this number. An operation that loses more rounds than a lock may
    /// lose has met others whose rounds outlast such pauses. That happens with many keys or on slow machines. Each
    /// operation then waits up to twice as long as before.
    ///
    /// The pause grows only to a few rounds, judged by the last one, which took `round`. An operation that pauses for
    /// longer than others need would let them go first again and again.
    fn longest_pause(&self, number: u32, round: Duration) -> Duration {
        let doublings = number.saturating_sub(self.rules().split_vote_retries);
        let longest = self.split_vote_delay.saturating_mul(2_u32.saturating_pow(doublings));
        let enough = round.max(self.split_vote_delay).saturating_mul(ROUNDS_OF_A_PAUSE);
        longest.min(enough).min(LONGEST_PAUSE).max(self.split_vote_delay)
    }

    /// Returns the next step if the client's patience has passed during a pause. An operation that has forgotten the
    /// masters' earlier answers has no basis for a reply, so it asks one last time.
    fn end_of_patience(&self, flight: &mut Flight, now: Instant) -> Option<Next> {
        let next = flight.is_over(now).then(|| flight.operation.deadline(&flight.rules, now, true));
        next.filter(|next| !matches!(next.then, Then::Wait))
    }

    /// Returns whether masters may soon know a program's outcome, while too few of them can be asked.
    fn may_be_told_later(&self, flight: &Flight, now: Instant) -> bool {
        let is_patient = !flight.is_over(now) && matches!(flight.operation.kind, Kind::Program(_));
        is_patient && !self.rules().quorum.reached_by(self.voters())
    }

    /// Returns the reply to a program that has reached one undeclared key after another until the client's patience
    /// passed. Each of its rounds is answered in time, so no deadline stops it.
    pub(super) fn widened_for_too_long(&self, flight: &mut Flight) -> Option<Reply> {
        flight.is_over(clock::now()).then(|| flight.operation.kind.give_up_widening()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::engine;
    use super::*;

    #[tokio::test]
    async fn pauses_grow_for_who_has_lost_more_often_than_a_lock_may() {
        let engine = engine();
        let pauses = |round| {
            [0, 1, 2, 3, 4, 5, 40].map(|number| engine.longest_pause(number, round).as_millis())
        };
        assert_eq!(pauses(Duration::from_secs(1)), [50, 100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(pauses(Duration::from_millis(1)), [50, 100, 100, 100, 100, 100, 100]);
        assert_eq!(pauses(Duration::from_millis(80)), [50, 100, 160, 160, 160, 160, 160]);
    }
}
