//! Clients that poll for one lock, and how often those that began later get it before them.
//!
//! [`redlock_proxy::decision::quorum::pollers`] orders clients by their first refusal, and says: when
//! the lock is given back, the waiting claim of the client that was refused first asks for it. So a
//! client is overtaken only while it sleeps between two claims, which takes 20 ms at most
//! ([`SLEEPS_MS`]). Its next claim waits for longer than anybody holds the lock ([`HOLDS_MS`]), so the
//! lock is given back meanwhile, to it or to a client that was refused before it. Two grants are at
//! least a millisecond apart, so [`MOST_IN_A_ROW`] fit into one sleep. In all, a client behind `n`
//! others is overtaken at most `(n + 1) * MOST_IN_A_ROW` times.
//!
//! Without fair waiting there is no bound: whoever asks first after the release gets the lock. Masters
//! are so near here that a release takes no time. Otherwise a first claim, which never waits, could
//! come while a release is under way.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::{Client, Gone};
use super::resp::Reply;

const LOCK: &str = "lock";

/// Longer than any client holds the lock.
const LEASE: Duration = Duration::from_secs(10);

/// Time until the proxy has connected to all masters.
const START: Duration = Duration::from_secs(1);

/// Grants to each client.
const ROUNDS: u64 = 20;

/// Pauses between two claims of a round, in milliseconds.
const SLEEPS_MS: std::ops::RangeInclusive<u64> = 5..=20;

/// Times for which the lock is held, in milliseconds: shorter than a claim waits by default.
const HOLDS_MS: std::ops::RangeInclusive<u64> = 1..=3;

/// Overtakings in a row that the order of pollers allows: one at each end of the longest sleep, and one after each of the
/// shortest holds in between.
pub const MOST_IN_A_ROW: u32 = (*SLEEPS_MS.end() / *HOLDS_MS.start()) as u32 + 1;

impl Client {
    /// Takes the lock several times, and polls for it each time.
    pub async fn poll(mut self) {
        sleep(START).await;
        for _ in 0..ROUNDS {
            let pause_ms = self.rng.u64(0..self.world.plan.idle_ms);
            sleep(Duration::from_millis(pause_ms)).await;
            if self.wait_for_the_lock().await.is_err() {
                self.world.journal.violation("rule 3: the proxy has hung up");
            }
        }
    }

    async fn wait_for_the_lock(&mut self) -> Result<(), Gone> {
        let (token, began) = (self.token(), Instant::now());
        let px = LEASE.as_millis().to_string();
        loop {
            let reply = self.ask(&["SET", LOCK, &token, "NX", "PX", &px]).await?;
            if self.is_granted(&reply, &Reply::ok(), &Reply::Nil) {
                break;
            }
            self.world.line.refused(&token);
            let sleep_ms = self.rng.u64(SLEEPS_MS);
            sleep(Duration::from_millis(sleep_ms)).await;
        }
        self.world.line.granted(&token, began);
        self.granted(LOCK, &token, LEASE);
        let hold_ms = self.rng.u64(HOLDS_MS);
        sleep(Duration::from_millis(hold_ms)).await;
        self.release(LOCK, &token).await.map(drop)
    }
}

/// The clients that wait for the lock, as they themselves see it.
#[derive(Default)]
pub struct Line {
    waiting: RefCell<Vec<Waiting>>,
    worst: Cell<Overtaken>,
}

struct Waiting {
    token: String,
    /// Its first refusal.
    since: Instant,
    overtaken: Overtaken,
}

/// How often clients that began later got the lock before a client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overtaken {
    /// Times without a grant to a client that began earlier.
    pub in_a_row: u32,
    pub in_all: u32,
}

impl Line {
    /// Returns the worst that happened to any client.
    pub fn worst(&self) -> Overtaken {
        self.worst.get()
    }

    fn refused(&self, token: &str) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.iter().all(|it| it.token != token) {
            let (token, since) = (token.to_owned(), Instant::now());
            waiting.push(Waiting { token, since, overtaken: Overtaken::default() });
        }
    }

    /// Counts a grant to a client whose first claim was sent at `began`. It overtakes all that had been refused before
    /// that.
    fn granted(&self, token: &str, began: Instant) {
        let (mut waiting, mut worst) = (self.waiting.borrow_mut(), self.worst.get());
        waiting.retain(|it| it.token != token);
        for it in waiting.iter_mut() {
            let (overtaken, is_overtaken) = (&mut it.overtaken, it.since < began);
            overtaken.in_a_row = if is_overtaken { overtaken.in_a_row + 1 } else { 0 };
            overtaken.in_all += u32::from(is_overtaken);
            worst.in_a_row = worst.in_a_row.max(overtaken.in_a_row);
            worst.in_all = worst.in_all.max(overtaken.in_all);
        }
        self.worst.set(worst);
    }
}
