//! Random programs: single commands, Lua scripts, and transactions.

use fastrand::Rng;
use sha1_smol::Sha1;

use super::commands::{KEYS, command, is_key, is_unordered, template, word};

/// A request on one connection. The first of the two connections speaks RESP2, the second RESP3.
pub(crate) struct Request {
    pub(crate) connection: usize,
    pub(crate) words: Vec<String>,
    /// Text of a script called by its SHA1, for reports.
    pub(crate) script: Option<String>,
    /// Whether the order of elements in the reply has no meaning.
    pub(crate) unordered: bool,
}

/// Generates programs. It remembers its scripts, to run them again by their SHA1.
pub(crate) struct Author {
    rng: Rng,
    scripts: Vec<String>,
}

impl Author {
    pub(crate) fn new(seed: u64) -> Author {
        Author { rng: Rng::with_seed(seed), scripts: Vec::new() }
    }

    /// Returns requests that belong together. Most of them use one connection.
    pub(crate) fn program(&mut self) -> Vec<Request> {
        let connection = self.rng.usize(..2);
        match self.rng.u8(..20) {
            0..=4 => vec![self.command(connection)],
            5..=10 => vec![self.new_script(connection)],
            11..=12 => vec![self.known_script(connection)],
            _ => self.transaction(connection),
        }
    }

    fn command(&mut self, connection: usize) -> Request {
        let words = command(&mut self.rng);
        let unordered = is_unordered(&words.join(" "));
        Request { connection, words, script: None, unordered }
    }

    fn new_script(&mut self, connection: usize) -> Request {
        let text =
            if self.rng.u8(..10) == 0 { RESP3 } else { "" }.to_owned() + &script(&mut self.rng);
        self.start_script(text, connection)
    }

    fn start_script(&mut self, text: String, connection: usize) -> Request {
        self.scripts.push(text.clone());
        self.run("EVAL", &text, &text, connection)
    }

    /// Runs an earlier script again, sometimes one that turns out to be unknown.
    fn known_script(&mut self, connection: usize) -> Request {
        let text =
            self.rng.choice(&self.scripts).map_or("return 'unknown'", |text| text).to_owned();
        let request = self.run("EVALSHA", &Sha1::from(&text).hexdigest(), &text, connection);
        Request { script: Some(text), ..request }
    }

    /// Runs a script, passing all keys and two arguments.
    fn run(&mut self, name: &str, script: &str, text: &str, connection: usize) -> Request {
        let mut words = vec![name.to_owned(), script.to_owned(), KEYS.len().to_string()];
        words.extend(KEYS.map(str::to_owned));
        words.extend([word(&mut self.rng, "{number}"), word(&mut self.rng, "{value}")]);
        Request { connection, words, script: None, unordered: is_unordered(text) }
    }

    /// Returns a transaction from `MULTI` to `EXEC`, sometimes after a `WATCH` that may have no effect.
    fn transaction(&mut self, connection: usize) -> Vec<Request> {
        let mut requests = if self.rng.bool() { self.watch(connection) } else { Vec::new() };
        requests.push(request(connection, &["MULTI"]));
        for _ in 0..self.rng.u8(..6) {
            requests.push(self.queued(connection));
        }
        let end = if self.rng.u8(..10) == 0 { "DISCARD" } else { "EXEC" };
        let unordered = requests.iter().any(|request| request.unordered);
        requests.push(Request { unordered, ..request(connection, &[end]) });
        requests
    }

    /// Watches a key. The other connection leaves it alone or deletes it.
    fn watch(&mut self, connection: usize) -> Vec<Request> {
        let other = 1 - connection;
        let key = word(&mut self.rng, "{any}");
        let mut requests = vec![request(connection, &["WATCH", &key])];
        let between = self.command(other);
        if !between.words.contains(&key) {
            requests.push(between);
        }
        if self.rng.u8(..4) == 0 {
            requests.push(request(other, &["DEL", &key]));
        }
        requests
    }

