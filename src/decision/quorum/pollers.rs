//! Fair waiting: clients that poll for a held key get it in the order in which they began to ask.
//!
//! A *poller* is a token that was refused on a key within the last [`MEMORY`]: its client asks again and again. While
//! the key is held, a poller's next claim waits here for a short time instead of asking the masters at once. If the key
//! is given back meanwhile, the waiting claim of the poller that began to ask first asks the masters. So nobody has to
//! poll in the right millisecond, and the key is not idle while anybody waits.
//!
//! No claim is refused from memory: another proxy may have given the key back. A waiting claim is refused only if the
//! masters refused another claim of this worker, or granted it, and were asked after the waiting began. If its time is
//! up before that, one claim asks for all that wait.
//!
//! A first claim never waits. Nothing is kept about keys without pollers.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Time after which a poller that has not asked again is forgotten.
pub const MEMORY: Duration = Duration::from_secs(1);

/// Maximum pollers known to one worker. The claims of others do not wait, which bounds memory.
pub const MAX_POLLERS: usize = 16_384;

/// Outcome of a claim that asked the masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has the key.
    Granted,
    /// The key is held.
    Refused,
    /// Neither is known, or its client had gone before it was sent.
    Unknown,
}

/// Waiting claims whose waiting ends.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended<T> {
    /// Claims to refuse.
    pub refused: Vec<T>,
    /// The claim to ask the masters now.
    pub asks: Option<T>,
}

/// The pollers of one worker, and their waiting claims, by fingerprint of database and key.
#[derive(Debug)]
pub struct Pollers<T> {
    /// How long a claim waits; zero if none does.
    longest: Duration,
    keys: HashMap<u64, Key<T>, foldhash::fast::RandomState>,
    /// When a claim of a key has waited for long enough.
    due: BTreeSet<(Duration, u64)>,
    /// Number of series over all keys.
    known: usize,
    swept: Duration,
}

#[derive(Debug)]
struct Key<T> {
    /// By fingerprint of the token.
    series: HashMap<u64, Series, foldhash::fast::RandomState>,
    waiting: Vec<Waiting<T>>,
    /// Whether the key was held when this worker last learned of it.
    is_held: bool,
    /// Whether a claim asks the masters.
    is_asking: bool,
    /// Whether the key was given back while it asked: its refusal may be older.
    was_freed: bool,
}

/// A poller's claims, each within [`MEMORY`] of the reply to the one before.
#[derive(Clone, Copy, Debug)]
struct Series {
    /// Its first refusal.
    first: Duration,
    /// Its last refusal, or the beginning of its last wait.
    last: Duration,
}

#[derive(Debug)]
struct Waiting<T> {
    who: T,
    /// First refusal of its poller.
    since: Duration,
    until: Duration,
    proof: Proof,
}

/// Evidence that the key was held while a claim waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    None,
    /// A claim was sent since.
    Sent,
    /// That claim was refused, or granted.
    Given,
}

impl<T: Copy + PartialEq> Pollers<T> {
    /// Creates an empty room in which claims wait for at most `longest`.
    pub fn new(longest: Duration) -> Self {
        let (keys, due) = (HashMap::default(), BTreeSet::new());
        Self { longest, keys, due, known: 0, swept: Duration::ZERO }
    }

    /// Whether there are no pollers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether the key has pollers, or had some lately.
    #[inline]
    pub fn knows(&self, key: u64) -> bool {
        self.keys.contains_key(&key)
    }

    /// Returns the number of waiting claims.
    pub fn waiting(&self) -> usize {
        self.keys.values().map(|key| key.waiting.len()).sum()
    }

    /// Returns whether a new claim waits: its poller is known, and the key is held.
    pub fn arrives(&mut self, key: u64, poller: u64, who: T, now: Duration) -> bool {
        let until = now + self.longest;
        self.waits(key, poller, Waiting { who, since: now, until, proof: Proof::None }, now)
    }

    /// Returns whether a claim that arrived at `arrived` goes on waiting, although it could be refused already.
    pub fn stays(
        &mut self,
        key: u64,
        poller: u64,
        who: T,
        arrived: Duration,
        now: Duration,
    ) -> bool {
        let until = arrived + self.longest;
        let waiting = Waiting { who, since: now, until, proof: Proof::Given };
        until > now && self.waits(key, poller, waiting, now)
    }

    fn waits(&mut self, name: u64, poller: u64, waiting: Waiting<T>, now: Duration) -> bool {
        let Some(key) = self.keys.get_mut(&name).filter(|key| key.is_held) else { return false };
        let memory = MEMORY + self.longest;
        let series = key.series.get_mut(&poller);
        let Some(series) = series.filter(|series| series.goes_on(now, memory)) else {
            return false;
        };
        series.last = now;
        self.due.insert((waiting.until, name));
        key.waiting.push(Waiting { since: series.first, ..waiting });
        true
    }

