//! What the data Redis does with each request: the specification of the scripts.
//!
//! A key is `None` when it is absent or its time has run out. Each function is one atomic step.

/// What happened to a lock last, under a name that nothing else has: tokens may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(pub u128);

/// The data Redis's copy of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copy<T> {
    /// Token of the client.
    pub token: T,
    /// What happened to it last; `None`: something that went past the proxies.
    pub name: Option<Name>,
    /// End in milliseconds; `None`: never.
    pub end_ms: Option<u64>,
}

/// Whether a claim has the lock now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claimed {
    /// It was free.
    Taken,
    /// It held the client's token already, and ends no sooner than the client wants.
    Owned,
    /// Somebody else has it.
    Held,
}

/// Takes the key if it is free, or, with `is_ours`, prolongs it if it holds the token.
pub fn claim<T: PartialEq>(key: &mut Option<Copy<T>>, new: Copy<T>, is_ours: bool) -> Claimed {
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

/// Lets the key end at `end_ms` if this is what happened to it last. Whether it is.
pub fn settle<T>(key: &mut Option<Copy<T>>, name: Name, end_ms: Option<u64>) -> bool {
    match key {
        Some(copy) if copy.name == Some(name) => {
            copy.end_ms = end_ms;
            true
        }
        _ => false,
    }
}

/// Deletes the key if this is what happened to it last.
pub fn take_back<T: PartialEq>(key: &mut Option<Copy<T>>, name: Name, token: &T) {
    if key.as_ref().is_some_and(|copy| copy.name == Some(name) && copy.token == *token) {
        *key = None;
    }
}

/// Deletes the key if it holds the token. Whether it did.
pub fn release<T: PartialEq>(key: &mut Option<Copy<T>>, token: &T) -> bool {
    key.take_if(|copy| copy.token == *token).is_some()
}
