//! What goes on while faults strike: each strike waits until it would hurt somebody, and tells what it did.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::history::{MILLISECOND, Nanos, Outage, now};
use crate::journal::Journal;
use crate::orders::{Habits, PATIENT};

pub(crate) trait Traffic {
    /// Waits until somebody would suffer from a fault, but not for ever: it comes all the same.
    async fn is_under_way(&self);

    /// Waits until something has been done that stands only on masters that can be reached now. It will be relied on for some
    /// seconds.
    async fn goes_on_without_the_others(&self);

    /// A fault is over, and what had been prepared for it.
    fn is_let_alone(&self);

    /// Clients of a proxy may wait in vain.
    fn suffers(&self, outage: Outage);

    /// Clients are to ask there.
    fn moves_to(&self, routes: Vec<String>);
}

/// Clients that take locks.
impl Traffic for Journal {
    async fn is_under_way(&self) {
        self.somebody_holds(now(), 200).await;
    }

    async fn goes_on_without_the_others(&self) {
        {
            let orders = &mut self.books().orders;
            let Habits { extends, repeats, .. } = orders.usual;
            orders.habits = Habits { extends, repeats, ..PATIENT };
        }
        // What everybody holds has to be taken without them.
        self.somebody_holds(now(), 2500).await;
    }

    fn is_let_alone(&self) {
        let mut books = self.books();
        books.orders.habits = books.orders.usual;
    }

    fn suffers(&self, outage: Outage) {
        self.books().history.outages.push(outage);
    }

    fn moves_to(&self, routes: Vec<String>) {
        self.books().orders.routes = routes;
    }
}

impl Journal {
    /// Waits until somebody has come in who may stay for so many milliseconds more.
    async fn somebody_holds(&self, after: Nanos, left_ms: u64) {
        let limit = Instant::now() + WAIT_FOR_HOLDER;
        while !self.is_held(after, left_ms) && Instant::now() < limit {
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn is_held(&self, after: Nanos, left_ms: u64) -> bool {
        let until = now() + left_ms * MILLISECOND;
        let books = self.books();
        books.witness.visits().any(|visit| visit.since >= after && visit.until >= until)
    }
}

/// Where nobody can take a lock, the fault comes all the same.
const WAIT_FOR_HOLDER: Duration = Duration::from_secs(6);