    fn queued(&mut self, connection: usize) -> Request {
        match self.rng.u8(..40) {
            0 => request(connection, &["NOSUCHCOMMAND"]),
            1 => request(connection, &["GET"]),
            2..=5 => {
                let text = script(&mut self.rng);
                self.start_script(text, connection)
            }
            6 => self.known_script_in_transaction(connection),
            _ => self.command(connection),
        }
    }

    /// Runs an earlier script in a transaction. Booleans inside a reply only keep their RESP3 type in a script that
    /// runs on its own.
    fn known_script_in_transaction(&mut self, connection: usize) -> Request {
        let request = self.known_script(connection);
        let resp3 = request.script.as_ref().is_some_and(|text| text.starts_with(RESP3));
        if resp3 { self.command(connection) } else { request }
    }
}

fn request(connection: usize, words: &[&str]) -> Request {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    Request { connection, words, script: None, unordered: false }
}

const RESP3: &str = "redis.setresp(3)\n";

/// Returns a script that collects the replies of its commands and returns them, or ends in another way.
fn script(rng: &mut Rng) -> String {
    let head = "local kept = {}\nlocal function keep(reply) kept[#kept + 1] = reply end\n";
    format!("{head}{}{}", block(rng, 2), ending(rng))
}

fn block(rng: &mut Rng, depth: u8) -> String {
    (0..rng.u8(1..4)).map(|_| statement(rng, depth) + "\n").collect()
}

fn statement(rng: &mut Rng, depth: u8) -> String {
    let choice = if depth == 0 { rng.u8(..6) } else { rng.u8(..10) };
    match choice {
        0..=3 => format!("keep(redis.call({}))", arguments(rng)),
        4..=5 => format!("keep(redis.pcall({}))", arguments(rng)),
        6..=7 => {
            let condition = condition(rng);
            format!(
                "if {condition} then\n{}else\n{}end",
                block(rng, depth - 1),
                block(rng, depth - 1)
            )
        }
        8 => format!("for i = 1, {} do\n{}end", rng.u8(1..4), block(rng, depth - 1)),
        _ => {
            let end = if rng.bool() { "error('given up')\n" } else { "" };
            format!("keep((pcall(function()\n{}{end}end)))", block(rng, depth - 1))
        }
    }
}

fn condition(rng: &mut Rng) -> String {
    let (any, string, hash) = (lua(rng, "{any}"), lua(rng, "{string}"), lua(rng, "{hash}"));
    match rng.u8(..7) {
        0 => format!("redis.call('exists', {any}) == 1"),
        1 => format!("redis.call('get', {string}) == ARGV[2]"),
        2 => format!("redis.call('pttl', {any}) > 0"),
        3 => format!("redis.pcall('hget', {hash}, 'a')"),
        4 => format!("redis.call('type', {any})['ok'] == 'hash'"),
        5 => "tonumber(ARGV[1]) > 5".to_owned(),
        _ => "#kept % 2 == 0".to_owned(),
    }
}

fn ending(rng: &mut Rng) -> String {
    match rng.u8(..14) {
        0 => "return kept[1]".to_owned(),
        1 => "return #kept".to_owned(),
        2 => "error('raised')".to_owned(),
        3 => "return redis.error_reply('REFUSED by the script')".to_owned(),
        4 => "return redis.status_reply('DONE')".to_owned(),
        5 => format!("return redis.call({})", arguments(rng)),
        6 => "return {#kept, kept, ARGV[1]}".to_owned(),
        7 => String::new(),
        _ => "return kept".to_owned(),
    }
}

/// Returns a command as the arguments of `redis.call`.
fn arguments(rng: &mut Rng) -> String {
    let parts: Vec<String> = template(rng).split(' ').map(|part| lua(rng, part)).collect();
    parts.join(", ")
}

/// Returns a word as Lua source: keys mostly by way of `KEYS`, now and then undeclared.
fn lua(rng: &mut Rng, part: &str) -> String {
    let filled = word(rng, part);
    match KEYS.iter().position(|key| *key == filled) {
        Some(index) if is_key(part) && rng.u8(..5) > 0 => format!("KEYS[{}]", index + 1),
        _ if part == "{value}" && rng.bool() => "ARGV[2]".to_owned(),
        _ => format!("'{filled}'"),
    }
}
