//! Whether a script can use undeclared keys, as far as its text shows.

use std::collections::{HashMap, HashSet};

use super::{LONGEST_INDEX, Scan, Token, Word};
use crate::catalogue::table;
use crate::lua::step_budget::steps;

impl Scan<'_> {
    /// Returns whether some command is called with a key that is neither an element of `KEYS`, nor a local that stands
    /// for one.
    pub(super) fn may_make_up_keys(&self) -> bool {
        if self.is_dynamic || self.has_other_keys {
            return true;
        }
        let stands_for = self.stand_for_keys();
        let is_call = |at: &usize| self.token(*at) == Some(&Token::Name(b"redis"));
        (0..self.tokens.len()).filter(is_call).any(|at| self.calls_with_other(at, &stands_for))
    }

    /// Returns whether the call with `redis` at `at` may have another key.
    fn calls_with_other(&self, at: usize, stands_for: &HashSet<&[u8]>) -> bool {
        let runs = matches!(self.token(at + 2), Some(Token::Name(b"call" | b"pcall")));
        let Some(Token::Text(name)) = self.token(at + 4).filter(|_| runs) else { return false };
        let Some(spec) = table::lookup(name) else { return true };
        if spec.flags.contains(&"movablekeys") || spec.name == "select" {
            return true;
        }
        let Ok(first) = usize::try_from(spec.first_key) else { return true };
        if first == 0 {
            return false;
        }
        let Some(arguments) = self.arguments(at + 3) else { return true };
        let last = match usize::try_from(spec.last_key) {
            Ok(last) => last,
            Err(_) if self.may_be_many(arguments.last()) => return true,
            Err(_) => arguments.len().saturating_sub(spec.last_key.unsigned_abs().into()),
        };
        let step = usize::try_from(spec.step).unwrap_or(1).max(1);
        let mut keys = (first..=last).step_by(step);
        !keys.all(|key| arguments.get(key).is_some_and(|it| self.is_of_keys(it, stands_for)))
    }

    /// Returns the arguments of a call with its parenthesis at `open`: first and last token of each. `None` if the call
    /// is not closed, or too long.
    pub(super) fn arguments(&self, open: usize) -> Option<Vec<(usize, usize)>> {
        let close = self.closing.get(open).copied().flatten()?;
        if close - open > LONGEST_CALL {
            return None;
        }
        let (mut arguments, mut start, mut depth) = (Vec::new(), open + 1, 0_usize);
        for at in open + 1..=close {
            steps(1);
            match self.text[self.place(at)] {
                [b'(' | b'[' | b'{'] => depth += 1,
                [b')' | b']' | b'}'] if at < close => depth = depth.saturating_sub(1),
                [b',' | b')'] if depth == 0 => {
                    arguments.push((start, at - 1));
                    start = at + 1;
                }
                _ => {}
            }
        }
        Some(arguments)
    }

    /// Returns whether an argument may stand for several: a call, or `...`.
    fn may_be_many(&self, argument: Option<&(usize, usize)>) -> bool {
        argument.is_none_or(|(_, end)| matches!(self.text[self.place(*end)], [b')' | b'.' | b'}']))
    }

    /// Returns whether these tokens are `KEYS[...]`, or a name that stands for that.
    fn is_of_keys(&self, (start, end): &(usize, usize), stands_for: &HashSet<&[u8]>) -> bool {
        match self.token(*start) {
            Some(Token::Name(name)) if *name == self.keys => {
                self.end_of_element(*start) == Some(*end)
            }
            Some(Token::Name(name)) => start == end && stands_for.contains(name),
            _ => false,
        }
    }

    /// Returns the bracket that closes `KEYS[...]` at `at`.
    fn end_of_element(&self, at: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for place in at + 1..=at + LONGEST_INDEX {
            match self.token(place) {
                Some(Token::Sign(b'[')) => depth += 1,
                _ if depth == 0 => return None,
                Some(Token::Sign(b']')) => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(place);
            }
        }
        None
    }

    /// Returns names that are set once, by `local name = KEYS[...]`, and stand for that everywhere.
    fn stand_for_keys(&self) -> HashSet<&[u8]> {
        let names: HashSet<&[u8]> = self.locals.iter().map(|name| self.text(*name)).collect();
        let times = self.times_set(&names);
        names.into_iter().filter(|name| times.get(name) == Some(&1)).collect()
    }

    /// Returns the names of every `local name, ... = KEYS[...], ...`, and the `KEYS` that they are set to, by their
    /// positions.
    pub(super) fn locals_of_keys(&self) -> (HashSet<usize>, HashSet<usize>) {
        let is_local = |at: &usize| self.token(*at) == Some(&Token::Word(Word::Local));
        (0..self.tokens.len()).filter(is_local).flat_map(|at| self.set_to_keys(at + 1)).unzip()
    }

    fn set_to_keys(&self, first: usize) -> Vec<(usize, usize)> {
        let (mut names, mut at) = (vec![first], first + 1);
        while self.token(at) == Some(&Token::Sign(b',')) {
            names.push(at + 1);
            at += 2;
        }
        let mut set = Vec::new();
        for name in names {
            // After the names, and then after each element.
            let separator = if set.is_empty() { b'=' } else { b',' };
            let is_name = matches!(self.token(name), Some(Token::Name(_)));
            let is_element =
                self.token(at) == Some(&Token::Sign(separator)) && self.is_keys(at + 1);
            let Some(end) = self.end_of_element(at + 1).filter(|_| is_name && is_element) else {
                return Vec::new();
            };
            set.push((name, at + 1));
            at = end + 1;
        }
        if self.is_over(at) { set } else { Vec::new() }
    }

    /// Returns whether the token at `at` is an argument of a call, or otherwise in parentheses, so that nothing can be
    /// assigned to it.
    pub(super) fn is_argument(&self, at: usize) -> bool {
        let mut depth = 0_usize;
        for before in (at.saturating_sub(FARTHEST_PARENTHESIS)..at).rev() {
            match self.text[self.place(before)] {
                [b')'] => depth += 1,
                [b'('] if depth == 0 => return true,
                [b'('] => depth -= 1,
                _ if matches!(self.token(before), Some(Token::Word(_) | Token::Sign(b'='))) => {
                    return false;
                }
                _ if self.is_reserved(before, &["function", "do", "repeat"]) => return false,
                _ => {}
            }
        }
        false
    }

    fn text(&self, at: usize) -> &[u8] {
        &self.text[self.place(at)]
    }

    /// Returns whether an expression ends before this token.
    fn is_over(&self, at: usize) -> bool {
        match self.token(at) {
            None | Some(Token::Name(_) | Token::Sign(b';')) => true,
            Some(Token::Word(word)) => !matches!(word, Word::And | Word::Or),
            _ => self
                .is_reserved(at, &["for", "while", "repeat", "function", "do", "until", "break"]),
        }
    }

    fn is_reserved(&self, at: usize, words: &[&str]) -> bool {
        self.tokens.get(at).is_some_and(|(_, place)| {
            words.iter().any(|word| self.text[place.clone()] == *word.as_bytes())
        })
    }

    /// Returns how often each of these names is set, by a local, an assignment, a loop or a function. A name counts
    /// twice if that cannot be determined.
    fn times_set<'a>(&'a self, names: &HashSet<&[u8]>) -> HashMap<&'a [u8], usize> {
        let (mut depth, mut in_head) = (0_usize, false);
        let mut times = HashMap::new();
        for at in 0..self.tokens.len() {
            match self.text(at) {
                [b'(' | b'[' | b'{'] => depth += 1,
                [b')' | b']' | b'}'] => depth = depth.saturating_sub(1),
                _ => {}
            }
            if self.is_reserved(at, &["for", "function"]) {
                in_head = true;
            } else if in_head && (self.is_reserved(at, &["do", "in", ")", "="])) {
                in_head = false;
            }
            if let Some(Token::Name(name)) = self.token(at)
                && names.contains(name)
            {
                *times.entry(self.text(at)).or_default() += self.sets(at, in_head, depth);
            }
        }
        times
    }

    /// Returns how often the name at `at` is set there.
    fn sets(&self, at: usize, in_head: bool, depth: usize) -> usize {
        let is_listed = depth == 0 && self.token(at + 1) == Some(&Token::Sign(b','));
        if self.locals.contains(&at) {
            return 1;
        }
        if in_head || is_listed {
            return 2;
        }
        let is_field = at > 0 && matches!(self.token(at - 1), Some(Token::Sign(b'.')));
        usize::from(!is_field && self.token(at + 1) == Some(&Token::Sign(b'=')))
    }
}

