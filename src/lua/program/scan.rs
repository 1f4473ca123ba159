//! Analysis of a script without running it: the commands that it names, and their positions.

mod declared;
mod library;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use super::handlers::{Handler, cheap, handler, only_reads};
use crate::catalogue::table;
use crate::lua::lexer::{Token, Word, placed_tokens};
use crate::lua::step_budget::steps;

/// Result of the analysis.
#[derive(Debug, Default)]
pub(super) struct Scan<'a> {
    /// Commands that it calls, in its own spelling.
    pub(super) handlers: BTreeMap<String, Handler>,
    /// Commands for which some call in the script must go through a handler.
    pub(super) careful: BTreeMap<String, Handler>,
    /// Functions of `cheap.lua` for some of these calls, if they are of the only key of a program.
    pub(super) cheap: BTreeSet<&'static str>,
    /// Whether other calls have no such function.
    pub(super) has_others: bool,
    /// Whether it may call other commands.
    pub(super) is_dynamic: bool,
    /// Whether it may use random numbers.
    pub(super) draws: bool,
    /// Whether it may use `cjson`, or set its fields.
    pub(super) uses_json: bool,
    /// Whether it may use undeclared keys after it has written to others.
    pub(super) makes_up_keys: bool,
    /// Whether it uses a name through which it could find the real `redis`.
    pub(super) sees_globals: bool,
    /// Whether `select` is Lua's own in the whole script.
    select_is_lua: bool,
    /// Replacements in the text.
    edits: Vec<Edit>,
    /// Positions of the names of locals that are set to elements of `KEYS`.
    locals: HashSet<usize>,
    /// Positions of the `KEYS` that those are set to.
    keys_of_locals: HashSet<usize>,
    /// Whether it does more with `KEYS` than read its elements, so that its content is unknown.
    has_other_keys: bool,
    /// The equivalent for `ARGV`.
    pub(super) has_other_arguments: bool,
    /// Name of the table of its keys: `KEYS`, or in a library the first parameter of its functions.
    keys: &'a [u8],
    /// Positions of those parameters.
    parameters: HashSet<usize>,
    tokens: Vec<(Token<'a>, Range<usize>)>,
    /// Closing parenthesis for each token that opens one.
    closing: Vec<Option<usize>>,
    text: &'a [u8],
}

/// Maximum length of a text to read. A longer one runs on any master without this analysis, and its length alone shows
/// nothing about its calls. The longest scripts of libraries, those of BullMQ with all that they include, have some 30
/// kB.
pub(super) const MAX_TEXT_BYTES: usize = 64 * 1024;

impl<'a> Scan<'a> {
    /// Analyses `text`, in time linear in its length. For a text that cannot be read, it assumes the worst.
    pub(super) fn of(text: &'a [u8]) -> Self {
        Self::of_text(text, |scan| scan.keys = b"KEYS")
    }

    /// Analyses the text of a library.
    pub(super) fn of_library(text: &'a [u8]) -> Self {
        Self::of_text(text, |scan| (scan.keys, scan.parameters) = library::parameters(scan))
    }

    fn of_text(text: &'a [u8], name_keys: impl FnOnce(&mut Self)) -> Self {
        let tokens = Some(text).filter(|text| text.len() <= MAX_TEXT_BYTES).and_then(placed_tokens);
        tokens.map_or_else(Self::unread, |tokens| Self::read(text, tokens, name_keys))
    }

    fn unread() -> Self {
        let (is_dynamic, draws, uses_json) = (true, true, true);
        let (makes_up_keys, sees_globals) = (true, true);
        Self { is_dynamic, draws, uses_json, makes_up_keys, sees_globals, ..Self::default() }
    }

