//! Parser: tokens to statements, as far as lock scripts need Lua.
//!
//! It follows `lparser.c` of Lua 5.1 for precedence and scope. Every call must be one that [`effects`](super::effects)
//! knows, even where it can never be reached. A script that mentions another command gets no meaning.

use super::lexer::{Token, Word, tokens};
use super::meaning::Arg;
use super::step_budget::steps;

/// List of statements with a scope of its own.
pub(super) type Block = Vec<Statement>;

/// One statement.
#[derive(Debug)]
pub(super) enum Statement {
    /// `local name = value`; every local variable of the script has a slot of its own.
    Local(usize, Expression),
    /// `if`, its `elseif`s, and its `else`.
    If(Vec<(Expression, Block)>, Block),
    /// `return`, always the last statement of its block.
    Return(Expression),
    /// Call whose reply is dropped.
    Call(Call),
}

/// One expression, without its parentheses.
#[derive(Debug)]
pub(super) enum Expression {
    Nil,
    Bool(bool),
    Number(i64),
    Text(Vec<u8>),
    /// `KEYS[1]`, the only key of a lock script.
    Key,
    Arg(Arg),
    Local(usize),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Equal(Box<Expression>, Box<Expression>),
    Minus(Box<Expression>, Box<Expression>),
    Call(Call),
}

/// Call of one of the functions that lock scripts use.
#[derive(Debug)]
pub(super) enum Call {
    /// `redis.call` of a command in the script's spelling.
    Redis(Command, Vec<u8>, Vec<Expression>),
    /// `redis.status_reply`
    StatusReply(Vec<u8>),
    /// `redis.error_reply`
    ErrorReply(Vec<u8>),
    /// `tonumber`
    ToNumber(Box<Expression>),
    /// `string.sub`
    Sub(Vec<Expression>),
}

/// Commands that lock scripts of a known shape use, in any letter case.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// `DEL` or `UNLINK`, which only differ in when they free the memory.
    Del,
    Exists,
    Get,
    GetRange,
    Pexpire,
    Set,
}

impl Command {
    fn from_name(name: &[u8]) -> Option<Command> {
        let known =
            COMMANDS.iter().find(|(spelling, _)| name.eq_ignore_ascii_case(spelling.as_bytes()));
        known.map(|(_, command)| *command)
    }
}

/// Returns the statements of a script, or `None` if it contains anything that no lock script needs.
pub(super) fn parse(text: &[u8]) -> Option<Block> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, scope: Vec::new(), slots: 0, budget: MAX_NODES };
    let block = parser.block()?;
    parser.tokens.is_empty().then_some(block)
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    /// Local variables in scope, innermost last, and their slots.
    scope: Vec<(&'a [u8], usize)>,
    slots: usize,
    /// Remaining statements and expressions allowed. This bounds every recursion here and over the result.
    budget: usize,
}

impl<'a> Parser<'a> {
    fn block(&mut self) -> Option<Block> {
        let outer = self.scope.len();
        let mut block = Vec::new();
        while !self.at_block_end() {
            self.spend()?;
            let statement = self.statement()?;
            self.take(&Token::Sign(b';'));
            let last = matches!(statement, Statement::Return(_));
            block.push(statement);
            if last {
                break;
            }
        }
        self.scope.truncate(outer);
        self.at_block_end().then_some(block)
    }

    fn at_block_end(&self) -> bool {
        matches!(
            self.tokens.first(),
            None | Some(Token::Word(Word::Else | Word::Elseif | Word::End))
        )
    }

    fn statement(&mut self) -> Option<Statement> {
        if self.take_word(Word::Local) {
            self.local()
        } else if self.take_word(Word::If) {
            self.conditional()
        } else if self.take_word(Word::Return) {
            self.returned().map(Statement::Return)
        } else {
            self.call_statement()
        }
    }

    /// The variable is in scope only after its own value.
    fn local(&mut self) -> Option<Statement> {
        let name = self.name()?;
        self.expect(b'=')?;
        let value = self.expression()?;
        let slot = self.slots;
        self.slots += 1;
        self.scope.push((name, slot));
        Some(Statement::Local(slot, value))
    }

    fn conditional(&mut self) -> Option<Statement> {
        let mut branches = vec![self.branch()?];
        while self.take_word(Word::Elseif) {
            branches.push(self.branch()?);
        }
        let otherwise = if self.take_word(Word::Else) { self.block()? } else { Vec::new() };
        self.take_word(Word::End).then_some(Statement::If(branches, otherwise))
    }

