//! What can be said about a script without running it: which commands it names, and where.

use std::collections::BTreeMap;
use std::ops::Range;

use super::handlers::{Handler, READ, handler};
use crate::lua::lexer::{Token, Word, placed_tokens};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Scan<'a> {
    /// The commands it calls, in its own spelling.
    pub(super) handlers: BTreeMap<String, Handler>,
    /// It may call commands that are not among those.
    pub(super) is_dynamic: bool,
    /// It may use random numbers.
    pub(super) draws: bool,
    /// It uses a name through which it could find the real `redis`.
    pub(super) sees_globals: bool,
    /// What has to stand in other places than the script has it.
    edits: Vec<Edit>,
    tokens: Vec<(Token<'a>, Range<usize>)>,
    text: &'a [u8],
}

impl<'a> Scan<'a> {
    /// Looks at `text`. Of a text that cannot be read the worst is supposed.
    pub(super) fn of(text: &'a [u8]) -> Self {
        let Some(tokens) = placed_tokens(text) else {
            return Self { is_dynamic: true, draws: true, sees_globals: true, ..Self::default() };
        };
        let mut scan = Self { tokens, text, ..Self::default() };
        for at in 0..scan.tokens.len() {
            scan.look_at(at);
        }
        scan
    }

    /// The text with every `return redis.call(...)` as `return (redis.call(...))`: Lua forgets who has
    /// made a tail call, and then it could not be said in which line it has failed. If it names all its
    /// commands, `redis.call('set'` is `careful.set(redis.call,'set'`, and reads stay as they are.
    pub(super) fn rewritten(&self, text: &[u8]) -> Vec<u8> {
        let mut edits: Vec<&Edit> = self.edits.iter().collect();
        edits.retain(|edit| edit.place.is_empty() || !self.is_dynamic);
        edits.sort_by_key(|edit| edit.place.start);
        let mut rewritten = Vec::with_capacity(text.len());
        let mut copied = 0;
        for Edit { place, text: new, .. } in edits {
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
                (self.sees_globals, self.is_dynamic, self.draws) = (true, true, true);
            }
            Some(Token::Name(b"math")) => self.draws = true,
            // Ours, in a script that names all its commands.
            Some(Token::Name(b"careful")) => self.is_dynamic = true,
            Some(Token::Name(b"redis")) => match self.called_command(at) {
                Called::Named(name) => self.names(at, name),
                Called::Harmless => {}
                Called::Unknown => self.is_dynamic = true,
            },
            Some(Token::Word(Word::Return)) => {
                if let Some(Range { start, end }) = self.tail_call(at + 1) {
                    self.edit(start..start, "(");
                    self.edit(end..end, ")");
                }
            }
            _ => {}
        }
    }

    /// It calls this command, with `redis` at `at`.
    fn names(&mut self, at: usize, name: String) {
        let Some(handler) = handler(&name) else {
            self.is_dynamic = true;
            return;
        };
        if handler != READ {
            let call = self.place(at).start..self.place(at + 3).end;
            let function = String::from_utf8_lossy(&self.text[self.place(at + 2)]);
            let lines = self.text[call.clone()].iter().filter(|byte| **byte == b'\n').count();
            let new = format!("careful.{name}({}redis.{function},", "\n".repeat(lines));
            self.edit(call, new);
        }
        self.handlers.insert(name, handler);
    }

    fn edit(&mut self, place: Range<usize>, text: impl Into<String>) {
        self.edits.push(Edit { place, text: text.into() });
    }

    /// What `redis`, the token at `at`, is used for.
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

    /// The call that is returned here, if there is one and nothing else.
    fn tail_call(&self, at: usize) -> Option<Range<usize>> {
        let is_call = matches!(
            (self.token(at), self.token(at + 1), self.token(at + 2), self.token(at + 3)),
            (
                Some(Token::Name(b"redis")),
                Some(Token::Sign(b'.')),
                Some(Token::Name(b"call")),
                Some(Token::Sign(b'('))
            )
        );
        let close = self.closing(at + 3).filter(|_| is_call)?;
        let ends = match self.tokens.get(close + 1) {
            None => true,
            Some((Token::Sign(b';') | Token::Word(Word::End | Word::Else | Word::Elseif), _)) => {
                true
            }
            Some((_, place)) => self.text[place.clone()] == *b"until",
        };
        ends.then(|| self.place(at).start..self.place(close).end)
    }

    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for at in open..self.tokens.len() {
            match self.token(at)? {
                Token::Sign(b'(') => depth += 1,
                Token::Sign(b')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    fn token(&self, at: usize) -> Option<&Token<'a>> {
        self.tokens.get(at).map(|(token, _)| token)
    }

    fn place(&self, at: usize) -> Range<usize> {
        self.tokens[at].1.clone()
    }
}

/// What comes into the place of a part of the script.
#[derive(Debug)]
struct Edit {
    place: Range<usize>,
    text: String,
}

/// What a script does with `redis`.
enum Called {
    /// Calls the command of this name.
    Named(String),
    /// Uses something that runs no command.
    Harmless,
    /// Calls a command whose name is not written there, or hands `redis` on.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        let scan = Scan::of(text.as_bytes());
        String::from_utf8(scan.rewritten(text.as_bytes())).expect("text")
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
        for text in ["return redis.call('get', k) == 1", "return redis.pcall('get', k)", "return x"]
        {
            assert_eq!(rewritten(text), text);
        }
    }

    #[test]
    fn only_calls_that_need_care_are_made_elsewhere() {
        let text = "return redis.call('GET', k) or redis.pcall(\"Set\", k, redis.call( 'incr', k))";
        let expected = "return redis.call('GET', k) or \
                        careful.Set(redis.pcall,\"Set\", k, careful.incr(redis.call, 'incr', k))";
        assert_eq!(rewritten(text), expected);
        let tail = "return redis.call('set', KEYS[1], 1)";
        assert_eq!(rewritten(tail), "return (careful.set(redis.call,'set', KEYS[1], 1))");
        let three_lines = "redis.\n-- Why?\npcall('set', KEYS[1], 1)";
        assert_eq!(rewritten(three_lines), "careful.set(\n\nredis.pcall,'set', KEYS[1], 1)");
        let dynamic = "redis.call('set', k, 1) redis.call(ARGV[1])";
        assert_eq!(rewritten(dynamic), dynamic);
    }
}
