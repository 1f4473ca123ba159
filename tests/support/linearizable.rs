//! A linearizability checker: whether one server could have given clients the answers they got.
//!
//! The search is Wing and Gong's, with Lowe's memoization: an operation can come next if no other
//! one ended before it began. A request that got no answer, or an error, may have been served at
//! any later time, or never.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

/// Contents of one server, empty at first.
pub trait Server: Clone + Debug + Default + Eq + Hash {
    type Operation: Clone + Debug + Eq + Hash;
    type Answer: Clone + Debug + PartialEq;

    /// Runs an operation and returns the server's answer.
    fn run(&mut self, operation: &Self::Operation) -> Self::Answer;
}

/// One request and its answer; `None` if unknown.
#[derive(Clone, Debug)]
pub struct Call<S: Server, T> {
    pub operation: S::Operation,
    pub asked: T,
    pub answer: Option<(T, S::Answer)>,
}

/// Why a history is not known to be that of one server.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// No order of the calls explains all answers. Carries the explanation.
    Violation(String),
    /// The search gave up after this many orders; there are more.
    TooManyOrders(usize),
}

/// Checks that one server could have answered these calls.
///
/// # Errors
/// Returns an error if no order explains the answers, naming the first call that cannot be
/// explained, or if the search would need more than `limit` ways to reach a state.
pub fn check<S: Server, T: Copy + Debug + Ord>(
    calls: &[Call<S, T>],
    limit: usize,
) -> Result<(), Doubt> {
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| call.asked);
    let (known, unknown) = calls.into_iter().partition(|call| call.answer.is_some());
    Search { known, unknown, tried: HashSet::new() }.run(limit)
}

struct Search<S: Server, T> {
    /// In the order in which they were asked.
    known: Vec<Call<S, T>>,
    unknown: Vec<Call<S, T>>,
    tried: HashSet<Place<S>>,
}

/// Progress of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Place<S> {
    /// All known calls before this one are done.
    first: usize,
    /// Known calls after `first` that are done.
    done: BTreeSet<usize>,
    /// Unknown calls that are done.
    guessed: BTreeSet<usize>,
    state: S,
}

impl<S: Server, T: Copy + Debug + Ord> Search<S, T> {
    fn run(mut self, limit: usize) -> Result<(), Doubt> {
        let mut ways = vec![Place::default()];
        let mut furthest = Place::default();
        while let Some(place) = ways.pop() {
            if place.first == self.known.len() {
                return Ok(());
            }
            if place.first > furthest.first {
                furthest = place.clone();
            }
            if self.tried.len() == limit {
                return Err(Doubt::TooManyOrders(limit));
            }
            if self.tried.insert(place.clone()) {
                // The last way is tried first.
                ways.extend(self.after(&place));
            }
        }
        Err(Doubt::Violation(self.stuck_at(&furthest)))
    }

    /// Returns the possible next places. Calls with an answer come last, so they are tried first;
    /// of equal calls without one, only one is tried.
    fn after(&self, place: &Place<S>) -> Vec<Place<S>> {
        let open = || (place.first..self.known.len()).filter(|at| !place.done.contains(at));
        let mut limit = None;
        for at in open() {
            let call = &self.known[at];
            if limit.is_some_and(|limit| call.asked > limit) {
                break;
            }
            limit = limit.into_iter().chain(call.answer.as_ref().map(|answer| answer.0)).min();
        }
        let may_come = |call: &Call<S, T>| limit.is_none_or(|limit| call.asked <= limit);
        let mut ways = Vec::new();
        let mut guesses = HashSet::new();
        let unknown = self.unknown.iter().enumerate().take_while(|(_, call)| may_come(call));
        for (at, call) in unknown.filter(|(at, _)| !place.guessed.contains(at)) {
            let mut next = place.clone();
            next.state.run(&call.operation);
            if next.state != place.state && guesses.insert(&call.operation) {
                next.guessed.insert(at);
                ways.push(next);
            }
        }
        for at in open().take_while(|at| may_come(&self.known[*at])) {
            let mut next = place.clone();
            let told = next.state.run(&self.known[at].operation);
            if self.known[at].answer.as_ref().is_some_and(|(_, answer)| *answer == told) {
                next.done.insert(at);
                while next.done.remove(&next.first) {
                    next.first += 1;
                }
                ways.push(next);
            }
        }
        ways
    }

    fn stuck_at(&self, furthest: &Place<S>) -> String {
        let stuck = &self.known[furthest.first];
        let before = &self.known[furthest.first.saturating_sub(SHOWN)..furthest.first];
        let state = &furthest.state;
        format!("no one Redis answers {stuck:?} in {state:?} after {before:?}")
    }
}

/// Number of calls shown before the one that cannot be explained.
const SHOWN: usize = 8;
