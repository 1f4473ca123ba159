//! Name of the keys in a library: the first parameter of the functions that it registers.

use std::collections::{HashMap, HashSet};

use super::{Scan, Token, Word};

/// Returns the name of the keys, and its positions. It is the first parameter of all functions that are certainly
/// called by `FCALL` alone, if that is the same for all.
pub(super) fn parameters<'a>(scan: &Scan<'a>) -> (&'a [u8], HashSet<usize>) {
    let times = times(scan);
    let parameters = (0..scan.tokens.len()).filter_map(|at| {
        let is_callback = is_inline(scan, at) || is_named(scan, at, &times);
        is_callback.then(|| first_parameter(scan, at)).flatten()
    });
    let places: Vec<usize> = parameters.collect();
    let name = |place: &usize| match scan.token(*place) {
        Some(Token::Name(name)) => *name,
        _ => &b""[..],
    };
    let Some(first) = places.first().map(name) else { return (b"", HashSet::new()) };
    (first, places.into_iter().filter(|place| name(place) == first).collect())
}

/// Returns how often each name occurs in the text, and its last position.
fn times<'a>(scan: &Scan<'a>) -> HashMap<&'a [u8], (usize, usize)> {
    let mut times: HashMap<_, (usize, usize)> = HashMap::new();
    for at in 0..scan.tokens.len() {
        if let Some(Token::Name(name)) = scan.token(at) {
            let (count, last) = times.entry(*name).or_default();
            (*count, *last) = (*count + 1, at);
        }
    }
    times
}

/// Returns whether a function that is registered in place begins at `at`.
fn is_inline(scan: &Scan<'_>, at: usize) -> bool {
    is_function(scan, at) && is_registered(scan, at)
}

/// Returns whether `local function name` begins at `at`, and that name occurs once more in the text: where it is
/// registered.
fn is_named(scan: &Scan<'_>, at: usize, times: &HashMap<&[u8], (usize, usize)>) -> bool {
    let is_local = at > 0 && scan.token(at - 1) == Some(&Token::Word(Word::Local));
    let Some(Token::Name(name)) = scan.token(at + 1).filter(|_| is_local && is_function(scan, at))
    else {
        return false;
    };
    let is_other = |(count, place): &(usize, usize)| {
        *count == 2 && *place > at + 1 && is_registered(scan, *place) && !is_called(scan, *place)
    };
    times.get(name).is_some_and(is_other)
}

/// Returns whether the value at `at` is used for more than being passed on.
fn is_called(scan: &Scan<'_>, at: usize) -> bool {
    let next = scan.tokens.get(at + 1).map(|(_, place)| &scan.text[place.clone()]);
    !matches!(next, Some(b")" | b"," | b"}"))
}

/// Returns whether `redis.register_function('...', ` or, inside of `redis.register_function{`, `callback = ` comes
/// before `at`.
fn is_registered(scan: &Scan<'_>, at: usize) -> bool {
    let before = |tokens: usize| at.checked_sub(tokens);
    let token = |tokens: usize| before(tokens).and_then(|place| scan.token(place));
    let is_second = token(1) == Some(&Token::Sign(b','))
        && matches!(token(2), Some(Token::Text(_)))
        && token(3) == Some(&Token::Sign(b'('));
    if is_second {
        return before(4).is_some_and(|place| is_register_function(scan, place));
    }
    let is_field =
        token(1) == Some(&Token::Sign(b'=')) && token(2) == Some(&Token::Name(b"callback"));
    is_field
        && before(2).and_then(|place| opening_brace(scan, place)).is_some_and(|brace| {
            let before = |tokens: usize| brace.checked_sub(tokens);
            let is_in_parentheses =
                before(1).and_then(|place| scan.token(place)) == Some(&Token::Sign(b'('));
            let function = before(if is_in_parentheses { 2 } else { 1 });
            function.is_some_and(|place| is_register_function(scan, place))
        })
}

/// Returns the brace around `at`, if there are only fields without braces and functions before it.
fn opening_brace(scan: &Scan<'_>, at: usize) -> Option<usize> {
    let texts = (at.saturating_sub(FARTHEST_BRACE)..at).rev();
    let brace = texts
        .map(|place| (place, &scan.text[scan.place(place)]))
        .find(|(_, text)| matches!(*text, b"{" | b"}" | b"function" | b"end"));
    brace.filter(|(_, text)| *text == b"{").map(|(place, _)| place)
}

/// Returns whether this is the last token of `redis.register_function`.
fn is_register_function(scan: &Scan<'_>, at: usize) -> bool {
    at >= 2
        && scan.token(at) == Some(&Token::Name(b"register_function"))
        && scan.token(at - 1) == Some(&Token::Sign(b'.'))
        && scan.token(at - 2) == Some(&Token::Name(b"redis"))
        && !(at >= 3 && matches!(scan.token(at - 3), Some(Token::Sign(b'.'))))
}

