//! Orders for the clients. All randomness is here, so the programs in other languages stay small.

use fastrand::Rng;

use crate::history::{Answer, Call, Operation};

/// Gives orders to all clients of one test.
#[derive(Debug)]
pub(crate) struct Orders {
    random: Rng,
    /// Servers that a client may ask: the address of each proxy, or all masters at once for a
    /// library that does Redlock.
    pub(crate) routes: Vec<String>,
    pub(crate) habits: Habits,
    /// Default habits.
    pub(crate) usual: Habits,
    pub(crate) ended: bool,
    given: u64,
}

/// Current lock usage of the clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    pub(crate) ttls_ms: &'static [u64],
    /// Range of the work time, in hundredths of the TTL.
    pub(crate) hold: (u64, u64),
    /// Whether some locks are extended. Not every library can.
    pub(crate) extends: bool,
    /// Whether some clients reuse values: for retries after a failed attempt, for everything they
    /// do, or shared with other clients. Libraries that draw their own values do not.
    pub(crate) repeats: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) server: String,
    pub(crate) key: String,
    /// Identity of the holder in the history: the stored value, unless other clients store the
    /// same.
    pub(crate) token: String,
    /// Stored value.
    value: String,
    pub(crate) px_ms: u64,
    hold_ms: u64,
    extend: bool,
    release: bool,
}

/// One client's state in the orders.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) client: usize,
    /// Number of times that it had to switch to another server.
    detours: usize,
    rested: bool,
    last: Option<Order>,
    /// An attempt whose result it does not know.
    unsettled: Option<Order>,
    /// Number of times that it had to change its own value. A lost release or extension may still
    /// be on its way and would end the next lock with that value, or let it end sooner.
    values: u64,
}

#[derive(Debug)]
pub(crate) enum Next {
    Try(Order),
    /// Release a lock that an attempt may have taken although it ended with an error.
    Free(Order),
    Rest(u64),
    End,
}

impl Standing {
    pub(crate) fn of(client: usize) -> Standing {
        Standing { client, detours: 0, rested: false, last: None, unsettled: None, values: 0 }
    }

    fn note(&mut self, call: &Call) {
        match (call.operation, &call.answer) {
            (Operation::Claim, Answer::Lost(_) | Answer::Error(_)) => {
                self.unsettled = self.last.clone();
            }
            (Operation::Release | Operation::Extend, Answer::Lost(_)) => {
                (self.unsettled, self.values) = (None, self.values + 1)
            }
            (Operation::Release, _) => {}
            _ => self.unsettled = None,
        }
    }

    /// The value of a client that reuses one again and again. Every fourth client shares its value
    /// with others of its kind and leaves its locks to their TTL: `cache.add(key, 'true')`.
    fn value(&self) -> Option<String> {
        match self.client % 4 {
            1 => Some(format!("client-{}-{}", self.client, self.values)),
            3 => Some(SHARED.to_owned()),
            _ => None,
        }
    }
}

impl Orders {
    pub(crate) fn new(seed: u64, routes: Vec<String>, usual: Habits) -> Orders {
        let (random, habits) = (Rng::with_seed(seed), usual);
        Orders { random, routes, habits, usual, ended: false, given: 0 }
    }

    /// Chooses a client's next step after `last`. A refused client waits a little; a client without
    /// an answer tries another server and returns some time later.
    pub(crate) fn next(&mut self, standing: &mut Standing, last: Option<&Call>) -> Next {
        if self.ended {
            return Next::End;
        }
        if !std::mem::replace(&mut standing.rested, true) {
            last.into_iter().for_each(|call| standing.note(call));
            let last = last.map(|call| &call.answer);
            match last {
                Some(Answer::Lost(_)) => standing.detours += 1,
                // Otherwise all clients would stay with the proxy that was never down.
                _ if self.random.u8(..20) == 0 => standing.detours = 0,
                _ => {}
            }
            let longest_ms = if last == Some(&Answer::Yes) { 5 } else { 25 };
            return Next::Rest(self.random.u64(1..longest_ms));
        }
        standing.rested = false;
        let next = self.again(standing).unwrap_or_else(|| Next::Try(self.order(standing)));
        if let Next::Try(order) = &next {
            standing.last = Some(order.clone());
        }
        next
    }

    /// Imitates many libraries after an error: release, and try again with the same value.
    fn again(&mut self, standing: &mut Standing) -> Option<Next> {
        let before = standing.unsettled.take().filter(|_| self.habits.repeats)?;
        let server = self.server(standing);
        match self.random.u8(..4) {
            0 => None,
            1 if before.release => {
                standing.unsettled = Some(before.clone());
                Some(Next::Free(Order { server, ..before }))
            }
            _ => Some(Next::Try(Order { server, ..before })),
        }
    }

    fn order(&mut self, standing: &Standing) -> Order {
        self.given += 1;
        let Habits { ttls_ms, hold, extends, repeats } = self.habits;
        let px_ms = ttls_ms[self.random.usize(..ttls_ms.len())];
        let unique = format!("token-{}-{}", standing.client, self.given);
        let value = standing.value().filter(|_| repeats).unwrap_or_else(|| unique.clone());
        let is_shared = value == SHARED;
        let token = if is_shared { unique } else { value.clone() };
        let extend = extends && !is_shared && self.random.u8(..4) == 0;
        let hold_ms = px_ms * self.random.u64(hold.0..=hold.1) / 100;
        Order {
            server: self.server(standing),
            key: format!("key-{}", self.random.usize(..KEYS)),
            token,
            value,
            px_ms,
            hold_ms: if extend { hold_ms / 2 } else { hold_ms },
            extend,
            release: !is_shared && self.random.u8(..4) > 0,
        }
    }

    fn server(&self, standing: &Standing) -> String {
        self.routes[(standing.client + standing.detours) % self.routes.len()].clone()
    }
}

impl std::fmt::Display for Next {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Next::End => formatter.write_str("end"),
            Next::Rest(ms) => write!(formatter, "rest {ms}"),
            Next::Free(Order { server, key, value, .. }) => {
                write!(formatter, "free {server} {key} {value} {PATIENCE_MS}")
            }
            Next::Try(order) => {
                let Order { server, key, value, px_ms, hold_ms, .. } = order;
                let [extend, release] = [order.extend, order.release].map(u8::from);
                write!(
                    formatter,
                    "try {server} {key} {value} {px_ms} {hold_ms} {extend} {release} {PATIENCE_MS}"
                )
            }
        }
    }
}

/// Time for which a client waits for a reply: longer than a proxy needs for the worst of split
/// votes on a busy machine.
pub(crate) const PATIENCE_MS: u64 = 5000;

/// Value that some clients all put into their locks.
const SHARED: &str = "true";

/// Few, so that somebody always wants a held lock.
const KEYS: usize = 3;

pub(crate) fn keys() -> impl Iterator<Item = String> {
    (0..KEYS).map(|n| format!("key-{n}"))
}

/// Short enough that locks expire while others wait for them.
pub(crate) const USUAL: Habits =
    Habits { ttls_ms: &[300, 600, 1200], hold: (20, 90), extends: true, repeats: true };

/// Long enough to find a lock on two masters only, after the third has come back.
pub(crate) const PATIENT: Habits = Habits { ttls_ms: &[4000], hold: (85, 95), ..USUAL };
