//! Traffic during faults. Each strike waits until it would affect clients, and reports its effect
//! to the traffic.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::history::{MILLISECOND, Nanos, Outage, now};
use crate::journal::Journal;
use crate::orders::{Habits, PATIENT};

pub(crate) trait Traffic {
    /// Waits, up to a limit, until a fault would affect somebody. The fault strikes even after the
    /// limit.
    async fn is_under_way(&self);

    /// Waits until an operation stands only on masters that can be reached now. Clients will rely
    /// on it for some seconds.
    async fn goes_on_without_the_others(&self);

    /// Marks the end of a fault and of its preparations.
    fn is_let_alone(&self);

    /// Records an outage of a proxy, whose clients may wait in vain.
    fn suffers(&self, outage: Outage);

    /// Moves clients to these routes.
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
        // All current locks must be taken without the missing masters.
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
    /// Waits until a client has entered whose lease has at least this many milliseconds left.
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

/// The fault strikes even if nobody can take a lock in this time.
const WAIT_FOR_HOLDER: Duration = Duration::from_secs(6);