fn is_function(scan: &Scan<'_>, at: usize) -> bool {
    scan.token(at) == Some(&Token::Foreign) && scan.text[scan.place(at)] == *b"function"
}

/// Returns the position of the first parameter of the function at `at`.
fn first_parameter(scan: &Scan<'_>, at: usize) -> Option<usize> {
    let open = (at + 1..at + 3).find(|place| scan.token(*place) == Some(&Token::Sign(b'(')))?;
    matches!(scan.token(open + 1), Some(Token::Name(_))).then_some(open + 1)
}

/// Maximum tokens in which to find the brace around a field.
const FARTHEST_BRACE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lua::step_budget::of;

    #[test]
    fn names_of_functions_are_not_looked_for_again_for_each() {
        let functions = |count: usize| {
            let define = |at| format!("local function f{at}(keys) end ");
            let register = |at| format!("redis.register_function('f{at}', f{at}) ");
            let text = (0..count).map(define).chain((0..count).map(register)).collect::<String>();
            of(|| assert!(!Scan::of_library(text.as_bytes()).makes_up_keys, "{count} functions"))
        };
        let [few, many] = [40, 800].map(functions);
        assert!(many < 25 * few, "{few} steps for 40 functions, {many} for 800");
    }

    #[test]
    fn keys_are_what_registered_functions_get() {
        let may = |text: &str| Scan::of_library(text.as_bytes()).makes_up_keys;
        for text in [
            "redis.register_function('f', function(keys, args) return redis.call('set', keys[1], args[1]) end)",
            "redis.register_function('f', function(k) redis.call('set', k[1], 1) return redis.call('del', k[2]) end)",
            "local function f(keys, args) redis.call('rpush', keys[1], unpack(args)) return #keys end \
             redis.register_function('f', f)",
            "local function f(keys) redis.call('incr', keys[1]) end \
             redis.register_function{function_name='f', callback=f, flags={'no-writes'}}",
            "redis.register_function{function_name='f', description='d', callback=function(keys) redis.call('incr', keys[1]) end}",
            "redis.register_function({callback=function(keys) local key = keys[1] redis.call('incr', key) end, function_name='f'})",
            "redis.register_function('f', function(keys) redis.call('incr', keys[1]) end) \
             redis.register_function('g', function(keys) redis.call('decr', keys[1]) end)",
            "redis.register_function('f', function(keys) return redis.sha1hex('x') end)",
        ] {
            assert!(!may(text), "{text}");
        }
        for text in [
            "redis.register_function('f', function(keys, args) redis.call('set', args[1], 1) end)",
            "redis.register_function('f', function(keys) redis.call('set', keys[1] .. 'x', 1) end)",
            "redis.register_function('f', function(keys) keys[1] = 'x' redis.call('incr', keys[1]) end)",
            "redis.register_function('f', function(keys) keys = {'x'} redis.call('incr', keys[1]) end)",
            "redis.register_function('f', function(keys) help(keys) redis.call('incr', keys[1]) end)",
            "redis.register_function('f', function(KEYS) redis.call(KEYS[1]) end)",
            "redis.register_function('f', function(keys) redis.call('incr', KEYS[1]) end)",
            "redis.register_function('f', function(keys) redis.call('incr', keys[1]) end) \
             redis.register_function('g', function(other) redis.call('decr', other[1]) end)",
            "local function h(keys) redis.call('incr', keys[1]) end \
             redis.register_function('f', function(keys) h({'x'}) end)",
            "local function f(keys) redis.call('incr', keys[1]) end \
             redis.register_function('f', f) redis.register_function('g', function(keys) f({'x'}) end)",
            "local function f(keys) redis.call('incr', keys[1]) if keys[2] then f({'x'}) end end redis.register_function('f', f)",
            "local function f(keys) redis.call('incr', keys[1]) end redis.register_function('f', f({'x'}))",
            "function f(keys) redis.call('incr', keys[1]) end redis.register_function('f', f)",
            "local callback = function(keys) redis.call('incr', keys[1]) end callback({'x'})",
            "local t = {callback = function(keys) redis.call('incr', keys[1]) end} t.callback({'x'})",
            "local redis = {register_function = function(n, f) f({'x'}) end} \
             redis.register_function('f', function(keys) redis.call('incr', keys[1]) end)",
            "x.redis.register_function('f', function(keys) redis.call('incr', keys[1]) end)",
            "redis.register_function('f', function(keys) for _, keys in f() do redis.call('incr', keys[1]) end end)",
            "redis.register_function('f', function(keys) local keys = {'x'} redis.call('incr', keys[1]) end)",
            "redis.register_function('f', function(keys, keys) redis.call('incr', keys[1]) end)",
            "redis.register_function('f', function(keys) (function(keys) redis.call('incr', keys[1]) end)({'x'}) end)",
            "local register = redis.register_function register('f', function(keys) redis.call('incr', keys[1]) end)",
            "redis.register_function('f', function(keys) loadstring('x')() redis.call('incr', keys[1]) end)",
        ] {
            assert!(may(text), "{text}");
        }
    }
}
