//! The effect of each request on the data Redis.
//!
//! A key is `None` when it is absent or has expired. Each function is one atomic step.

use redlock_proxy::also_claim::script::{Claimed, CopyName};

/// The data Redis's copy of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataCopy<T> {
    /// Token of the client.
    pub token: T,
    /// Name of its last change; `None`: a change that bypassed the proxies.
    pub name: Option<CopyName>,
    /// End in milliseconds; `None`: never.
    pub end_ms: Option<u64>,
}

/// Takes the key if it is free, or, with `is_ours`, extends it if it holds the token.
pub fn claim<T: PartialEq>(
    key: &mut Option<DataCopy<T>>,
    new: DataCopy<T>,
    is_ours: bool,
) -> Claimed {
    match key {
        None => {
            *key = Some(new);
            Claimed::Taken
        }
        Some(copy) if is_ours && copy.token == new.token => {
            copy.name = new.name;
            copy.end_ms = copy.end_ms.zip(new.end_ms).map(|(old, new)| old.max(new));
            Claimed::Owned
        }
        Some(_) => Claimed::Held,
    }
}

/// Lets the key expire at `end_ms` if `name` is its last change. Returns whether it is.
pub fn settle<T>(key: &mut Option<DataCopy<T>>, name: CopyName, end_ms: Option<u64>) -> bool {
    match key {
        Some(copy) if copy.name == Some(name) => {
            copy.end_ms = end_ms;
            true
        }
        _ => false,
    }
}

/// Deletes the key if `name` is its last change and it holds the token.
pub fn take_back<T: PartialEq>(key: &mut Option<DataCopy<T>>, name: CopyName, token: &T) {
    if key.as_ref().is_some_and(|copy| copy.name == Some(name) && copy.token == *token) {
        *key = None;
    }
}

/// Deletes the key if it holds the token. Returns whether it did.
pub fn release<T: PartialEq>(key: &mut Option<DataCopy<T>>, token: &T) -> bool {
    key.take_if(|copy| copy.token == *token).is_some()
}
