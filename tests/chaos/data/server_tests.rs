//! Hand-made histories, most of them impossible for a single server: a checker that finds nothing
//! in them proves nothing elsewhere.

use super::*;
use crate::support::linearizable::{self, Doubt, check};

type Call = linearizable::Call<OneRedis, u64>;

const ENOUGH: usize = 10_000;

#[test]
fn a_lost_increment_is_found() {
    let first = told(Operation::Increment(1), 0, 5, Value::Int(1));
    let twice = [first.clone(), told(Operation::Increment(1), 2, 7, Value::Int(1))];
    is_found(&twice);
    let counted = told(Operation::Increment(5), 6, 9, Value::Int(6));
    is_found(&[first.clone(), counted.clone(), told(Operation::Get, 10, 11, bulk("1"))]);
    is_one_servers(&[first, counted, told(Operation::Get, 10, 11, bulk("6"))]);
}

#[test]
fn an_element_that_is_popped_twice_or_lost_is_found() {
    let pushed =
        [append("a", 0, 1, 1), append("b", 2, 3, 2), told(Operation::Pop, 4, 9, bulk("a"))];
    let then = |call| [&pushed[..], &[call]].concat();
    is_found(&then(told(Operation::Pop, 5, 8, bulk("a"))));
    is_found(&then(told(Operation::List, 10, 11, Value::Array(Vec::new()))));
    is_found(&then(told(Operation::Pop, 10, 11, Value::Nil)));
    is_one_servers(&then(told(Operation::List, 10, 11, Value::Array(vec![bulk("b")]))));
    // Concurrent with the first pop.
    is_one_servers(&then(told(Operation::Pop, 5, 8, bulk("b"))));
}

#[test]
fn a_stale_read_is_found() {
    let set =
        |value: &str, from, until| told(Operation::Set(value.to_owned()), from, until, Value::Okay);
    let read = |value, from| told(Operation::Get, from, from + 2, bulk(value));
    let (old, new) = (set("old", 0, 1), set("new", 2, 5));
    is_one_servers(&[old.clone(), new.clone(), read("old", 3)]);
    is_found(&[old.clone(), new.clone(), read("old", 6)]);
    // Once a client has read the new value, the old one is stale, however long the change takes.
    let slow = set("new", 2, 50);
    is_found(&[old.clone(), slow, read("new", 6), read("old", 10)]);
    let deleted = told(Operation::Delete, 6, 7, Value::Int(1));
    is_found(&[old, new, deleted, read("new", 8)]);
}

#[test]
fn an_exchange_that_two_win_is_found() {
    let exchange = |old: &str, new: &str, from, until, won| {
        told(Operation::Exchange(old.to_owned(), new.to_owned()), from, until, Value::Int(won))
    };
    let first = exchange("", "a", 0, 9, 1);
    is_found(&[first.clone(), exchange("", "b", 1, 8, 1)]);
    is_one_servers(&[first.clone(), exchange("", "b", 1, 8, 0)]);
    is_one_servers(&[first.clone(), exchange("a", "b", 1, 8, 1)]);
    // Nobody wins although the value is there.
    is_found(&[first, exchange("a", "b", 10, 11, 0)]);
}

#[test]
fn more_holders_than_permits_are_found() {
    let takes =
        |who: &str, from| told(Operation::Acquire(who.to_owned()), from, from + 1, Value::Int(1));
    let gives = told(Operation::GiveBack("a".to_owned()), 4, 5, Value::Int(1));
    is_one_servers(&[takes("a", 0), takes("b", 2), gives, takes("c", 6)]);
    is_found(&[takes("a", 0), takes("b", 2), takes("c", 6)]);
}

#[test]
fn half_a_transaction_is_found() {
    let both = told(Operation::IncrementBoth, 0, 5, Value::Array(vec![Value::Int(1); 2]));
    let seen =
        |one, other, from| told(Operation::GetBoth, from, from + 1, Value::Array(vec![one, other]));
    is_one_servers(&[both.clone(), seen(Value::Nil, Value::Nil, 2)]);
    is_one_servers(&[both.clone(), seen(bulk("1"), bulk("1"), 2)]);
    is_found(&[both, seen(bulk("1"), Value::Nil, 2)]);
    // A move keeps the element in one of the two lists at every moment.
    let appended = append("a", 0, 1, 1);
    let moved = told(Operation::Move, 2, 5, bulk("a"));
    let nowhere = Value::Array(vec![Value::Array(Vec::new()); 2]);
    is_found(&[appended, moved, told(Operation::ListBoth, 3, 4, nowhere)]);
}

#[test]
fn what_was_left_open_is_done_once_at_any_later_time_or_never() {
    let open = Call { operation: Operation::Increment(1), asked: 2, answer: None };
    let counted = |number, from| told(Operation::Increment(1), from, from + 1, Value::Int(number));
    is_one_servers(&[counted(1, 0), open.clone(), counted(2, 4), counted(3, 6)]);
    is_one_servers(&[counted(1, 0), open.clone(), counted(2, 4), counted(4, 6)]);
    is_found(&[counted(1, 0), open.clone(), counted(3, 4), counted(5, 6)]);
    // Not before it was asked.
    is_found(&[counted(2, 0), open, counted(3, 4)]);
}

#[test]
fn a_history_that_leaves_too_much_open_is_not_told() {
    let opens =
        (0..20).map(|by| Call { operation: Operation::Increment(1 << by), asked: 0, answer: None });
    let never = told(Operation::Increment(1), 1, 2, Value::Int(0));
    let calls: Vec<Call> = opens.chain([never]).collect();
    assert_eq!(check(&calls, ENOUGH), Err(Doubt::TooManyOrders(ENOUGH)));
}

fn is_one_servers(calls: &[Call]) {
    assert_eq!(check(calls, ENOUGH), Ok(()));
}

fn is_found(calls: &[Call]) {
    let doubt = check(calls, ENOUGH);
    assert!(matches!(doubt, Err(Doubt::Violation(_))), "{calls:?}: {doubt:?}");
}

fn append(element: &str, from: u64, until: u64, length: i64) -> Call {
    told(Operation::Append(element.to_owned()), from, until, Value::Int(length))
}

fn told(operation: Operation, from: u64, until: u64, answer: Value) -> Call {
    Call { operation, asked: from, answer: Some((until, answer)) }
}

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}