    /// Notes that a claim of this poller was refused.
    pub fn refused(&mut self, name: u64, poller: u64, now: Duration) {
        if self.longest.is_zero() {
            return;
        }
        self.sweep(now);
        let memory = MEMORY + self.longest;
        let is_full = self.known >= MAX_POLLERS;
        if is_full && !self.keys.contains_key(&name) {
            return;
        }
        let key = self.keys.entry(name).or_default();
        key.is_held = true;
        match key.series.get_mut(&poller) {
            Some(series) if series.goes_on(now, memory) => series.last = now,
            Some(series) => *series = Series { first: now, last: now },
            None if is_full => {}
            None => {
                self.known += 1;
                key.series.insert(poller, Series { first: now, last: now });
            }
        }
    }

    /// Notes that a claim of this poller was granted. Returns how long it has asked, if it was a poller.
    pub fn granted(&mut self, key: u64, poller: u64, now: Duration) -> Option<Duration> {
        let key = self.keys.get_mut(&key)?;
        key.is_held = true;
        let series = key.series.remove(&poller)?;
        self.known -= 1;
        Some(now - series.first)
    }

    /// Notes that a claim is sent to the masters.
    pub fn asks(&mut self, key: u64) {
        let Some(key) = self.keys.get_mut(&key) else { return };
        (key.is_asking, key.was_freed) = (true, false);
        key.move_proofs(Proof::None, Proof::Sent);
    }

    /// Notes the outcome of the claim that was sent to the masters.
    pub fn answered(&mut self, key: u64, outcome: Outcome, now: Duration) -> Ended<T> {
        let Some(key) = self.keys.get_mut(&key) else { return Ended::NOTHING };
        key.is_asking = false;
        let proof = if outcome == Outcome::Unknown { Proof::None } else { Proof::Given };
        key.move_proofs(Proof::Sent, proof);
        key.is_held &= outcome == Outcome::Granted || !std::mem::take(&mut key.was_freed);
        key.look(now)
    }

    /// Notes that the key was given back. Returns the claim that asks the masters now.
    pub fn freed(&mut self, key: u64) -> Option<T> {
        let key = self.keys.get_mut(&key)?;
        (key.is_held, key.was_freed) = (false, true);
        if key.is_asking { None } else { key.take_first() }
    }

    /// Ends the waiting of claims whose time is up.
    pub fn wake(&mut self, now: Duration) -> Vec<Ended<T>> {
        let mut keys = BTreeSet::new();
        while self.due.first().is_some_and(|(until, _)| *until <= now) {
            keys.extend(self.due.pop_first().map(|(_, key)| key));
        }
        let look = |key| self.keys.get_mut(&key).map(|key| key.look(now));
        keys.into_iter().filter_map(look).collect()
    }

    /// Returns when to call [`Pollers::wake`].
    pub fn next(&self) -> Option<Duration> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Ends the waiting of one claim. Returns whether it can be refused, or `None` if it does not wait.
    pub fn leaves(&mut self, key: u64, who: T) -> Option<bool> {
        let waiting = &mut self.keys.get_mut(&key)?.waiting;
        let index = waiting.iter().position(|waiting| waiting.who == who)?;
        Some(waiting.remove(index).proof == Proof::Given)
    }

    /// Forgets pollers that have stopped asking, from time to time.
    fn sweep(&mut self, now: Duration) {
        if now - self.swept < MEMORY {
            return;
        }
        self.swept = now;
        let memory = MEMORY + self.longest;
        for key in self.keys.values_mut() {
            key.series.retain(|_, series| series.goes_on(now, memory));
        }
        self.keys.retain(|_, key| !key.series.is_empty() || !key.waiting.is_empty());
        self.known = self.keys.values().map(|key| key.series.len()).sum();
    }
}

impl Series {
    /// Whether its poller has been heard within `memory`.
    fn goes_on(self, now: Duration, memory: Duration) -> bool {
        now - self.last <= memory
    }
}

impl<T> Ended<T> {
    const NOTHING: Self = Self { refused: Vec::new(), asks: None };
}

impl<T> Default for Key<T> {
    fn default() -> Self {
        let (series, waiting) = (HashMap::default(), Vec::new());
        Self { series, waiting, is_held: true, is_asking: false, was_freed: false }
    }
}

impl<T: Copy> Key<T> {
    fn move_proofs(&mut self, from: Proof, to: Proof) {
        let moved = self.waiting.iter_mut().filter(|waiting| waiting.proof == from);
        moved.for_each(|waiting| waiting.proof = to);
    }

    /// Ends the waiting of claims that have waited for long enough and can be refused. If the key may be free, or a
    /// claim has no proof yet when its time is up, the first poller's claim asks.
    fn look(&mut self, now: Duration) -> Ended<T> {
        let is_over = |waiting: &Waiting<T>| waiting.until <= now;
        let may_be_refused =
            |waiting: &mut Waiting<T>| is_over(waiting) && waiting.proof == Proof::Given;
        let refused = self.waiting.extract_if(.., may_be_refused).map(|waiting| waiting.who);
        let refused = refused.collect();
        let must_ask = !self.is_held || self.waiting.iter().any(is_over);
        let asks = if must_ask && !self.is_asking { self.take_first() } else { None };
        Ended { refused, asks }
    }

    /// Takes the claim of the poller that began to ask first.
    fn take_first(&mut self) -> Option<T> {
        let waiting = self.waiting.iter().enumerate();
        let (first, _) = waiting.min_by_key(|(_, waiting)| waiting.since)?;
        Some(self.waiting.remove(first).who)
    }
}

#[cfg(test)]
mod tests;