    fn read(
        text: &'a [u8],
        tokens: Vec<(Token<'a>, Range<usize>)>,
        name_keys: impl FnOnce(&mut Self),
    ) -> Self {
        let closing = closing(&tokens);
        let mut scan = Self { tokens, closing, text, ..Self::default() };
        name_keys(&mut scan);
        scan.select_is_lua = scan.has_select();
        (scan.locals, scan.keys_of_locals) = scan.locals_of_keys();
        let places = 0..scan.tokens.len();
        scan.has_other_keys = places.clone().any(|at| scan.is_keys(at) && scan.may_change(at));
        let is_argv = |at: &usize| scan.token(*at) == Some(&Token::Name(b"ARGV"));
        scan.has_other_arguments = places.filter(is_argv).any(|at| scan.may_change(at));
        for at in 0..scan.tokens.len() {
            scan.look_at(at);
        }
        scan.makes_up_keys = scan.may_make_up_keys();
        scan
    }

    /// Returns the text with every `return redis.call(...)` as `return (redis.call(...))`. Lua forgets the caller of a
    /// tail call, so an error could not name the line that failed. `load` gets the same treatment.
    ///
    /// If the script names all its commands, `redis.call('set'` becomes `careful.set(redis.call,'set'`, and reads stay
    /// as they are. With `is_cheap`, calls that are often of one key go through functions for that. Numbers among the
    /// arguments then become strings.
    pub(super) fn rewritten(&self, text: &[u8], is_cheap: bool) -> Vec<u8> {
        let mut edits: Vec<&Edit> = self.edits.iter().collect();
        edits.retain(|edit| edit.place.is_empty() || !self.is_dynamic);
        edits.sort_by_key(|edit| edit.place.start);
        let mut rewritten = Vec::with_capacity(text.len());
        let mut copied = 0;
        for Edit { place, text: new, cheap } in edits {
            let new = cheap.as_ref().filter(|_| is_cheap).unwrap_or(new);
            rewritten.extend_from_slice(&text[copied..place.start]);
            rewritten.extend_from_slice(new.as_bytes());
            copied = place.end;
        }
        rewritten.extend_from_slice(&text[copied..]);
        rewritten
    }

    fn look_at(&mut self, at: usize) {
        match self.token(at) {
            Some(Token::Name(b"_G" | b"load" | b"loadstring" | b"server")) => {
                (self.sees_globals, self.is_dynamic) = (true, true);
                (self.draws, self.uses_json) = (true, true);
            }
            Some(Token::Name(b"math")) => self.draws = true,
            Some(Token::Name(b"cjson")) => self.uses_json = true,
            // A name of the proxy, in a script that names all its commands.
            Some(Token::Name(name)) if name.starts_with(b"careful") => self.is_dynamic = true,
            Some(Token::Name(b"redis")) => match self.called_command(at) {
                Called::Named(name) => self.names(at, name),
                Called::Harmless => {}
                Called::Unknown => self.is_dynamic = true,
            },
            Some(Token::Word(Word::Return)) => {
                if let Some((Range { start, end }, open)) = self.tail_call(at + 1) {
                    self.edit(start..start, open);
                    self.edit(end..end, ")");
                }
            }
            _ => {}
        }
    }

    /// Records a call of this command, with `redis` at `at`.
    fn names(&mut self, at: usize, name: String) {
        let Some(handler) = handler(&name) else {
            self.is_dynamic = true;
            return;
        };
        if !only_reads(handler) || !self.reads_declared_key(at + 3, &name) {
            self.careful.insert(name.clone(), handler);
            let call = self.place(at).start..self.place(at + 3).end;
            let function = String::from_utf8_lossy(&self.text[self.place(at + 2)]);
            let lines = self.text[call.clone()].iter().filter(|byte| **byte == b'\n').count();
            steps(call.len());
            let rest = format!("{}redis.{function},", "\n".repeat(lines));
            let cheap =
                cheap(&name).filter(|it| it.words.is_none_or(|it| self.has_words(at + 3, it)));
            self.has_others |= cheap.is_none();
            self.cheap.extend(cheap.as_ref().map(|it| it.function));
            self.edits.push(Edit {
                place: call,
                text: format!("careful.{name}({rest}"),
                cheap: cheap.map(|it| format!("careful_{}({}{rest}", it.function, it.first)),
            });
        }
        self.handlers.insert(name, handler);
        self.spell_numbers(at + 3);
    }

    /// Replaces numbers among the arguments of a call by strings. Otherwise masters format each number with `printf` on
    /// every call.
    fn spell_numbers(&mut self, open: usize) {
        for (start, end) in self.arguments(open).unwrap_or_default() {
            let is_negative = start + 1 == end
                && matches!(self.token(start), Some(Token::Sign(b'-')))
                && self.place(start).end == self.place(end).start;
            match self.token(end) {
                Some(Token::Number(number)) if start == end || is_negative => {
                    let sign = if is_negative { "-" } else { "" };
                    let word = format!("'{sign}{number}'");
                    self.edit(self.place(start).start..self.place(end).end, word);
                }
                _ => {}
            }
        }
    }

    /// Returns whether a read, whose arguments begin at the parenthesis `open`, can only touch a declared key. The
    /// proxy has checked those.
    fn reads_declared_key(&self, open: usize, name: &str) -> bool {
        let Some(spec) = table::lookup(name.as_bytes()) else { return false };
        match (spec.first_key, spec.last_key) {
            (0, 0) => !spec.flags.contains(&"movablekeys"),
            (1, 1) => {
                let moves = spec.flags.contains(&"movablekeys");
                !moves && !self.has_other_keys && self.is_declared(open + 2)
            }
            _ => false,
        }
    }

    /// Returns whether `, KEYS[1]` and the end of the argument follow.
    fn is_declared(&self, comma: usize) -> bool {
        let is_sign = |at, sign| matches!(self.token(at), Some(Token::Sign(it)) if *it == sign);
        is_sign(comma, b',')
            && self.is_keys(comma + 1)
            && is_sign(comma + 2, b'[')
            && matches!(self.token(comma + 3), Some(Token::Number(_)))
            && is_sign(comma + 4, b']')
            && (is_sign(comma + 5, b',') || is_sign(comma + 5, b')'))
    }

    /// Returns whether the table named at `at`, `KEYS` or `ARGV`, may be written to there, passed on or replaced. An
    /// element in a list may be assigned to, unless it is the first argument of a command.
    fn may_change(&self, at: usize) -> bool {
        if self.parameters.contains(&at) {
            return false;
        }
        let before = |tokens: usize| at.checked_sub(tokens).and_then(|at| self.token(at));
        let is_counted = at > 0 && self.text[self.place(at - 1)] == *b"#";
        if self.keys_of_locals.contains(&at) {
            return false;
        }
        let is_of_call = matches!(before(4), Some(Token::Name(b"call" | b"pcall")))
            && matches!(before(3), Some(Token::Sign(b'(')))
            && matches!(before(2), Some(Token::Text(_)));
        if is_counted || is_of_call && self.is_declared(at - 1) {
            return false;
        }
        let is_element = matches!(self.token(at + 1), Some(Token::Sign(b'[')));
        let close = (at + 2..at + 2 + LONGEST_INDEX)
            .find(|place| matches!(self.token(*place), Some(Token::Sign(b']'))));
        let after = close.and_then(|close| self.token(close + 1));
        let may_be_set =
            matches!(after, None | Some(Token::Sign(b'=' | b',' | b'.' | b'[' | b']')));
        !is_element || may_be_set && !self.is_argument(at)
    }

    /// Returns whether the call has this many words between its parentheses, the first of which is at `open`. If the
    /// last one is a call, its number of values is unknown.
    fn has_words(&self, open: usize, words: usize) -> bool {
        let Some(arguments) = self.arguments(open) else { return false };
        let Some((_, end)) = arguments.last() else { return false };
        let is_one = !matches!(self.token(*end), Some(Token::Sign(b')' | b'}' | b'.')))
            && !matches!(self.token(*end), Some(Token::Text(_)));
        arguments.len() == words && is_one
    }

    fn edit(&mut self, place: Range<usize>, text: impl Into<String>) {
        self.edits.push(Edit { place, text: text.into(), cheap: None });
    }

    /// Returns how the `redis` at `at` is used.
    fn called_command(&self, at: usize) -> Called {
        if at > 0 && matches!(self.token(at - 1), Some(Token::Sign(b'.' | b':'))) {
            return Called::Unknown;
        }
        match (self.token(at + 1), self.token(at + 2)) {
            (Some(Token::Sign(b'.')), Some(Token::Name(b"call" | b"pcall"))) => {}
            (Some(Token::Sign(b'.')), Some(Token::Name(_))) => return Called::Harmless,
            _ => return Called::Unknown,
        }
        match (self.token(at + 3), self.token(at + 4), self.token(at + 5)) {
            (Some(Token::Sign(b'(')), Some(Token::Text(name)), Some(Token::Sign(b',' | b')')))
                if name.iter().all(u8::is_ascii_alphabetic) =>
            {
                Called::Named(String::from_utf8_lossy(name).into_owned())
            }
            _ => Called::Unknown,
        }
    }

    /// Returns the call that is returned here, if nothing else is, and the text that keeps it from being a tail call.
    fn tail_call(&self, at: usize) -> Option<(Range<usize>, &'static str)> {
        let (open, before) = match (self.token(at), self.token(at + 1), self.token(at + 2)) {
            (Some(Token::Name(b"redis")), Some(Token::Sign(b'.')), Some(Token::Name(b"call"))) => {
                (at + 3, "(")
            }
            // These are functions of the proxy, in Lua and not in C as in Redis, and some return two values.
            (Some(Token::Name(b"load" | b"loadstring")), ..) if self.select_is_lua => {
                (at + 1, "select(1,")
            }
            _ => return None,
        };
        let is_call = self.token(open) == Some(&Token::Sign(b'('));
        let close = self.closing.get(open).copied().flatten().filter(|_| is_call)?;
        let ends = match self.tokens.get(close + 1) {
            None => true,
            Some((Token::Sign(b';') | Token::Word(Word::End | Word::Else | Word::Elseif), _)) => {
                true
            }
            Some((_, place)) => self.text[place.clone()] == *b"until",
        };
        ends.then(|| (self.place(at).start..self.place(close).end, before))
    }

    /// Returns whether the script only calls `select`, and does not define it as a function.
    fn has_select(&self) -> bool {
        (0..self.tokens.len()).filter(|at| self.token(*at) == Some(&Token::Name(b"select"))).all(
            |at| {
                let is_called = self.token(at + 1) == Some(&Token::Sign(b'('));
                is_called && (at == 0 || &self.text[self.place(at - 1)] != b"function")
            },
        )
    }

    /// Returns whether the token at `at` names the table of its keys.
    fn is_keys(&self, at: usize) -> bool {
        matches!(self.token(at), Some(Token::Name(name)) if *name == self.keys)
    }

    fn token(&self, at: usize) -> Option<&Token<'a>> {
        steps(1);
        self.tokens.get(at).map(|(token, _)| token)
    }

