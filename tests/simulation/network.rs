//! The network between one proxy and one master: how long bytes take, and when they do not arrive.
//!
//! Each direction is a [`Way`], which preserves order. A blocked way loses nothing: TCP
//! retransmits, so the bytes arrive when the way is free again, unless the sender has closed the
//! connection with a reset meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::socket::{Pipe, Socket};

/// One direction between a proxy and a master.
#[derive(Debug)]
pub struct Way {
    state: Mutex<State>,
    /// Notified when the way is free again.
    freed: Notify,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    conditions: Conditions,
    blocked_since: Option<Instant>,
    pipes: Vec<Weak<Mutex<Pipe>>>,
}

/// Speed of a way, and its rate of retransmissions.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Maximum delay of bytes.
    pub longest: Duration,
    /// Writes out of a thousand that are lost and retransmitted after [`RETRANSMISSION`].
    pub lost_per_mille: u32,
}

/// Linux retransmits a lost segment after at least 200 ms (`TCP_RTO_MIN`).
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// A local network.
pub const FAIR: Conditions = Conditions { longest: Duration::from_millis(3), lost_per_mille: 0 };

impl Way {
    pub fn new(rng: Rng) -> Arc<Self> {
        let state = State { rng, conditions: FAIR, blocked_since: None, pipes: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), freed: Notify::new() })
    }

    pub fn set(&self, conditions: Conditions) {
        self.state().conditions = conditions;
    }

    pub fn blocked_since(&self) -> Option<Instant> {
        self.state().blocked_since
    }

    /// Blocks the way: nothing arrives from now on.
    pub fn block(&self) {
        self.state().blocked_since.get_or_insert_with(Instant::now);
    }

    /// Frees the way. Delayed bytes arrive as if they had been sent now.
    pub fn free(&self) {
        let Some(since) = self.state().blocked_since.take() else { return };
        for pipe in self.pipes() {
            let waker = lock(&pipe).resend(since, || self.arrival());
            wake(waker);
        }
        self.freed.notify_waiters();
    }

    /// Breaks all connections: both ends see a reset, and bytes in flight are lost.
    pub fn cut(&self) {
        for pipe in self.pipes() {
            let waker = lock(&pipe).cut();
            wake(waker);
        }
    }

    /// Passes one packet, which may have to wait until the way is free.
    pub async fn pass(&self) {
        loop {
            let freed = self.freed.notified();
            if self.blocked_since().is_some() {
                freed.await;
                continue;
            }
            let arrival = self.arrival();
            tokio::time::sleep_until(arrival).await;
            if self.blocked_since().is_none() {
                return;
            }
        }
    }

    /// Arrival time of a packet sent now.
    pub fn arrival(&self) -> Instant {
        let state = &mut *self.state();
        let longest_ms = state.conditions.longest.as_millis() as u64;
        let mut delay = Duration::from_millis(state.rng.u64(0..=longest_ms));
        if state.rng.u32(0..1000) < state.conditions.lost_per_mille {
            delay += RETRANSMISSION;
        }
        Instant::now() + delay
    }

    fn open_pipe(self: &Arc<Self>) -> Arc<Mutex<Pipe>> {
        let pipe = Arc::new(Mutex::new(Pipe::new(Arc::clone(self))));
        let mut state = self.state();
        state.pipes.retain(|pipe| pipe.strong_count() > 0);
        state.pipes.push(Arc::downgrade(&pipe));
        pipe
    }

    fn pipes(&self) -> Vec<Arc<Mutex<Pipe>>> {
        self.state().pipes.iter().filter_map(Weak::upgrade).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Opens a connection over two ways. Returns the caller's end and the listener's end.
pub fn connection(there: &Arc<Way>, back: &Arc<Way>) -> (Socket, Socket) {
    let (there, back) = (there.open_pipe(), back.open_pipe());
    let caller = Socket::new(Arc::clone(&back), Arc::clone(&there));
    (caller, Socket::new(there, back))
}

/// Locks a mutex even if a thread panicked while holding it: the data inside is always consistent.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
