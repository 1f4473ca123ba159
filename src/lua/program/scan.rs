//! What can be said about a script without running it: which commands it names, and where.

use std::collections::BTreeMap;
use std::ops::Range;

use super::handlers::{Handler, handler};
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
    /// `return redis.call(...)`, from the name to the parenthesis at the end.
    tail_calls: Vec<Range<usize>>,
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

    /// The text with every `return redis.call(...)` as `return (redis.call(...))`. Lua forgets who has
    /// made a tail call, and then it could not be said in which line it has failed.
    pub(super) fn without_tail_calls(&self, text: &[u8]) -> Vec<u8> {
        let mut rewritten = Vec::with_capacity(text.len() + 2 * self.tail_calls.len());
        let mut copied = 0;
        for call in &self.tail_calls {
            rewritten.extend_from_slice(&text[copied..call.start]);
            rewritten.push(b'(');
            rewritten.extend_from_slice(&text[call.clone()]);
            rewritten.push(b')');
            copied = call.end;
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
            Some(Token::Name(b"redis")) => match self.called_command(at) {
                Called::Named(name) => self.names(name),
                Called::Harmless => {}
                Called::Unknown => self.is_dynamic = true,
            },
            Some(Token::Word(Word::Return)) => {
                let call = self.tail_call(at + 1);
                self.tail_calls.extend(call);
            }
            _ => {}
        }
    }

    fn names(&mut self, name: String) {
        match handler(&name) {
            Some(handler) => _ = self.handlers.insert(name, handler),
            None => self.is_dynamic = true,
        }
    }

    /// What `redis`, the token at `at`, is used for.
    fn called_command(&self, at: usize) -> Called {
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
        ends.then(|| self.tokens[at].1.start..self.tokens[close].1.end)
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
        String::from_utf8(scan.without_tail_calls(text.as_bytes())).expect("text")
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
            "'unfinished",
        ] {
            assert!(Scan::of(text.as_bytes()).is_dynamic, "{text}");
        }
    }

    #[test]
    fn tail_calls_are_put_in_parentheses() {
        let inner = "redis.call('set', KEYS[1], tostring((1)))";
        for (before, after) in [("return ", ""), ("if x then return ", " end"), ("return ", ";")] {
            let text = format!("{before}{inner}{after}");
            assert_eq!(rewritten(&text), format!("{before}({inner}){after}"));
        }
        for text in ["return redis.call('get', k) == 1", "return redis.pcall('get', k)", "return x"]
        {
            assert_eq!(rewritten(text), text);
        }
    }
}
