//! Turns inside one worker, so that its own clients never race on the masters.
//!
//! While one claim for a key is in flight, later ones for the same key wait for it. If it wins, they lose without a
//! request to the masters: they overlapped the winner, so a single Redis could have answered the same. If it loses,
//! those that were waiting when it started lose with it, and the first later one makes the next attempt. So a thousand
//! clients that compete for one key cost the masters one command per round trip.
//!
//! Swaps (`GETSET`, `INCR`, ...) wait for their turn as well, but never share a result.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{HashMap, VecDeque};

/// Maximum waiters per key. More are asked to try again, which bounds memory.
pub const MAX_WAITERS: usize = 16_384;

/// Kind of operation that takes a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    /// A claim that takes the key if it is free. Waiting claims share the fate of the one in flight.
    Claim,
    /// Any operation that must ask the masters itself.
    Alone,
}

/// Outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The key was claimed.
    Granted,
    /// The claim was refused, or could not be decided.
    Lost,
    /// Another operation ended, and says nothing about waiting claims.
    Done,
}

/// Answer to a request for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Go ahead.
    Now,
    /// Wait to be named by [`Turns::leave`].
    Wait,
    /// Too many are waiting.
    Full,
}

/// Waiters affected by a finished turn.
#[derive(Debug, PartialEq, Eq)]
pub struct Concerned<T> {
    /// Waiting claims that share the result.
    pub sharing: Vec<T>,
    /// Waiter that takes the next turn.
    pub next: Option<T>,
}

/// Keys in use, by fingerprint of database and key.
///
/// A fingerprint is 64 bits of a randomly seeded hash, which saves storing the keys here. If two keys ever share one, a
/// claim on one of them may be refused needlessly; that is the safe side.
#[derive(Debug)]
pub struct Turns<T> {
    /// A key in use has a line only once somebody has waited for it: thousands of keys then take little of the
    /// processor's cache.
    keys: HashMap<u64, Option<Box<Line<T>>>, foldhash::fast::RandomState>,
}

/// Those that wait for one key.
#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<(T, TurnKind)>,
    /// Number of claims among `waiting`.
    claims: usize,
    /// Number of those in `waiting` that were there when the current turn began.
    at_start: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), claims: 0, at_start: 0 }
    }
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { keys: HashMap::default() }
    }
}

impl<T> Turns<T> {
    /// Requests a turn on `key` for `who`.
    pub fn enter(&mut self, key: u64, who: T, kind: TurnKind) -> Entry {
        let line = match self.keys.entry(key) {
            Vacant(free) => {
                free.insert(None);
                return Entry::Now;
            }
            Occupied(turn) => turn.into_mut().get_or_insert_default(),
        };
        if line.waiting.len() >= MAX_WAITERS {
            return Entry::Full;
        }
        line.claims += usize::from(kind == TurnKind::Claim);
        line.waiting.push_back((who, kind));
        Entry::Wait
    }

    /// Ends the current turn on `key`.
    pub fn leave(&mut self, key: u64, end: End) -> Concerned<T> {
        let nobody = Concerned { sharing: Vec::new(), next: None };
        let Occupied(mut turn) = self.keys.entry(key) else { return nobody };
        let Some(line) = turn.get_mut() else {
            turn.remove();
            return nobody;
        };
        let concerned = line.ends(end);
        if concerned.next.is_none() {
            turn.remove();
        }
        concerned
    }
}

impl<T> Line<T> {
    /// Ends the current turn, and begins that of the next.
    fn ends(&mut self, end: End) -> Concerned<T> {
        let sharing = self.share(end);
        let next = self.waiting.pop_front();
        self.claims -= usize::from(matches!(next, Some((_, TurnKind::Claim))));
        self.at_start = self.waiting.len();
        Concerned { sharing, next: next.map(|(who, _)| who) }
    }

    fn share(&mut self, end: End) -> Vec<T> {
        let within = match end {
            End::Granted => self.waiting.len(),
            End::Lost => self.at_start,
            End::Done => 0,
        };
        if within == 0 || self.claims == 0 {
            return Vec::new();
        }
        let (mut sharing, mut staying) = (Vec::new(), VecDeque::new());
        for (index, (who, kind)) in self.waiting.drain(..).enumerate() {
            if kind == TurnKind::Claim && index < within {
                sharing.push(who);
            } else {
                staying.push_back((who, kind));
            }
        }
        self.waiting = staying;
        self.claims -= sharing.len();
        sharing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 7;

    fn entered(claims: &[u32]) -> Turns<u32> {
        let mut turns = Turns::default();
        for who in claims {
            turns.enter(KEY, *who, TurnKind::Claim);
        }
        turns
    }

    #[test]
    fn a_winner_settles_everybody_who_waits() {
        let mut turns = entered(&[1, 2, 3]);
        let concerned = turns.leave(KEY, End::Granted);
        assert_eq!(concerned, Concerned { sharing: vec![2, 3], next: None });
        assert_eq!(turns.enter(KEY, 4, TurnKind::Claim), Entry::Now);
    }

    #[test]
    fn a_loser_settles_only_those_that_waited_when_it_started() {
        let mut turns = entered(&[1, 2, 3]);
        let first = turns.leave(KEY, End::Lost);
        assert_eq!(first, Concerned { sharing: vec![], next: Some(2) });
        turns.enter(KEY, 4, TurnKind::Claim);
        let second = turns.leave(KEY, End::Lost);
        assert_eq!(second, Concerned { sharing: vec![3], next: Some(4) });
        assert_eq!(turns.leave(KEY, End::Lost), Concerned { sharing: vec![], next: None });
    }

    #[test]
    fn a_swap_neither_shares_nor_is_shared() {
        let mut turns = Turns::default();
        assert_eq!(turns.enter(KEY, 1, TurnKind::Alone), Entry::Now);
        assert_eq!(turns.enter(KEY, 2, TurnKind::Claim), Entry::Wait);
        assert_eq!(turns.enter(KEY, 3, TurnKind::Alone), Entry::Wait);
        assert_eq!(turns.leave(KEY, End::Done), Concerned { sharing: vec![], next: Some(2) });
        assert_eq!(turns.leave(KEY, End::Granted), Concerned { sharing: vec![], next: Some(3) });
    }

    #[test]
    fn a_loser_does_not_settle_claims_that_came_behind_a_swap() {
        let mut turns = entered(&[1]);
        turns.enter(KEY, 2, TurnKind::Alone);
        assert_eq!(turns.leave(KEY, End::Lost), Concerned { sharing: vec![], next: Some(2) });
        turns.enter(KEY, 3, TurnKind::Alone);
        turns.enter(KEY, 4, TurnKind::Claim);
        assert_eq!(turns.leave(KEY, End::Done), Concerned { sharing: vec![], next: Some(3) });
        assert_eq!(turns.leave(KEY, End::Granted), Concerned { sharing: vec![4], next: None });
    }

    #[test]
    fn waiters_are_bounded() {
        let mut turns = Turns::default();
        turns.enter(KEY, 0, TurnKind::Claim);
        for who in 0..MAX_WAITERS as u32 {
            assert_eq!(turns.enter(KEY, who, TurnKind::Claim), Entry::Wait);
        }
        assert_eq!(turns.enter(KEY, 1, TurnKind::Claim), Entry::Full);
    }
}