    fn branch(&mut self) -> Option<(Expression, Block)> {
        let condition = self.expression()?;
        if !self.take_word(Word::Then) {
            return None;
        }
        Some((condition, self.block()?))
    }

    fn returned(&mut self) -> Option<Expression> {
        if self.at_block_end() || self.tokens.first() == Some(&Token::Sign(b';')) {
            return Some(Expression::Nil);
        }
        self.expression()
    }

    fn call_statement(&mut self) -> Option<Statement> {
        let Some(Token::Name(_)) = self.tokens.first() else { return None };
        match self.primary()? {
            Expression::Call(call) => Some(Statement::Call(call)),
            _ => None,
        }
    }

    fn expression(&mut self) -> Option<Expression> {
        self.spend()?;
        let mut left = self.conjunction()?;
        while self.take_word(Word::Or) {
            self.spend()?;
            left = Expression::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        Some(left)
    }

    fn conjunction(&mut self) -> Option<Expression> {
        let mut left = self.comparison()?;
        while self.take_word(Word::And) {
            self.spend()?;
            left = Expression::And(Box::new(left), Box::new(self.comparison()?));
        }
        Some(left)
    }

    fn comparison(&mut self) -> Option<Expression> {
        let mut left = self.difference()?;
        loop {
            let negated = match self.tokens.first() {
                Some(Token::Equal) => false,
                Some(Token::Differ) => true,
                _ => return Some(left),
            };
            self.advance();
            self.spend()?;
            left = Expression::Equal(Box::new(left), Box::new(self.difference()?));
            if negated {
                left = Expression::Not(Box::new(left));
            }
        }
    }

    fn difference(&mut self) -> Option<Expression> {
        let mut left = self.unary()?;
        while self.take(&Token::Sign(b'-')) {
            self.spend()?;
            left = Expression::Minus(Box::new(left), Box::new(self.unary()?));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expression> {
        if self.take_word(Word::Not) {
            self.spend()?;
            return Some(Expression::Not(Box::new(self.unary()?)));
        }
        if self.take(&Token::Sign(b'-')) {
            return self.number().map(|number| Expression::Number(-number));
        }
        self.primary()
    }

    fn primary(&mut self) -> Option<Expression> {
        match self.advance()? {
            Token::Word(Word::Nil) => Some(Expression::Nil),
            Token::Word(Word::True) => Some(Expression::Bool(true)),
            Token::Word(Word::False) => Some(Expression::Bool(false)),
            Token::Number(number) => Some(Expression::Number(*number)),
            Token::Text(text) => Some(Expression::Text(text.clone())),
            Token::Sign(b'(') => self.closed(Self::expression),
            Token::Name(name) => self.named(name),
            _ => None,
        }
    }

    fn named(&mut self, name: &[u8]) -> Option<Expression> {
        steps(self.scope.len());
        if let Some((_, slot)) = self.scope.iter().rev().find(|(local, _)| *local == name) {
            return Some(Expression::Local(*slot));
        }
        match name {
            b"KEYS" => (self.index()? == 1).then_some(Expression::Key),
            b"ARGV" => Arg::from_lua(self.index()?).map(Expression::Arg),
            b"redis" => self.redis().map(Expression::Call),
            b"string" => self.string().map(Expression::Call),
            b"tonumber" => {
                self.expect(b'(')?;
                let text = self.closed(Self::expression)?;
                Some(Expression::Call(Call::ToNumber(Box::new(text))))
            }
            _ => None,
        }
    }

    fn index(&mut self) -> Option<i64> {
        self.expect(b'[')?;
        let index = self.number()?;
        self.expect(b']')?;
        Some(index)
    }

    /// Reads a function of `redis`. `pcall` is not among them: it would turn an error of the master into a value, and
    /// the script would continue.
    fn redis(&mut self) -> Option<Call> {
        let function = self.field()?;
        self.expect(b'(')?;
        match function {
            b"call" => self.closed(Self::redis_call),
            b"status_reply" => self.closed(Self::text).map(Call::StatusReply),
            b"error_reply" => self.closed(Self::text).map(Call::ErrorReply),
            _ => None,
        }
    }

    fn redis_call(&mut self) -> Option<Call> {
        let name = self.text()?;
        let command = Command::from_name(&name)?;
        let mut arguments = Vec::new();
        while self.take(&Token::Sign(b',')) {
            arguments.push(self.expression()?);
        }
        Some(Call::Redis(command, name.to_vec(), arguments))
    }

    fn string(&mut self) -> Option<Call> {
        let function = self.field()?;
        self.expect(b'(')?;
        let arguments = self.closed(Self::arguments)?;
        (function == b"sub").then_some(Call::Sub(arguments))
    }

    fn arguments(&mut self) -> Option<Vec<Expression>> {
        let mut arguments = vec![self.expression()?];
        while self.take(&Token::Sign(b',')) {
            arguments.push(self.expression()?);
        }
        Some(arguments)
    }

    fn field(&mut self) -> Option<&'a [u8]> {
        self.expect(b'.')?;
        self.name()
    }

    /// Returns the result of `inner`, after the parenthesis that closes it.
    fn closed<T>(&mut self, inner: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let inside = inner(self)?;
        self.expect(b')')?;
        Some(inside)
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        match self.advance()? {
            Token::Name(name) => Some(name),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<i64> {
        match self.advance()? {
            Token::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        match self.advance()? {
            Token::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn expect(&mut self, sign: u8) -> Option<()> {
        self.take(&Token::Sign(sign)).then_some(())
    }

    fn take_word(&mut self, word: Word) -> bool {
        self.take(&Token::Word(word))
    }

    fn take(&mut self, token: &Token<'_>) -> bool {
        let found = self.tokens.first() == Some(token);
        if found {
            self.advance();
        }
        found
    }

    fn advance(&mut self) -> Option<&'a Token<'a>> {
        steps(1);
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn spend(&mut self) -> Option<()> {
        self.budget = self.budget.checked_sub(1)?;
        Some(())
    }
}

const COMMANDS: [(&str, Command); 7] = [
    ("del", Command::Del),
    ("exists", Command::Exists),
    ("get", Command::Get),
    ("getrange", Command::GetRange),
    ("pexpire", Command::Pexpire),
    ("set", Command::Set),
    ("unlink", Command::Del),
];

/// Maximum statements and expressions in one script. The largest of a known shape, bsm/redislock's, has about 30.
const MAX_NODES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn parses(text: &str) -> bool {
        parse(text.as_bytes()).is_some()
    }

    #[test]
    fn statements_follow_lua() {
        assert!(parses(""));
        assert!(parses("return;"));
        assert!(parses("local a = 1; local b = a if b == 1 then return b; end"));
        assert!(parses("if true then elseif false then else end"));
        for broken in [
            "return 1 return 2",
            ";",
            "return 1;;",
            "if true then",
            "end",
            "local = 1",
            "local a",
            "a = 1",
            "1",
            "(1)",
        ] {
            assert!(!parses(broken), "{broken}");
        }
    }

    #[test]
    fn only_known_names_are_in_sight() {
        assert!(parses("return redis.call('GeT', KEYS[1])"));
        let foreign = [
            "return redis.call('publish', KEYS[1])",
            "return redis.call(ARGV[1])",
            "return redis.pcall('get', KEYS[1])",
            "return redis.sha1hex('')",
            "return KEYS[2]",
            "return KEYS",
            "return ARGV[0]",
            "return ARGV[17]",
            "return unknown",
            "if true then local a = 1 end return a",
            "local a = a return 1",
            "local KEYS = 1 return KEYS[1]",
            "local redis = 1 return redis.call('get', KEYS[1])",
            "string.rep('a', 1)",
            "return redis.call('get', KEYS[1],)",
        ];
        for text in foreign {
            assert!(!parses(text), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |opening: &str, inner: &str, closing: &str, depth: usize| {
            format!("return {}{inner}{}", opening.repeat(depth), closing.repeat(depth))
        };
        assert!(parses(&nested("(", "1", ")", 50)));
        for depth in [MAX_NODES, 100_000] {
            assert!(!parses(&nested("(", "1", ")", depth)));
            assert!(!parses(&nested("not ", "1", "", depth)));
            assert!(!parses(&nested("", "1", " and 1", depth)));
            assert!(!parses(&nested("", "1", " - 1", depth)));
            assert!(!parses(&"if true then ".repeat(depth)));
        }
    }
}
