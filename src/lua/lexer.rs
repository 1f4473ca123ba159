//! Lexer: Lua text to tokens.
//!
//! It follows `llex.c` of Lua 5.1, the version in Redis. Syntax that no known shape contains (loops, functions,
//! arithmetic other than minus, fractions) becomes foreign tokens, which are not told apart.

use std::ops::Range;

use super::step_budget::steps;

/// One token of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Reserved word.
    Word(Word),
    /// Any other name.
    Name(&'a [u8]),
    /// String of either quote style or in long brackets, with its escapes resolved.
    Text(Vec<u8>),
    /// Decimal integer.
    Number(i64),
    /// Sign of one byte: `( ) [ ] . , ; = -`.
    Sign(u8),
    /// `==`
    Equal,
    /// `~=`
    Differ,
    /// Anything that no lock script of a known shape contains.
    Foreign,
}

/// Reserved words that a script without loops and functions uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Word {
    And,
    Else,
    Elseif,
    End,
    False,
    If,
    Local,
    Nil,
    Not,
    Or,
    Return,
    Then,
    True,
}

/// Returns the tokens of `text`, or `None` if one of them is broken or foreign.
///
/// Takes time linear in the length of `text`.
pub(super) fn tokens(text: &[u8]) -> Option<Vec<Token<'_>>> {
    if text.contains(&0) {
        return None;
    }
    let tokens = placed_tokens(text)?;
    let known = tokens.into_iter().map(|(token, _)| (token != Token::Foreign).then_some(token));
    known.collect()
}

/// Returns the tokens of any script with their positions, or `None` if one of them is broken.
pub(super) fn placed_tokens(text: &[u8]) -> Option<Vec<(Token<'_>, Range<usize>)>> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let Some(byte) = lexer.peek() else { return Some(tokens) };
        let start = lexer.at;
        let token = lexer.token(byte)?;
        tokens.push((token, start..lexer.at));
    }
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    fn token(&mut self, first: u8) -> Option<Token<'a>> {
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.name(),
            b'0'..=b'9' => self.number(),
            b'\'' | b'"' => self.quoted(first).map(Token::Text),
            b'[' if matches!(self.peek_at(1), Some(b'[' | b'=')) => {
                self.long_text().map(Token::Text)
            }
            b'=' if self.peek_at(1) == Some(b'=') => self.pair(Token::Equal),
            b'~' if self.peek_at(1) == Some(b'=') => self.pair(Token::Differ),
            b'.' if self.peek_at(1) == Some(b'.') => self.pair(Token::Foreign),
            b'(' | b')' | b'[' | b']' | b'.' | b',' | b';' | b'=' | b'-' => {
                self.at += 1;
                Some(Token::Sign(first))
            }
            _ => {
                self.at += 1;
                Some(Token::Foreign)
            }
        }
    }

    fn pair(&mut self, token: Token<'a>) -> Option<Token<'a>> {
        self.at += 2;
        Some(token)
    }

    fn skip_blanks(&mut self) -> Option<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) => self.at += 1,
                Some(b'-') if self.peek_at(1) == Some(b'-') => self.skip_comment()?,
                _ => return Some(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Option<()> {
        self.at += 2;
        match self.long_bracket() {
            Some(level) => {
                self.at += level + 2;
                self.long_end(level).map(|_| ())
            }
            None => {
                self.take_while(|byte| !is_newline(byte));
                Some(())
            }
        }
    }

    fn name(&mut self) -> Option<Token<'a>> {
        let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match RESERVED.iter().find(|(spelling, _)| spelling.as_bytes() == name) {
            Some((_, word)) => Some(word.map_or(Token::Foreign, Token::Word)),
            None => Some(Token::Name(name)),
        }
    }

    fn number(&mut self) -> Option<Token<'a>> {
        let digits =
            self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
        let exact = digits.len() <= MAX_DIGITS && digits.iter().all(u8::is_ascii_digit);
        let value = exact
            .then(|| digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')));
        Some(value.map_or(Token::Foreign, Token::Number))
    }

    fn quoted(&mut self, quote: u8) -> Option<Vec<u8>> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.next()? {
                byte if byte == quote => return Some(text),
                b'\\' => text.push(self.escape()?),
                byte if is_newline(byte) => return None,
                byte => text.push(byte),
            }
        }
    }

    fn escape(&mut self) -> Option<u8> {
        Some(match self.next()? {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            digit @ b'0'..=b'9' => return self.decimal_escape(digit),
            byte if is_newline(byte) => self.newline(byte),
            byte => byte,
        })
    }

    /// Reads `\ddd`, up to three digits. It rejects a zero byte, which ends the string in some of Lua's functions.
    fn decimal_escape(&mut self, first: u8) -> Option<u8> {
        let mut value = u16::from(first - b'0');
        for _ in 0..2 {
            let Some(digit) = self.peek().filter(u8::is_ascii_digit) else { break };
            value = value * 10 + u16::from(digit - b'0');
            self.at += 1;
        }
        u8::try_from(value).ok().filter(|byte| *byte != 0)
    }

    fn long_text(&mut self) -> Option<Vec<u8>> {
        let level = self.long_bracket()?;
        self.at += level + 2;
        let body = self.long_end(level)?;
        Some(unify_newlines(body))
    }

    /// Returns the number of `=` in the long bracket that opens here, if one does.
    fn long_bracket(&self) -> Option<usize> {
        let rest = self.text.get(self.at..)?.strip_prefix(b"[")?;
        let level = rest.iter().take_while(|byte| **byte == b'=').count();
        steps(level);
        (rest.get(level) == Some(&b'[')).then_some(level)
    }

    /// Moves past the closing bracket of this level, and returns the text before it.
    fn long_end(&mut self, level: usize) -> Option<&'a [u8]> {
        let start = self.at;
        loop {
            self.take_while(|byte| byte != b']');
            self.next()?;
            let equals = self.take_while(|byte| byte == b'=').len();
            if equals == level && self.peek() == Some(b']') {
                self.at += 1;
                return self.text.get(start..self.at - level - 2);
            }
        }
    }

    /// Takes the second half of a CRLF or LFCR, which is one newline to Lua.
    fn newline(&mut self, first: u8) -> u8 {
        if self.peek().is_some_and(|second| is_newline(second) && second != first) {
            self.at += 1;
        }
        b'\n'
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = &self.text[self.at.min(self.text.len())..];
        let length = rest.iter().take_while(|byte| wanted(**byte)).count();
        steps(length);
        self.at += length;
        &rest[..length]
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<u8> {
        steps(1);
        self.text.get(self.at + ahead).copied()
    }
}

