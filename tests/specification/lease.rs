//! Effect of each lease command on one key of one master.
//!
//! A key is `None` if it is absent or has expired. Values are already decoded ([`Stored`](redlock_proxy::decision::lease::attempt::Stored)). None of
//! these functions fails, and each is one atomic step on a master.

use redlock_proxy::decision::lease::attempt::{Attempt, Tag};
use redlock_proxy::decision::lease::{claim, delete, extend, release};

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
        Some(copy) => delete::Sight::Held(copy.tag),
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
