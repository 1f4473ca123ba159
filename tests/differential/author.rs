//! Random sequences of requests: single commands, scripts, transactions and messages, over several connections.

use fastrand::Rng;
use redlock_proxy::catalogue::table;
use sha1_smol::Sha1;

use crate::allowed::Allowed;
use crate::grammar::{Grammar, any_case};
use crate::step::{CONNECTIONS, Step, step};
use crate::support::words as split;
use crate::words::{self, PRELUDE};
use crate::{lua, tame};

/// Generates the sequence that belongs to a seed.
pub(crate) struct Author<'a> {
    rng: Rng,
    grammar: &'a Grammar,
    /// Commands to send.
    names: Vec<&'a str>,
    /// The subset of `names` to queue in transactions.
    in_transactions: Vec<&'a str>,
    /// The subset of `names` to call from scripts.
    in_scripts: Vec<&'a str>,
    scripts: Vec<Vec<u8>>,
    steps: Vec<Step>,
}

impl<'a> Author<'a> {
    pub(crate) fn new(seed: u64, grammar: &'a Grammar, allowed: &Allowed) -> Author<'a> {
        let is_sent = |name: &&str| !allowed.leaves_out(name) && *name != "multi";
        let names: Vec<_> = grammar.names().filter(is_sent).collect();
        let in_transactions: Vec<_> = names
            .iter()
            .filter(|name| !allowed.leaves_out_of_transactions(name))
            .copied()
            .collect();
        let is_called =
            |name: &&&str| is_for_scripts(name) && !allowed.leaves_out_of_programs(name);
        let in_scripts = names.iter().filter(is_called).copied().collect();
        Author {
            rng: Rng::with_seed(seed),
            grammar,
            names,
            in_transactions,
            in_scripts,
            scripts: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Returns a sequence of `length` requests or a few more.
    pub(crate) fn sequence(mut self, length: usize) -> Vec<Step> {
        for line in PRELUDE {
            self.steps.push(step(0, split(line)));
        }
        while self.steps.len() < length {
            let connection = self.connection();
            match self.rng.u8(..20) {
                0..=3 => self.script(connection),
                4..=6 => self.transaction(connection),
                7 => self.message(connection),
                _ => self.command(connection),
            }
        }
        self.steps
    }

    /// Picks a connection, mostly one of the first two, whose user may do everything.
    fn connection(&mut self) -> usize {
        let all = CONNECTIONS.len();
        if self.rng.u8(..5) > 0 { self.rng.usize(..2) } else { self.rng.usize(2..all) }
    }

    fn command(&mut self, connection: usize) {
        let words = self.request();
        let inline = self.rng.u8(..40) == 0;
        self.steps.push(Step { connection, words, inline });
    }

    fn request(&mut self) -> Vec<Vec<u8>> {
        let name = self.names[self.rng.usize(..self.names.len())];
        request(&mut self.rng, self.grammar, name)
    }

    fn script(&mut self, connection: usize) {
        let words = self.script_request();
        self.steps.push(step(connection, words));
    }

    fn script_request(&mut self) -> Vec<Vec<u8>> {
        let text = match self.scripts.len() {
            known if known > 0 && self.rng.u8(..4) == 0 => {
                self.scripts[self.rng.usize(..known)].clone()
            }
            _ => self.new_script(),
        };
        let sha = || Sha1::from(&text).hexdigest().into_bytes();
        let rng = &mut self.rng;
        let mut words = match rng.u8(..12) {
            0 => return vec![any_case(rng, "script"), any_case(rng, "load"), text],
            1 => {
                return vec![
                    any_case(rng, "script"),
                    any_case(rng, "exists"),
                    sha(),
                    b"x".to_vec(),
                ];
            }
            2..=3 => vec![any_case(rng, "evalsha"), sha()],
            4 => vec![any_case(rng, "eval_ro"), text],
            5 => vec![any_case(rng, "evalsha_ro"), sha()],
            _ => vec![any_case(rng, "eval"), text],
        };
        let keys = rng.usize(..3);
        words.push(keys.to_string().into_bytes());
        words.extend((0..keys).map(|_| words::key(rng, "")));
        words.extend((0..rng.usize(..3)).map(|_| words::value(rng)));
        if rng.u8(..30) == 0 {
            words[2] = words::strange(rng);
        }
        words
    }

    fn new_script(&mut self) -> Vec<u8> {
        let (grammar, names) = (self.grammar, &self.in_scripts);
        let text = match self.rng.u8(..3) {
            0 => lua::simple(&mut self.rng).into_bytes(),
            _ => lua::program(&mut self.rng, |rng| {
                let name = names[rng.usize(..names.len())];
                request(rng, grammar, name)
            }),
        };
        self.scripts.push(text.clone());
        text
    }

    /// Adds a transaction from `MULTI` to `EXEC`, sometimes after a `WATCH` that may have no effect.
    fn transaction(&mut self, connection: usize) {
        if self.rng.bool() {
            let key = words::key(&mut self.rng, "");
            self.steps.push(step(connection, [b"WATCH".to_vec(), key]));
            if self.rng.bool() {
                let other = self.connection();
                self.command(other);
            }
        }
        self.steps.push(step(connection, ["MULTI"]));
        for _ in 0..self.rng.u8(..5) {
            match self.rng.u8(..6) {
                0 => self.queued_script(connection),
                _ => self.queued(connection),
            }
        }
        let end = if self.rng.u8(..8) == 0 { "DISCARD" } else { "EXEC" };
        self.steps.push(step(connection, [end]));
    }

    /// Queues a script that may write and speaks RESP2. No other script is tracked in a transaction.
    fn queued_script(&mut self, connection: usize) {
        let words = self.script_request();
        let selects_resp3 = String::from_utf8_lossy(&words[1]).contains("setresp(3)");
        if !selects_resp3 && !words.iter().any(|word| word.len() == 40) {
            self.steps.push(step(connection, words));
        }
    }

    fn queued(&mut self, connection: usize) {
        // Most commands that scripts may not call make EXEC refuse the whole transaction.
        let names = if self.rng.u8(..8) == 0 { &self.in_transactions } else { &self.in_scripts };
        let name = names[self.rng.usize(..names.len())];
        let words = request(&mut self.rng, self.grammar, name);
        self.steps.push(step(connection, words));
    }

    /// Adds a subscription and a message that may match it.
    fn message(&mut self, connection: usize) {
        let commands = [
            "subscribe",
            "psubscribe",
            "ssubscribe",
            "unsubscribe",
            "publish",
            "publish",
            "spublish",
        ];
        let name = commands[self.rng.usize(..commands.len())];
        let words = request(&mut self.rng, self.grammar, name);
        self.steps.push(step(connection, words));
    }
}

fn is_for_scripts(name: &str) -> bool {
    let container = name.split('|').next().unwrap_or(name);
    let spec = table::lookup(container.as_bytes()).expect("in the table");
    let is_data = spec.first_key != 0 || spec.flags.contains(&"movablekeys");
    is_data
        && !spec.flags.contains(&"noscript")
        && spec.family != table::Family::Script
        && spec.family != table::Family::Pubsub
}

/// Makes a request from the syntax, occasionally with a word missing, a word too many, or a wrong word.
fn request(rng: &mut Rng, grammar: &Grammar, name: &str) -> Vec<Vec<u8>> {
    let mut words = grammar.syntax(name).words(rng);
    let at = rng.usize(..words.len());
    match rng.u8(..40) {
        0 if at > 0 => drop(words.remove(at)),
        1 => words.insert(at + 1, words::strange(rng)),
        2 if at > 0 => words[at] = words::strange(rng),
        3 => words.truncate(at + 1),
        4 => words.push(words::strange(rng)),
        5 if at > 0 => words.push(words[at].clone()),
        _ => {}
    }
    tame::words(words)
}
