//! Clients' requests to registers and their answers, and a check that one Redis could have given
//! those answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

use super::linearizable::{self, Server};
use super::resp::Reply;

/// An operation on the registers of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Increment,
    /// Increments both counters of a pair, in a transaction.
    IncrementBoth,
    /// Moves one from the first counter of a pair to the second, and returns both.
    Transfer,
    Read,
    /// Replaces the first value by the second if it is there.
    Exchange(Vec<u8>, Vec<u8>),
    Append(Vec<u8>),
    Pop,
    /// Takes a permit, out of [`PERMITS`].
    Acquire(Vec<u8>),
    GiveBack(Vec<u8>),
    /// `FLUSHDB`, which clears all objects.
    Flush,
}

/// Maximum holders of a semaphore's permits.
pub const PERMITS: usize = 2;

/// One request and its answer; `None` if unknown.
pub type Call = linearizable::Call<State, Instant>;

/// Contents of one Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    counters: [i64; 2],
    value: Option<Vec<u8>>,
    list: VecDeque<Vec<u8>>,
    holders: BTreeSet<Vec<u8>>,
}

impl Server for State {
    type Operation = Operation;
    type Answer = Reply;

    fn run(&mut self, operation: &Operation) -> Reply {
        let yes_or_no = |it| Reply::Int(i64::from(it));
        match operation {
            Operation::Increment => {
                self.counters[0] += 1;
                Reply::Int(self.counters[0])
            }
            Operation::IncrementBoth => {
                self.counters = self.counters.map(|counter| counter + 1);
                Reply::Array(self.counters.map(Reply::Int).to_vec())
            }
            Operation::Transfer => {
                self.counters = [self.counters[0] - 1, self.counters[1] + 1];
                Reply::Array(self.counters.map(Reply::Int).to_vec())
            }
            Operation::Read => self.value.clone().map_or(Reply::Nil, Reply::Bulk),
            Operation::Exchange(old, new) => {
                let is_there = self.value.as_deref().unwrap_or_default() == old;
                if is_there {
                    self.value = Some(new.clone());
                }
                yes_or_no(is_there)
            }
            Operation::Append(element) => {
                self.list.push_back(element.clone());
                Reply::Int(self.list.len() as i64)
            }
            Operation::Pop => self.list.pop_front().map_or(Reply::Nil, Reply::Bulk),
            Operation::Acquire(name) => {
                let may = self.holders.len() < PERMITS;
                yes_or_no(may && self.holders.insert(name.clone()))
            }
            Operation::GiveBack(name) => yes_or_no(self.holders.remove(name)),
            Operation::Flush => {
                *self = Self::default();
                Reply::ok()
            }
        }
    }
}

/// Checks that one Redis could have given these answers.
///
/// # Errors
/// Returns, in words, the call that cannot be explained.
pub fn check(calls: &[Call]) -> Result<(), String> {
    linearizable::check(calls, usize::MAX).map_err(|doubt| format!("{doubt:?}"))
}

/// All calls of a run, by object.
pub type Histories = BTreeMap<String, Vec<Call>>;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn call(operation: Operation, from: u64, answer: Option<(u64, Reply)>) -> Call {
        let start = *START;
        let at = |ms| start + Duration::from_millis(ms);
        let answer = answer.map(|(until, reply)| (at(until), reply));
        Call { operation, asked: at(from), answer }
    }

    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

    fn told(operation: Operation, from: u64, until: u64, reply: Reply) -> Call {
        call(operation, from, Some((until, reply)))
    }

    use Operation::{Acquire, Append, Flush, GiveBack, Increment, Pop};

    #[test]
    fn an_unknown_call_explains_one_gap_and_no_second() {
        let mut calls = vec![
            told(Increment, 0, 1, Reply::Int(1)),
            call(Increment, 2, None),
            told(Increment, 3, 4, Reply::Int(2)),
            told(Increment, 5, 6, Reply::Int(4)),
        ];
        assert_eq!(check(&calls), Ok(()));
        calls.push(told(Increment, 7, 8, Reply::Int(6)));
        assert!(check(&calls).is_err());
    }

    #[test]
    fn a_number_does_not_come_again_or_go_back() {
        let twice = [told(Increment, 0, 9, Reply::Int(1)), told(Increment, 0, 9, Reply::Int(1))];
        assert!(check(&twice).is_err());
        let back =
            |from| [told(Increment, 0, 5, Reply::Int(2)), told(Increment, from, 9, Reply::Int(1))];
        assert_eq!(check(&back(4)), Ok(()));
        assert!(check(&back(6)).is_err());
    }

    #[test]
    fn nothing_is_left_of_what_was_there_before_a_flush() {
        let flushed = |counted| {
            let flush = told(Flush, 2, 3, Reply::ok());
            let before = told(Increment, 0, 1, Reply::Int(1));
            [before, flush, told(Increment, 4, 5, Reply::Int(counted))]
        };
        assert_eq!(check(&flushed(1)), Ok(()));
        assert!(check(&flushed(2)).is_err());
    }

    #[test]
    fn an_element_is_popped_once_and_in_its_turn() {
        let element = |name: &str| name.as_bytes().to_vec();
        let popped = |name, from, until| told(Pop, from, until, Reply::Bulk(element(name)));
        let appended = [
            told(Append(element("a")), 0, 1, Reply::Int(1)),
            told(Append(element("b")), 2, 3, Reply::Int(2)),
        ];
        let with = |calls: &[Call]| check(&[&appended[..], calls].concat());
        assert_eq!(with(&[popped("a", 4, 9), popped("b", 4, 9)]), Ok(()));
        assert!(with(&[popped("b", 4, 5), popped("a", 6, 7)]).is_err());
        assert!(with(&[popped("a", 4, 5), popped("a", 6, 7)]).is_err());
    }

    #[test]
    fn as_many_hold_permits_as_there_are() {
        let name = |name: &str| name.as_bytes().to_vec();
        let takes = |who, from| told(Acquire(name(who)), from, from + 1, Reply::Int(1));
        let gives = told(GiveBack(name("a")), 5, 6, Reply::Int(1));
        let (a, b, c) = (takes("a", 0), takes("b", 2), takes("c", 8));
        assert_eq!(check(&[a.clone(), b.clone(), gives, c.clone()]), Ok(()));
        assert!(check(&[a, b, c]).is_err());
    }
}
