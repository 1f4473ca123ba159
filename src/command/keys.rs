//! Which of a command's words are keys.
//!
//! For most commands the row of the table says so. For the others it follows from a count or a word
//! before them (`getKeysFromCommand` in Redis's `db.c`).

use super::number::parse_i64;
use super::table::{Family, Spec};
use crate::client::decoder::Args;

/// The keys of a command, in its order; none when a count does not fit the words after it.
pub(super) fn of<'a>(spec: &Spec, args: Args<'a>) -> Vec<&'a [u8]> {
    checked(spec, args).unwrap_or_default()
}

/// The same, but `None` in that case.
pub(super) fn checked<'a>(spec: &Spec, args: Args<'a>) -> Option<Vec<&'a [u8]>> {
    let mut keys = fixed(spec, args);
    if spec.has_counted_keys() {
        let at = count_at(spec, !keys.is_empty());
        let least = usize::from(!spec.flags.contains(&"no_mandatory_keys"));
        keys.extend(counted(args, at, least)?);
    } else if spec.flags.contains(&"movablekeys") {
        keys.extend(stored(spec, args));
    }
    Some(keys)
}

/// Those that always have the same place.
fn fixed<'a>(spec: &Spec, args: Args<'a>) -> Vec<&'a [u8]> {
    // A shard channel has the place of a key and is none (`not_key`).
    let first = usize::try_from(spec.first_key).ok();
    let Some(first) = first.filter(|first| *first > 0 && spec.family != Family::Pubsub) else {
        return Vec::new();
    };
    let last = match usize::try_from(spec.last_key) {
        Ok(last) => last,
        Err(_) => args.len().saturating_sub(usize::from(spec.last_key.unsigned_abs())),
    };
    (first..=last).step_by(spec.step.max(1) as usize).filter_map(|at| args.get(at)).collect()
}

/// `EVAL script numkeys key...`, `ZUNIONSTORE destination numkeys key...`,
/// `BLMPOP timeout numkeys key...`, and otherwise `LMPOP numkeys key...`.
fn count_at(spec: &Spec, has_destination: bool) -> usize {
    let comes_second =
        has_destination || spec.family == Family::Script || spec.flags.contains(&"blocking");
    if comes_second { 2 } else { 1 }
}

fn counted<'a>(args: Args<'a>, at: usize, least: usize) -> Option<impl Iterator<Item = &'a [u8]>> {
    let count = usize::try_from(parse_i64(args.get(at)?)?).ok()?;
    (least..args.len() - at).contains(&count).then(|| args.iter().skip(at + 1).take(count))
}

/// The key that `SORT` and `GEORADIUS` store their result in: the last one named counts.
fn stored<'a>(spec: &Spec, args: Args<'a>) -> Option<&'a [u8]> {
    if !spec.flags.contains(&"write") {
        return None;
    }
    let is_store = |word: &[u8]| {
        word.eq_ignore_ascii_case(b"store") || word.eq_ignore_ascii_case(b"storedist")
    };
    if spec.name == "sort" {
        return sort_options(args).filter(|(word, _)| is_store(word)).map(|(_, key)| key).last();
    }
    let pairs = args.iter().zip(args.iter().skip(1)).skip(2);
    pairs.filter(|(word, _)| is_store(word)).map(|(_, key)| key).next_back()
}

/// The options of `SORT`, each with the word after it: what belongs to an option is none itself
/// (`sortGetKeys` in Redis's `db.c`).
pub(super) fn sort_options<'a>(args: Args<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let mut at = 2;
    std::iter::from_fn(move || {
        let (option, value) = (args.get(at)?, args.get(at + 1)?);
        at += match &option.to_ascii_lowercase()[..] {
            b"limit" => 3,
            b"by" | b"get" | b"store" => 2,
            _ => 1,
        };
        Some((option, value))
    })
}
