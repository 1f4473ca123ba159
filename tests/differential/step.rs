//! One request of a sequence, and how a person would send it.

use std::collections::HashMap;

use sha1_smol::Sha1;

use crate::support::encode;

/// What a sequence consists of.
#[derive(Clone)]
pub(crate) struct Step {
    /// Which of [`CONNECTIONS`] sends it.
    pub(crate) connection: usize,
    pub(crate) words: Vec<Vec<u8>>,
    /// As a line of text instead of an array.
    pub(crate) inline: bool,
}

/// User and version of the protocol of each connection. The first user may do everything.
pub(crate) const CONNECTIONS: [(&str, &str); 4] =
    [("default", "2"), ("default", "3"), ("reader", "2"), ("writer", "3")];

/// Rules of the other users, and the password `pw`.
pub(crate) const USERS: [&str; 2] = [
    "reader on >pw ~s* ~l1 ~z* &news* +@read +@connection +@scripting +@transaction +subscribe +publish -keys",
    "writer on >pw ~[a-l]* ~n1 allchannels +@all -@dangerous -hset",
];

/// A step that is sent as an array.
pub(crate) fn step<W: Into<Vec<u8>>>(
    connection: usize,
    words: impl IntoIterator<Item = W>,
) -> Step {
    Step { connection, words: words.into_iter().map(Into::into).collect(), inline: false }
}

impl Step {
    /// The bytes on the wire.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        if !self.inline {
            return encode(&self.words);
        }
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        (words.join(" ") + "\r\n").into_bytes()
    }

    /// The words up to the first that is no name, in lower case.
    pub(crate) fn name(&self) -> String {
        self.words.first().map(|word| lower(word)).unwrap_or_default()
    }

    /// Whether commands run that it does not name, or not alone.
    pub(crate) fn is_program(&self) -> bool {
        let name = self.name();
        name.starts_with("eval") || name == "exec"
    }

    /// The first two words, as the name of a subcommand has them.
    pub(crate) fn full_name(&self) -> String {
        let words: Vec<_> = self.words.iter().take(2).map(|word| lower(word)).collect();
        words.join("|")
    }

    /// As `redis-cli` reads it.
    pub(crate) fn line(&self) -> String {
        let (user, version) = CONNECTIONS[self.connection];
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        let inline = if self.inline { " inline" } else { "" };
        format!("{} {user} RESP{version}{inline}> {}", self.connection, words.join(" "))
    }
}

/// The scripts that a sequence has named so far.
#[derive(Default)]
pub(crate) struct Scripts(HashMap<String, Vec<u8>>);

impl Scripts {
    /// Takes note of the script in a request.
    pub(crate) fn note(&mut self, step: &Step) {
        let place = match step.full_name().as_str() {
            "script|load" => 2,
            name if name.starts_with("eval") => 1,
            _ => return,
        };
        if let Some(text) = step.words.get(place) {
            self.0.insert(Sha1::from(text).hexdigest(), text.clone());
        }
    }

    /// The words of a request: those of a script are its name and the strings in the text that it runs.
    pub(crate) fn words_of(&self, step: &Step) -> Vec<String> {
        let all: Vec<_> = step.words.iter().map(|word| lower(word)).collect();
        if !step.name().starts_with("eval") {
            return all;
        }
        let named = all.get(1).map(String::as_str).unwrap_or_default();
        let text = self.0.get(named).map_or_else(|| named.to_owned(), |text| lower(text));
        let strings = text.split('\'').skip(1).step_by(2).map(str::to_owned);
        all.into_iter().take(1).chain(strings).collect()
    }
}

pub(crate) fn lower(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

/// A word as `redis-cli` and inline requests want it.
fn quoted(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let escape = |byte: &u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    format!("\"{}\"", word.iter().map(escape).collect::<String>())
}
