//! Single steps of a lease on one master.

use redlock_proxy::decision::lease::attempt::Attempt;
use redlock_proxy::decision::lease::{claim, delete, extend, release};

use crate::specification::lease::*;
use redlock_proxy::decision::lease::attempt::WorkerId;

fn copy(counter: u64, token: char) -> MasterLease<char> {
    let tag = Attempt::new(WorkerId::new(1), counter).fresh();
    MasterLease { tag, token, end_ms: 100 }
}

#[test]
fn only_a_free_key_is_taken() {
    let mut key = None;
    assert_eq!(claim(&mut key, copy(1, 'a')), claim::Vote::Taken);
    assert_eq!(claim(&mut key, copy(2, 'a')), claim::Vote::Refused);
    assert_eq!(key, Some(copy(1, 'a')));
}

#[test]
fn an_extension_keeps_the_attempt_and_the_longer_end() {
    let mut key = Some(copy(1, 'a'));
    assert_eq!(extend(&mut key, &'b', 900), extend::Vote::Refused);
    let held = copy(1, 'a').tag.attempt;
    assert_eq!(extend(&mut key, &'a', 50), extend::Vote::EndsLater(held));
    assert_eq!(key, Some(MasterLease { tag: held.fresh().raised(), ..copy(1, 'a') }));
    shorten(&mut key, held.fresh(), 100, 50);
    shorten(&mut key, held.fresh().raised(), 99, 50);
    assert_eq!(key.map(|copy| copy.end_ms), Some(100), "it was prolonged since");
    shorten(&mut key, held.fresh().raised(), 100, 50);
    assert_eq!(key.map(|copy| copy.end_ms), Some(50));
    assert_eq!(
        acquire(&mut key, MasterLease { end_ms: 900, ..copy(2, 'a') }),
        claim::Vote::Owned(held)
    );
    assert_eq!(key.map(|copy| copy.end_ms), Some(900));
    assert_eq!(acquire(&mut key, copy(3, 'b')), claim::Vote::Refused);
}

#[test]
fn a_take_back_misses_what_was_confirmed_and_a_delivery_does_not() {
    let held = copy(1, 'a').tag.attempt;
    let mut key = Some(copy(1, 'a'));
    extend(&mut key, &'a', 100);
    assert_eq!(delete(&mut key, held.fresh()), release::Vote::Raised);
    assert_eq!(look(&key, &'a'), release::Sight::Held(held.fresh().raised()));
    assert_eq!(deliver(&mut key, copy(2, 'a').tag.attempt), release::Vote::Other);
    assert_eq!(deliver(&mut key, held), release::Vote::Deleted);
    assert_eq!(delete(&mut key, held.fresh()), release::Vote::Missing);
    assert_eq!(look(&key, &'a'), release::Sight::Missing);
}

#[test]
fn equal_tokens_are_not_equal_values() {
    let mut key = Some(copy(1, 'a'));
    assert_eq!(delete(&mut key, copy(2, 'a').tag), release::Vote::Other);
    assert_eq!(delete(&mut key, copy(1, 'a').tag), release::Vote::Deleted);
    assert_eq!(look(&Some(copy(1, 'a')), &'b'), release::Sight::Other);
    let shown = delete::Sight::Held(copy(1, 'a').tag);
    assert_eq!(show(&Some(copy(1, 'a'))), shown);
    assert_eq!(show::<char>(&None), delete::Sight::Missing);
}
