//! Redisson's objects, which its own scripts change: the calls that clients make, and one server's
//! answers to them.
//!
//! Counts are strings on the server, so a plain `GET` shows them as well.

use std::collections::VecDeque;

use fastrand::Rng;
use redis::Value;

use super::object::{Answer, Kind};
use super::server::{OneRedis, words, yes_or_no};

/// Calls of Redisson. Each is one script on the server, except for waits on locks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Method {
    TrySetPermits,
    TryAcquire,
    Release,
    AvailablePermits,
    TrySetCount,
    CountDown,
    GetCount,
    TrySetRate,
    TryAcquireRate,
    /// Every attempt has its own holder, so nobody enters a lock twice.
    TryLock(Lock, Attempt),
    Unlock(Lock, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lock {
    Fenced,
    Fair,
}

/// A claim of a lease of this length that waits this long if need be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) holder: u64,
    pub(crate) wait_ms: u64,
    pub(crate) lease_ms: u64,
}

impl Method {
    /// Encodes the call as an order to the Java client.
    pub(crate) fn words(&self, key: &str) -> Vec<String> {
        let number = |name, number: u64| words([name, key, &number.to_string()]);
        match self {
            Method::TrySetPermits => number("semaphore.trySetPermits", AT_FIRST as u64),
            Method::TryAcquire => words(["semaphore.tryAcquire", key]),
            Method::Release => words(["semaphore.release", key]),
            Method::AvailablePermits => words(["semaphore.availablePermits", key]),
            Method::TrySetCount => number("latch.trySetCount", AT_FIRST as u64),
            Method::CountDown => words(["latch.countDown", key]),
            Method::GetCount => words(["latch.getCount", key]),
            Method::TrySetRate => {
                words(["limiter.trySetRate", key, &RATE.to_string(), &INTERVAL_MS.to_string()])
            }
            Method::TryAcquireRate => words(["limiter.tryAcquire", key]),
            Method::TryLock(lock, Attempt { holder, wait_ms, lease_ms }) => {
                let method = match lock {
                    Lock::Fenced => "fenced.tryLockAndGetToken",
                    Lock::Fair => "fair.tryLock",
                };
                let numbers = [holder, wait_ms, lease_ms].map(u64::to_string);
                [words([method, key]), numbers.to_vec()].concat()
            }
            Method::Unlock(Lock::Fenced, holder) => number("fenced.unlock", *holder),
            Method::Unlock(Lock::Fair, holder) => number("fair.unlock", *holder),
        }
    }

    /// Whether it changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        matches!(self, Method::AvailablePermits | Method::GetCount)
    }

    /// Applies the call to one server and returns its answer. Locks and limiters depend on time and
    /// have their own [judges](super::judges).
    pub(crate) fn run(&self, server: &mut OneRedis) -> Value {
        let count = server.count(0);
        let mut put = |count: Option<i64>| server.strings[0] = count.map(|it| it.to_string());
        match self {
            Method::TrySetPermits | Method::TrySetCount => {
                put(count.or(Some(AT_FIRST)));
                yes_or_no(count.is_none())
            }
            Method::TryAcquire => {
                let is_free = count.is_some_and(|count| count > 0);
                put(count.map(|count| count - i64::from(is_free)));
                yes_or_no(is_free)
            }
            Method::Release => {
                put(Some(count.unwrap_or(0) + 1));
                Value::Nil
            }
            Method::CountDown => {
                put(count.filter(|count| *count > 1).map(|count| count - 1));
                Value::Nil
            }
            Method::AvailablePermits | Method::GetCount => Value::Int(count.unwrap_or(0)),
            other => unreachable!("{other:?} is judged by the time"),
        }
    }
}

/// Possible holders of a lock: client, server and holder. A lock is given back where it was taken,
/// because Redisson uses a different name for each server.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    held: VecDeque<(usize, String, u64)>,
    /// Whether a limiter has been given its rate.
    pub(crate) has_rate: bool,
}

impl Holders {
    /// Chooses the next call of `client` on an object of this kind. Each `number` is used once
    /// only.
    pub(crate) fn next(
        &mut self,
        kind: Kind,
        client: usize,
        number: u64,
        random: &mut Rng,
    ) -> Method {
        let lot = random.u8(0..10);
        match (kind, lot) {
            (Kind::Permits, 0) => Method::TrySetPermits,
            (Kind::Permits, 1..5) => Method::TryAcquire,
            (Kind::Permits, 5..8) => Method::Release,
            (Kind::Permits, _) => Method::AvailablePermits,
            (Kind::Latch, 0..2) => Method::TrySetCount,
            (Kind::Latch, 2..7) => Method::CountDown,
            (Kind::Latch, _) => Method::GetCount,
            (Kind::Limiter, 1..) if self.has_rate => Method::TryAcquireRate,
            (Kind::Limiter, _) => Method::TrySetRate,
            (Kind::FairLock, _) => self.next_of(Lock::Fair, client, number, random),
            _ => self.next_of(Lock::Fenced, client, number, random),
        }
    }

    /// Chooses the next call on a lock. Some leases are left to expire.
    fn next_of(&mut self, lock: Lock, client: usize, number: u64, random: &mut Rng) -> Method {
        let own = self.held.iter().find(|it| it.0 == client).map(|it| it.2);
        if let Some(holder) = own.filter(|_| random.u8(..10) > 0) {
            return Method::Unlock(lock, holder);
        }
        let wait_ms = if random.bool() { 0 } else { random.u64(50..400) };
        let lease_ms = random.u64(300..1200);
        Method::TryLock(lock, Attempt { holder: number, wait_ms, lease_ms })
    }

    /// Server that must be asked, if the call is bound to one.
    pub(crate) fn server(&self, method: &Method) -> Option<&String> {
        let Method::Unlock(_, holder) = method else { return None };
        self.held.iter().find(|it| it.2 == *holder).map(|it| &it.1)
    }

    pub(crate) fn answer(&mut self, client: usize, server: &str, method: &Method, answer: &Answer) {
        match (method, answer) {
            (Method::TrySetRate, Answer::Told(_)) => self.has_rate = true,
            (Method::TryLock(..), Answer::Told(Value::Nil | Value::Int(0))) => {}
            (Method::TryLock(_, attempt), _) => {
                self.held.push_back((client, server.to_owned(), attempt.holder));
            }
            (Method::Unlock(_, holder), _) => self.held.retain(|it| it.2 != *holder),
            _ => {}
        }
    }
}

/// Initial permits of a semaphore and initial count of a latch.
const AT_FIRST: i64 = 3;

/// Permits that a limiter grants within each interval.
pub(crate) const RATE: usize = 3;
pub(crate) const INTERVAL_MS: u64 = 500;

#[cfg(test)]
#[path = "redisson_tests.rs"]
mod tests;