    fn place(&self, at: usize) -> Range<usize> {
        self.tokens[at].1.clone()
    }
}

/// Returns the closing parenthesis for each token that opens one.
fn closing(tokens: &[(Token<'_>, Range<usize>)]) -> Vec<Option<usize>> {
    let (mut open, mut closing) = (Vec::new(), vec![None; tokens.len()]);
    for (at, (token, _)) in tokens.iter().enumerate() {
        steps(1);
        match token {
            Token::Sign(b'(') => open.push(at),
            Token::Sign(b')') => {
                if let Some(open) = open.pop() {
                    closing[open] = Some(at);
                }
            }
            _ => {}
        }
    }
    closing
}

/// Maximum tokens in which to find the end of `KEYS[...]`.
const LONGEST_INDEX: usize = 16;

/// Replacement of a part of the script.
#[derive(Debug)]
struct Edit {
    place: Range<usize>,
    text: String,
    /// Replacement in a script that is mostly about one key.
    cheap: Option<String>,
}

/// Use of `redis` in a script.
enum Called {
    /// Call of the command with this name.
    Named(String),
    /// Use of a function that runs no command.
    Harmless,
    /// Call of a command whose name is not in the text, or use of `redis` as a value.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        let scan = Scan::of(text.as_bytes());
        String::from_utf8(scan.rewritten(text.as_bytes(), false)).expect("text")
    }

    #[test]
    fn commands_are_found_in_their_own_spelling() {
        let scan =
            Scan::of(b"local x = redis.call('GET', k) redis.pcall(\"Del\", k) redis.sha1hex('x')");
        let names: Vec<_> = scan.handlers.keys().map(String::as_str).collect();
        assert_eq!((names, scan.is_dynamic), (vec!["Del", "GET"], false));
    }

    #[test]
    fn what_is_not_written_there_makes_a_script_dynamic() {
        for text in [
            "redis.call(ARGV[1], 'x')",
            "local call = redis.call",
            "local r = redis",
            "redis['call']('get', 'x')",
            "redis.call('g' .. 'et', 'x')",
            "redis.call('nonsense')",
            "redis.call 'ping'",
            "local g = _G",
            "tools.redis.call('set', 'x', 'y')",
            "local careful = redis.call('get', 'x')",
            "'unfinished",
        ] {
            assert!(Scan::of(text.as_bytes()).is_dynamic, "{text}");
        }
    }

    #[test]
    fn tail_calls_are_put_in_parentheses() {
        let inner = "redis.call('get', KEYS[1], tostring((1)))";
        for (before, after) in [("return ", ""), ("if x then return ", " end"), ("return ", ";")] {
            let text = format!("{before}{inner}{after}");
            assert_eq!(rewritten(&text), format!("{before}({inner}){after}"));
        }
        for (text, expected) in [
            ("return load('x')", "return select(1,load('x'))"),
            ("return loadstring(x, 'y') end", "return select(1,loadstring(x, 'y')) end"),
            ("local select = 1 return load('x')", "local select = 1 return load('x')"),
            ("function select() end return load('x')", "function select() end return load('x')"),
        ] {
            assert_eq!(rewritten(text), expected);
        }
        let (compared, pcall) =
            ("return redis.call('get', KEYS[1]) == 1", "return redis.pcall('get', KEYS[1])");
        for text in [compared, pcall, "return x"] {
            assert_eq!(rewritten(text), text);
        }
    }

    /// All other calls are checked for names that only the proxy may use.
    #[test]
    fn reads_of_declared_keys_stay_as_they_are() {
        let is_bare = |text: &str| {
            let scan = Scan::of(text.as_bytes());
            scan.careful.is_empty() && !scan.is_dynamic
        };
        for text in [
            "redis.call('get', KEYS[1])",
            "redis.call('hmget', KEYS[1], 'a', ARGV[1])",
            "return redis.call('get', KEYS[2]) == ARGV[#KEYS]",
            "redis.call('ping') return KEYS[i]",
        ] {
            assert!(is_bare(text), "{text}");
        }
        for text in [
            "redis.call('get', 'redlock-proxy:mark')",
            "redis.call('get', ARGV[1])",
            "redis.call('get', KEYS[1] .. ARGV[1])",
            "redis.call('get', KEYS[i])",
            "redis.call('mget', KEYS[1], ARGV[1])",
            "redis.call('sintercard', 1, KEYS[1])",
            "redis.call('sort_ro', KEYS[1], 'by', ARGV[1])",
            "KEYS[1] = ARGV[1] redis.call('get', KEYS[1])",
            "KEYS[t[1]] = ARGV[1] redis.call('get', KEYS[1])",
            "a, KEYS[1], b = b, a, ARGV[1] redis.call('get', KEYS[1])",
            "local KEYS = ARGV redis.call('get', KEYS[1])",
            "table.insert(KEYS, ARGV[1]) redis.call('get', KEYS[1])",
            "for i, KEYS in pairs(ARGV) do redis.call('get', KEYS[1]) end",
        ] {
            assert!(!is_bare(text), "{text}");
        }
    }

    #[test]
    fn calls_of_one_key_are_cheap_on_registers() {
        let cheap = |text: &str| {
            let scan = Scan::of(text.as_bytes());
            let rewritten = scan.rewritten(text.as_bytes(), true);
            (String::from_utf8(rewritten).expect("text"), scan.has_others)
        };
        for (text, expected) in [
            ("redis.call('HSET', k, f(), 1)", "careful_grow('h',redis.call,'HSET', k, f(), '1')"),
            (
                "redis.pcall('expire', k, t[1])",
                "careful_expire(1000,redis.pcall,'expire', k, t[1])",
            ),
            ("redis.call('exists', KEYS[1])", "careful_exists(redis.call,'exists', KEYS[1])"),
            ("redis.call('pttl', k)", "careful_pttl(redis.call,'pttl', k)"),
        ] {
            assert_eq!(cheap(text), (expected.to_owned(), false));
        }
        for text in [
            "redis.call('exists', KEYS[1], KEYS[2])",
            "redis.call('exists', unpack(KEYS))",
            "redis.call('exists', ...)",
            "redis.call('pttl')",
            "redis.call('pexpire', k, 1, 'NX')",
            "redis.call('pexpire', k, times())",
            "redis.call('set', k, 1)",
        ] {
            let (rewritten, has_others) = cheap(text);
            assert!(rewritten.starts_with("careful.") && has_others, "{rewritten}");
        }
        assert!(Scan::of(b"local careful_grow = redis.call('get', 'x')").is_dynamic);
    }

    #[test]
    fn only_calls_that_need_care_are_made_elsewhere() {
        let text =
            "return redis.call('GET', KEYS[1]) or redis.pcall(\"Set\", k, redis.call( 'incr', k))";
        let expected = "return redis.call('GET', KEYS[1]) or \
                        careful.Set(redis.pcall,\"Set\", k, careful.incr(redis.call, 'incr', k))";
        assert_eq!(rewritten(text), expected);
        let tail = "return redis.call('set', KEYS[1], 1)";
        assert_eq!(rewritten(tail), "return (careful.set(redis.call,'set', KEYS[1], '1'))");
        let three_lines = "redis.\n-- Why?\npcall('set', KEYS[1], 1)";
        assert_eq!(rewritten(three_lines), "careful.set(\n\nredis.pcall,'set', KEYS[1], '1')");
        let dynamic = "redis.call('set', k, 1) redis.call(ARGV[1])";
        assert_eq!(rewritten(dynamic), dynamic);
    }

    #[test]
    fn numbers_that_commands_are_given_are_words() {
        for (text, expected) in [
            ("redis.call('lrange', KEYS[1], 0, -1)", "redis.call('lrange', KEYS[1], '0', '-1')"),
            ("redis.call('lindex', KEYS[1], 010)", "redis.call('lindex', KEYS[1], '10')"),
        ] {
            assert_eq!(rewritten(text), expected);
        }
        for arguments in
            ["1 + 1", "1.5", "0x10", "1e3", "x[1]", "-x", "f(1)", "- -1", "-\n1", "(1)"]
        {
            let text = format!("redis.call('lindex', KEYS[1], {arguments})");
            assert_eq!(rewritten(&text), text);
        }
    }
}