/// Returns the body of a long string as Lua sees it: every newline is `\n`, and one right after the bracket does not
/// count.
fn unify_newlines(body: &[u8]) -> Vec<u8> {
    let mut lexer = Lexer { text: body, at: 0 };
    let mut text = Vec::with_capacity(body.len());
    while let Some(byte) = lexer.next() {
        let first = lexer.at == 1;
        match byte {
            _ if !is_newline(byte) => text.push(byte),
            _ if first => _ = lexer.newline(byte),
            _ => text.push(lexer.newline(byte)),
        }
    }
    text
}

fn is_newline(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Every reserved word of Lua 5.1. Those without a token are foreign.
const RESERVED: [(&str, Option<Word>); 21] = [
    ("and", Some(Word::And)),
    ("break", None),
    ("do", None),
    ("else", Some(Word::Else)),
    ("elseif", Some(Word::Elseif)),
    ("end", Some(Word::End)),
    ("false", Some(Word::False)),
    ("for", None),
    ("function", None),
    ("if", Some(Word::If)),
    ("in", None),
    ("local", Some(Word::Local)),
    ("nil", Some(Word::Nil)),
    ("not", Some(Word::Not)),
    ("or", Some(Word::Or)),
    ("repeat", None),
    ("return", Some(Word::Return)),
    ("then", Some(Word::Then)),
    ("true", Some(Word::True)),
    ("until", None),
    ("while", None),
];

/// Maximum digits of a number. A Lua number is a double, which holds integers of 15 digits exactly.
const MAX_DIGITS: usize = 15;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(source: &str) -> Option<Vec<Vec<u8>>> {
        let keep = |token| match token {
            Token::Text(text) => Some(text),
            _ => None,
        };
        tokens(source.as_bytes()).map(|tokens| tokens.into_iter().filter_map(keep).collect())
    }

    fn one(source: &str) -> Option<String> {
        texts(source).map(|mut texts| String::from_utf8(texts.remove(0)).unwrap())
    }

    #[test]
    fn comments_and_blanks_leave_no_token() {
        let source = "--[==[ ]] ]=] \n]==] -- to the end\r\n \t\x0b\x0c--[[x]]--[=x";
        assert_eq!(tokens(source.as_bytes()), Some(vec![]));
    }

    #[test]
    fn words_names_numbers_and_signs() {
        let expected = vec![
            Token::Word(Word::If),
            Token::Name(b"KEYS"),
            Token::Sign(b'['),
            Token::Number(1),
            Token::Sign(b']'),
            Token::Equal,
            Token::Differ,
            Token::Sign(b'='),
            Token::Name(b"iff_2"),
        ];
        assert_eq!(tokens(b"if KEYS[1]==~= = iff_2"), Some(expected));
    }

    #[test]
    fn all_spellings_of_a_string_are_one() {
        for spelling in ["'get'", "\"get\"", "[[get]]", "[==[\r\nget]==]", r"'\103e\t'", r"'\g\et'"]
        {
            let expected = if spelling.contains("103") { "ge\t" } else { "get" };
            assert_eq!(one(spelling).as_deref(), Some(expected), "{spelling}");
        }
    }

    #[test]
    fn newlines_in_strings_follow_lua() {
        assert_eq!(one("'a\\\r\nb'").as_deref(), Some("a\nb"));
        assert_eq!(one("[[\n\na\r\nb\rc]]").as_deref(), Some("\na\nb\nc"));
        assert_eq!(one("[[a]b]=]c]]").as_deref(), Some("a]b]=]c"));
        assert_eq!(texts("'a\nb'"), None);
    }

    #[test]
    fn broken_and_foreign_texts_are_given_up() {
        let broken = [
            "'open",
            "\"open\\",
            "[[open",
            "[==[open]=]",
            "[=open",
            "--[[open",
            "'\\300'",
            "'\\0'",
            "'\0'",
            "--\0",
            "1.5",
            "0x10",
            "1e3",
            "12ab",
            "a..b",
            "#KEYS",
            "a + b",
            "a:b()",
            "while",
            "function",
            "#!lua",
            "a < b",
            "{}",
            "9999999999999999",
            "caf\u{e9}",
        ];
        for source in broken {
            assert_eq!(tokens(source.as_bytes()), None, "{source}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(source in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = tokens(&source);
        }

        #[test]
        fn arbitrary_lua_like_bytes_do_not_panic(source in r#"[-\[\]=~'"\\.()0-9a-f\r\n ]{0,80}"#) {
            let _ = tokens(source.as_bytes());
        }
    }
}
