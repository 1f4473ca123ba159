//! Checks for names that [only the proxy](super::reserved) may use on the masters, and for channel names that are too
//! long. A request with such a name is refused before anything else.

use super::channel::LONGEST_NAME;
use super::reserved::{PREFIX, is_reserved};
use super::table::{self, Command, Family, Spec};
use super::{error, keys};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Refuses a request that names one of the proxy's keys or channels, or a channel with a long name.
///
/// # Errors
/// Returns the error for the client.
#[inline]
pub fn check(spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    if spec.family == Family::Pubsub && channels(spec, args).any(is_too_long) {
        return Err(error::LONG_CHANNEL);
    }
    // Values may be anything. Few requests contain a word that could be such a name at all.
    if args.iter().any(is_reserved) { check_names(spec, args) } else { Ok(()) }
}

/// Refuses reserved names in a request to the data Redis, where none exist. A client that wrote one there could make
/// it look like a master.
///
/// # Errors
/// Returns the error for the client.
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

/// Iterates over the words that are channels, or patterns for channels.
pub fn channels<'a>(spec: &Spec, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    use Command as C;
    let (first, count) = match spec.id {
        C::Subscribe | C::Psubscribe | C::Ssubscribe => (1, usize::MAX),
        C::Publish | C::Spublish => (1, 1),
        _ => (0, 0),
    };
    args.from(first).iter().take(count)
}

/// Whether an element being sorted by `SORT` could complete a pattern to one of the proxy's names.
pub fn may_be_completed(spec: &Spec, args: Args<'_>) -> bool {
    patterns(spec, args).any(|pattern| {
        let head = pattern.split(|byte| *byte == b'*').next().unwrap_or_default();
        head.len() < pattern.len() && PREFIX.as_bytes().starts_with(head)
    })
}

/// Whether the command looks up keys that are named only by patterns.
pub fn has_patterns(spec: &Spec, args: Args<'_>) -> bool {
    patterns(spec, args).next().is_some()
}

/// Iterates over the key patterns that `SORT` looks up.
fn patterns<'a>(spec: &Spec, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let sorts = matches!(spec.name, "sort" | "sort_ro");
    let options = sorts.then(|| keys::sort_options(args)).into_iter().flatten();
    options.filter(move |(option, _)| is(option, &["by", "get"])).map(|(_, rest)| rest.at(0))
}
