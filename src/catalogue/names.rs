//! Names that [only the proxy](super::reserved) may use on the masters, and names of channels that are too long: a
//! request with one of them is refused before anything is done with it.

use super::channel::LONGEST_NAME;
use super::reserved::{PREFIX, is_reserved};
use super::table::{self, Command, Family, Spec};
use super::{error, keys};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Refuses a request that names a key or a channel of the proxy's own, or a channel by a long name.
///
/// # Errors
/// What the client is told.
#[inline]
pub fn check(spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    if spec.family == Family::Pubsub && channels(spec, args).any(is_too_long) {
        return Err(error::LONG_CHANNEL);
    }
    // Values may be anything. Few requests have a word that could be such a name at all.
    if args.iter().any(is_reserved) { check_names(spec, args) } else { Ok(()) }
}

/// The same for a request to the data Redis, where nothing has a name of the proxy's own: whoever wrote one there could
/// make it look like a master.
///
/// # Errors
/// What the client is told.
#[inline]
pub fn check_elsewhere(args: Args<'_>) -> Result<(), Reply> {
    if !args.iter().any(is_reserved) {
        return Ok(());
    }
    match table::lookup(args.at(0)) {
        Some(spec) => check_names(spec, args),
        None if keys::of_other(args).into_iter().any(is_reserved) => Err(error::RESERVED_NAME),
        None => Ok(()),
    }
}

fn is_too_long(channel: &[u8]) -> bool {
    channel.len() > LONGEST_NAME
}

#[cold]
fn check_names(spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    let keys = keys::of(spec, args).into_iter();
    let is_ours = keys.chain(channels(spec, args)).chain(patterns(spec, args)).any(is_reserved);
    if is_ours { Err(error::RESERVED_NAME) } else { Ok(()) }
}

/// The words that are channels, or patterns of them.
pub fn channels<'a>(spec: &Spec, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    use Command as C;
    let (first, count) = match spec.id {
        C::Subscribe | C::Psubscribe | C::Ssubscribe => (1, usize::MAX),
        C::Publish | C::Spublish => (1, 1),
        _ => (0, 0),
    };
    args.from(first).iter().take(count)
}

/// Whether an element of what a `SORT` sorts could complete a pattern to a name of the proxy's own.
pub fn may_be_completed(spec: &Spec, args: Args<'_>) -> bool {
    patterns(spec, args).any(|pattern| {
        let head = pattern.split(|byte| *byte == b'*').next().unwrap_or_default();
        head.len() < pattern.len() && PREFIX.as_bytes().starts_with(head)
    })
}

/// Whether it looks up keys that only their patterns name.
pub fn has_patterns(spec: &Spec, args: Args<'_>) -> bool {
    patterns(spec, args).next().is_some()
}

/// The patterns of keys that `SORT` looks up.
fn patterns<'a>(spec: &Spec, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let sorts = matches!(spec.name, "sort" | "sort_ro");
    let options = sorts.then(|| keys::sort_options(args)).into_iter().flatten();
    options.filter(move |(option, _)| is(option, &["by", "get"])).map(|(_, rest)| rest.at(0))
}
