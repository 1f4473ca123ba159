//! The syntax of every command, as reported by `COMMAND DOCS` of a plain Redis.

use std::collections::BTreeMap;

use fastrand::Rng;
use redlock_proxy::catalogue::table;

use crate::support::{Raw, Reply};
use crate::words::{self, Setting};

/// One command, or one subcommand with its container: `xgroup|create`.
pub(crate) struct Syntax {
    /// The name in lower case.
    pub(crate) name: String,
    /// Redis's group: `string`, `sorted-set`.
    group: String,
    arguments: Vec<Argument>,
}

struct Argument {
    name: String,
    kind: String,
    token: Option<String>,
    optional: bool,
    multiple: bool,
    multiple_token: bool,
    parts: Vec<Argument>,
}

/// Syntax of the proxy's commands, by name.
pub(crate) struct Grammar {
    commands: BTreeMap<String, Syntax>,
}

impl Grammar {
    pub(crate) async fn of(redis: &mut Raw) -> Grammar {
        let Reply::Map(all) = redis.ask(&["COMMAND", "DOCS"]).await else {
            panic!("RESP3 has a map of commands")
        };
        let mut commands = BTreeMap::new();
        for (name, facts) in all {
            let name = name.text();
            if table::lookup(name.as_bytes()).is_some() {
                add(&mut commands, name, &facts);
            }
        }
        Grammar { commands }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.commands.keys().map(String::as_str)
    }

    pub(crate) fn syntax(&self, name: &str) -> &Syntax {
        &self.commands[name]
    }
}

fn add(commands: &mut BTreeMap<String, Syntax>, name: String, facts: &Reply) {
    if let Some(Reply::Map(subcommands)) = facts.field("subcommands") {
        for (name, facts) in subcommands {
            add(commands, name.text(), &facts);
        }
        return;
    }
    let group = facts.field("group").map_or(String::new(), |group| group.text());
    let arguments = arguments(facts);
    commands.insert(name.clone(), Syntax { name, group, arguments });
}

fn arguments(facts: &Reply) -> Vec<Argument> {
    match facts.field("arguments") {
        Some(Reply::Array(all)) => all.iter().map(Argument::of).collect(),
        _ => Vec::new(),
    }
}

impl Argument {
    fn of(facts: &Reply) -> Argument {
        let text = |name| facts.field(name).map(|value: Reply| value.text());
        let flags = match facts.field("flags") {
            Some(Reply::Array(flags)) => flags.iter().map(Reply::text).collect(),
            _ => Vec::new(),
        };
        let has = |flag: &str| flags.iter().any(|found: &String| found == flag);
        Argument {
            name: text("name").unwrap_or_default(),
            kind: text("type").unwrap_or_default(),
            token: text("token"),
            optional: has("optional"),
            multiple: has("multiple"),
            multiple_token: has("multiple_token"),
            parts: arguments(facts),
        }
    }
}

impl Syntax {
    /// Returns words that follow the syntax, except that options come in any order. A count of keys is nearly always
    /// right.
    pub(crate) fn words(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let mut writer = Writer { rng, syntax: self, words: Vec::new(), count_at: None };
        for name in self.name.split('|') {
            let name = any_case(writer.rng, name);
            writer.words.push(name);
        }
        let mut order: Vec<&Argument> = self.arguments.iter().collect();
        let first = order.iter().position(|argument| argument.optional).unwrap_or(order.len());
        let are_options = order[first..].iter().all(|argument| argument.optional);
        if are_options && writer.rng.u8(..3) == 0 {
            writer.rng.shuffle(&mut order[first..]);
        }
        for argument in order {
            writer.argument(argument);
        }
        writer.words
    }
}

/// Builds the words of one request.
struct Writer<'a> {
    rng: &'a mut Rng,
    syntax: &'a Syntax,
    words: Vec<Vec<u8>>,
    /// Position of the number of keys, while those keys have yet to be written.
    count_at: Option<usize>,
}

impl Writer<'_> {
    fn argument(&mut self, argument: &Argument) {
        if argument.optional && self.rng.u8(..10) < 6 {
            return;
        }
        let times = match argument.multiple {
            true => [1, 1, 1, 2, 2, 3][self.rng.usize(..6)],
            false => 1,
        };
        let counted = argument.kind == "key" && argument.multiple;
        if let Some(at) = self.count_at.take_if(|_| counted) {
            self.words[at] = times.to_string().into_bytes();
        }
        for time in 0..times {
            let token = argument.token.as_ref().filter(|_| argument.kind != "pure-token");
            if let Some(token) = token.filter(|_| time == 0 || argument.multiple_token) {
                let token = any_case(self.rng, token);
                self.words.push(token);
            }
            self.value(argument);
        }
    }

    fn value(&mut self, argument: &Argument) {
        match argument.kind.as_str() {
            // With an automatic id, each master would generate its own.
            "pure-token" if argument.name == "auto_id" => self.words.push(b"6-*".to_vec()),
            "pure-token" => {
                let token = any_case(self.rng, argument.token.as_deref().unwrap_or_default());
                self.words.push(token);
            }
            "oneof" => self.argument_of(argument),
            "block" => argument.parts.iter().for_each(|part| self.argument(part)),
            kind => {
                if argument.name == "numkeys" && self.rng.u8(..12) > 0 {
                    self.count_at = Some(self.words.len());
                }
                let place = Setting {
                    command: &self.syntax.name,
                    group: &self.syntax.group,
                    name: &argument.name,
                    kind,
                };
                let word = words::any(self.rng, &place);
                self.words.push(word);
            }
        }
    }

    fn argument_of(&mut self, argument: &Argument) {
        let parts = &argument.parts;
        let chosen = &parts[self.rng.usize(..parts.len())];
        self.argument(chosen);
    }
}

/// Returns a word in lower case, upper case, or mixed case.
pub(crate) fn any_case(rng: &mut Rng, word: &str) -> Vec<u8> {
    match rng.u8(..6) {
        0 => word.to_ascii_uppercase().into_bytes(),
        1 => {
            let upper = |byte: u8| if rng.bool() { byte.to_ascii_uppercase() } else { byte };
            word.bytes().map(upper).collect()
        }
        _ => word.as_bytes().to_vec(),
    }
}
