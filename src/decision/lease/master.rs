//! Effect of each command on one key of one master: the specification of the scripts.
//!
//! A key is `None` if it is absent or has expired. Values are already decoded ([`super::attempt::Stored`]). None of
//! these functions fails, and each is one atomic step on a master.

use super::attempt::{Attempt, Tag};
use super::{claim, delete, extend, release};

/// One master's copy of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MasterLease<T> {
    /// Attempt that stored the copy, and its extensions since.
    pub tag: Tag,
    /// The client's token.
    pub token: T,
    /// Expiry on the master's clock in milliseconds, including the pad.
    pub end_ms: u64,
}

/// Takes the key if it is free: `SET key value NX PX ttl`.
pub fn claim<T>(key: &mut Option<MasterLease<T>>, new: MasterLease<T>) -> claim::Vote {
    match key {
        Some(_) => claim::Vote::Refused,
        None => {
            *key = Some(new);
            claim::Vote::Taken
        }
    }
}

/// Takes the key if it is free, or extends it if it holds the client's token.
pub fn acquire<T: PartialEq>(key: &mut Option<MasterLease<T>>, new: MasterLease<T>) -> claim::Vote {
    match extend(key, &new.token, new.end_ms) {
        extend::Vote::Extended(attempt) | extend::Vote::EndsLater(attempt) => {
            claim::Vote::Owned(attempt)
        }
        extend::Vote::Refused | extend::Vote::Unknown => claim(key, new),
    }
}

/// Extends the lease of this token, and raises its generation so that no take-back in flight can hit it.
///
/// The longer end stays: an extension that reaches too few masters must not shorten a confirmed lease.
pub fn extend<T: PartialEq>(
    key: &mut Option<MasterLease<T>>,
    token: &T,
    end_ms: u64,
) -> extend::Vote {
    match key {
        Some(copy) if copy.token == *token => {
            copy.tag = copy.tag.raised();
            if copy.end_ms > end_ms {
                return extend::Vote::EndsLater(copy.tag.attempt);
            }
            copy.end_ms = end_ms;
            extend::Vote::Extended(copy.tag.attempt)
        }
        _ => extend::Vote::Refused,
    }
}

/// Lets the key end sooner if it holds exactly this value and its end has not been put off since it was seen.
pub fn shorten<T>(key: &mut Option<MasterLease<T>>, tag: Tag, seen_ms: u64, end_ms: u64) {
    if let Some(copy) = key.as_mut().filter(|copy| copy.tag == tag && copy.end_ms <= seen_ms) {
        copy.end_ms = copy.end_ms.min(end_ms);
    }
}

/// Shows the lease held under this token, and changes nothing.
pub fn look<T: PartialEq>(key: &Option<MasterLease<T>>, token: &T) -> release::Sight {
    match key {
        Some(copy) if copy.token == *token => release::Sight::Held(copy.tag),
        Some(_) => release::Sight::Other,
        None => release::Sight::Missing,
    }
}

/// Shows the lease held under any token, and changes nothing.
pub fn show<T>(key: &Option<MasterLease<T>>) -> delete::Sight {
    match key {
        Some(copy) => delete::Sight::Held(delete::Value::Tagged(copy.tag)),
        None => delete::Sight::Missing,
    }
}

/// Deletes the key if it holds exactly this value. A take-back calls this with the attempt's fresh tag.
pub fn delete<T>(key: &mut Option<MasterLease<T>>, tag: Tag) -> release::Vote {
    match key {
        Some(copy) if copy.tag == tag => {
            *key = None;
            release::Vote::Deleted
        }
        Some(copy) if copy.tag.attempt == tag.attempt => release::Vote::Raised,
        Some(_) => release::Vote::Other,
        None => release::Vote::Missing,
    }
}

/// Deletes the key if it holds exactly this tag and token. Reports it if another attempt holds the token.
pub fn give_back<T: PartialEq>(
    key: &mut Option<MasterLease<T>>,
    tag: Tag,
    token: &T,
) -> release::Vote {
    match key {
        Some(copy) if copy.token != *token => release::Vote::Other,
        Some(copy) if copy.tag.attempt != tag.attempt => release::Vote::Another,
        key => delete(key, tag),
    }
}

/// Delivers a release that this master missed: deletes the attempt, whatever its generation.
pub fn deliver<T>(key: &mut Option<MasterLease<T>>, attempt: Attempt) -> release::Vote {
    match key {
        Some(copy) if copy.tag.attempt == attempt => {
            *key = None;
            release::Vote::Deleted
        }
        Some(_) => release::Vote::Other,
        None => release::Vote::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::attempt::WorkerId;

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
        let shown = delete::Sight::Held(delete::Value::Tagged(copy(1, 'a').tag));
        assert_eq!(show(&Some(copy(1, 'a'))), shown);
        assert_eq!(show::<char>(&None), delete::Sight::Missing);
    }
}
