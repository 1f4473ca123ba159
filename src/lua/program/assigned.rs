//! Assignments to names that are globals in Redis, which refuses them.
//!
//! Such a name may be a parameter of a function around the script, which a script could assign to. So where a script
//! assigns to it, the name is replaced by one that is no global. The master refuses that in the same words.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::names;
use super::scan::MAX_TEXT_BYTES;
use crate::lua::lexer::{Token, placed_tokens};
use crate::lua::step_budget::steps;

/// Prefix that makes another name from such a name.
const BEFORE: &[u8] = b"redlock_proxy_";

/// Returns the text with the names in these assignments replaced by names that are no globals. A name stays as it is if
/// it may be a local somewhere, or if it is assigned to along with others.
pub(super) fn refused(text: &[u8]) -> Cow<'_, [u8]> {
    let tokens = Some(text).filter(|text| text.len() <= MAX_TEXT_BYTES).and_then(placed_tokens);
    let places = tokens.map(|tokens| places(text, &tokens)).unwrap_or_default();
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut renamed, mut copied) = (Vec::with_capacity(text.len()), 0);
    for place in places {
        renamed.extend_from_slice(&text[copied..place]);
        renamed.extend_from_slice(BEFORE);
        copied = place;
    }
    renamed.extend_from_slice(&text[copied..]);
    Cow::Owned(renamed)
}

/// Returns the positions of such names.
fn places(text: &[u8], tokens: &[(Token<'_>, Range<usize>)]) -> Vec<usize> {
    let (mut assigned, mut locals, mut depth) = (Vec::new(), HashSet::new(), 0_usize);
    for (at, (token, place)) in tokens.iter().enumerate() {
        steps(1);
        match &text[place.clone()] {
            b"{" => depth += 1,
            b"}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let Token::Name(name) = token else { continue };
        if !names::is_given(name) {
            continue;
        }
        let before = at.checked_sub(1).map_or(&b""[..], |at| &text[tokens[at].1.clone()]);
        let after = tokens.get(at + 1).map(|(token, _)| token);
        match before {
            b"local" | b"for" | b"function" => _ = locals.insert(*name),
            // In a list of names, unless it is followed by an index or field.
            b"," | b"(" if !matches!(after, Some(Token::Sign(b'.' | b'['))) => {
                locals.insert(*name);
            }
            // A field, of a value or in a table.
            b"." | b":" | b"," | b"(" | b"{" => {}
            b";" if depth > 0 => {}
            _ if after == Some(&Token::Sign(b'=')) => assigned.push((*name, place.start)),
            _ => {}
        }
    }
    let of_globals = assigned.into_iter().filter(|(name, _)| !locals.contains(name));
    of_globals.map(|(_, start)| start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_to_globals_get_another_name() {
        for (text, expected) in [
            ("redis = nil", "redlock_proxy_redis = nil"),
            ("f(redis.x) redis=1", "f(redis.x) redlock_proxy_redis=1"),
            (
                "x = { f = function() redis = 1 end }",
                "x = { f = function() redlock_proxy_redis = 1 end }",
            ),
            ("if x then _G = {} end", "if x then redlock_proxy__G = {} end"),
            ("x = { redis = 1 } KEYS --\n= 2", "x = { redis = 1 } redlock_proxy_KEYS --\n= 2"),
        ] {
            assert_eq!(*refused(text.as_bytes()), *expected.as_bytes());
        }
    }

    #[test]
    fn what_may_be_a_local_or_a_field_stays() {
        for text in [
            "local redis = redis redis = nil",
            "local x, redis redis = nil",
            "for redis = 1, 2 do redis = 3 end",
            "for _, redis in pairs(x) do redis = 3 end",
            "return function(redis) redis = 3 end",
            "local function redis() end redis = 3",
            "x.redis = 3",
            "x = { a = 1; redis = 2 }",
            "return redis == 3",
            "mine = 'redis = 3' -- redis = 3",
        ] {
            assert_eq!(*refused(text.as_bytes()), *text.as_bytes());
        }
    }
}
