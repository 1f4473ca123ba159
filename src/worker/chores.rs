//! A worker's periodic tasks, apart from serving clients.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::context::worker::Worker;
use crate::engine::Engine;
use crate::engine::link::Link;
use crate::metrics::histogram::micros;
use crate::time::clock::{self, Instant};

/// Interval at which a worker samples its own state.
const LOOK: Duration = Duration::from_millis(100);

/// Records metrics that are not counted as events occur, and how late the event loop is.
pub(super) async fn look_at_itself(worker: Rc<Worker>) {
    let mut rate = Rate::default();
    let mut behind = vec![Behind::default(); worker.engine.links().len()];
    loop {
        let wanted = clock::now() + LOOK;
        tokio::time::sleep_until(wanted).await;
        let metrics = &worker.metrics;
        metrics.lag.observe(micros(clock::now().saturating_duration_since(wanted)));
        if worker.index == 0 && worker.is_first() {
            worker.registry().set_requests_per_second(rate.of(worker.registry().requests()));
        }
        metrics.in_flight.set(worker.engine.in_flight() as u64);
        metrics.waiting.set(worker.engine.waiting() as u64);
        for link in worker.engine.links() {
            let master = metrics.master(link.master());
            master.deferred.set(link.deferred() as u64);
            master.dropped.set(link.dropped());
            let count = worker.engine.rules().registers.behind.count(link.master()) as u64;
            master.registers_behind.set(count);
            master.not_falling_s.set(behind[link.master().index()].not_falling(count).as_secs());
        }
    }
}

/// Number of registers that a master lacks, and since when it has not fallen.
#[derive(Clone, Default)]
struct Behind(u64, Option<Instant>);

impl Behind {
    fn not_falling(&mut self, count: u64) -> Duration {
        let now = clock::now();
        let before = std::mem::replace(&mut self.0, count);
        if count == 0 || count < before {
            self.1 = None;
        }
        if count == 0 {
            return Duration::ZERO;
        }
        now.saturating_duration_since(*self.1.get_or_insert(now))
    }
}

/// Requests per second, over the last samples (`STATS_METRIC_SAMPLES` in Redis's `server.h`).
#[derive(Default)]
struct Rate(VecDeque<(Instant, u64)>);

impl Rate {
    const LOOKS: usize = 16;

    fn of(&mut self, requests: u64) -> u64 {
        let now = clock::now();
        self.0.push_back((now, requests));
        if self.0.len() > Self::LOOKS {
            self.0.pop_front();
        }
        let Some((then, before)) = self.0.front() else { return 0 };
        let elapsed_ms = now.saturating_duration_since(*then).as_millis().max(1) as u64;
        (requests - before) * 1000 / elapsed_ms
    }
}

/// Ends clients that have been silent for too long (`clientsCronHandleTimeout` in Redis's `timeout.c`). The first
/// worker does this for all.
pub(super) async fn timeouts(worker: Rc<Worker>) {
    loop {
        let timeout = worker.live().timeout;
        let pause = (timeout / 10).clamp(Duration::from_millis(10), Duration::from_secs(1));
        if timeout.is_zero() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        } else {
            worker.registry().end_silent(timeout);
            tokio::time::sleep(pause).await;
        }
    }
}

/// Makes every session check its user when users have changed. The first worker does this for all.
pub(super) async fn changes(worker: Rc<Worker>) {
    let mut changed = worker.shared.changed();
    let mut users = Arc::clone(&changed.borrow_and_update().users);
    // The worker keeps the sender.
    while changed.changed().await.is_ok() {
        let now = Arc::clone(&changed.borrow_and_update().users);
        if !Arc::ptr_eq(&users, &now) {
            users = now;
            worker.registry().wake_all();
        }
    }
}

/// Tears down a link that has gone silent.
pub(super) async fn heartbeats(link: Rc<Link>, engine: Rc<Engine>) {
    loop {
        tokio::time::sleep(link.heartbeat_interval()).await;
        read_first().await;
        link.heartbeat(&engine.term());
    }
}

/// Leaves masters that were replaced.
pub(super) async fn moves(engine: Rc<Engine>) {
    let electorate = engine.shared_electorate();
    loop {
        let moved = electorate.moved();
        engine.links().iter().for_each(|link| link.leave_replaced());
        moved.await;
    }
}

/// Starts what the clients that were heard in one turn of the event loop have asked for.
pub(super) async fn starts(engine: Rc<Engine>) {
    loop {
        engine.begins().await;
        engine.start_begun();
    }
}

/// Ends rounds whose time is up.
pub(super) async fn deadlines(engine: Rc<Engine>) {
    loop {
        let (now, next) = (clock::now(), engine.next_deadline());
        match next {
            None => engine.deadline_set().await,
            // A deadline set meanwhile may come first: the next one known may be the end of a round's patience.
            Some(next) if next > now => tokio::select! {
                biased;
                () = engine.deadline_set() => {}
                () = tokio::time::sleep_until(next) => {}
            },
            Some(_) => {
                read_first().await;
                engine.expire(now);
            }
        }
    }
}

/// Ends the waiting of claims that have waited for a held key for long enough.
pub(super) async fn waits(engine: Rc<Engine>) {
    loop {
        match engine.next_wait_due() {
            None => engine.wait_begun().await,
            Some(due) => tokio::select! {
                biased;
                () = engine.wait_begun() => {}
                () = tokio::time::sleep_until(due) => engine.end_waits_due(),
            },
        }
    }
}

/// Lets links read the bytes in their sockets: this process may have been busy, rather than a master silent. An answer
/// that is read after its deadline is still late, because the pad on the masters covers no more. But no other master is
/// judged before its answer has been read.
async fn read_first() {
    // The runtime polls the sockets before it resumes this task, and first wakes the tasks whose sockets have data.
    tokio::task::yield_now().await;
}