/// Maximum tokens in which to find the parenthesis around an argument.
const FARTHEST_PARENTHESIS: usize = 64;

/// Maximum tokens of a call whose arguments are read. Calls can be nested in the arguments of others.
const LONGEST_CALL: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_up_unless_they_are_elements_of_keys() {
        let may = |text: &str| Scan::of(text.as_bytes()).may_make_up_keys();
        for text in [
            "redis.call('set', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[2])",
            "local key = KEYS[1] redis.call('set', key, 1) return redis.call('del', KEYS[1], key)",
            "local a, b = KEYS[1], KEYS[2] return redis.call('lmove', a, b, 'LEFT', 'LEFT')",
            "local key = KEYS[1]; for i = 1, 3 do redis.call('rpush', key, i) end",
            "return redis.call('publish', ARGV[1], ARGV[2])",
            "redis.call('rename', KEYS[1], KEYS[2]) redis.call('hset', KEYS[1], unpack(ARGV))",
            "redis.call('mset', KEYS[1], f(1), KEYS[2], 'x')",
        ] {
            assert!(!may(text), "{text}");
        }
        for text in [
            "redis.call('set', 'x', 1)",
            "redis.call('set', KEYS[1] .. ':x', 1)",
            "redis.call('set', ARGV[1], 1)",
            "redis.call('del', KEYS[1], ARGV[1])",
            "redis.call('del', unpack(ARGV))",
            "redis.call('rename', KEYS[1], other)",
            "local key = KEYS[1] .. 'x' redis.call('set', key, 1)",
            "local key = KEYS[1] key = ARGV[1] redis.call('set', key, 1)",
            "local key = KEYS[1] for key in f() do redis.call('set', key, 1) end",
            "local key = KEYS[1] local function f(key) redis.call('set', key, 1) end f('x')",
            "local key = KEYS[1] local x, key = 1, ARGV[1] redis.call('set', key, 1)",
            "local key = KEYS[1] key, x = ARGV[1] redis.call('set', key, 1)",
            "local a, b = KEYS[1] redis.call('del', b)",
            "local a, b = KEYS[1], KEYS[2] b = 'x' redis.call('del', b)",
            "f(function() KEYS[1], x = 'x' end) redis.call('del', KEYS[1])",
            "local key = KEYS[1] or 'x' redis.call('set', key, 1)",
            "redis.call('zunionstore', KEYS[1], 1, KEYS[2])",
            "redis.call('select', 1) redis.call('set', KEYS[1], 1)",
            "redis.call(ARGV[1], KEYS[1])",
            "redis.call('set', KEYS[1]",
            "local key = KEYS] redis.call('set', key, 1)",
            "redis.call('set', KEYS], 1)",
        ] {
            assert!(may(text), "{text}");
        }
    }
}
