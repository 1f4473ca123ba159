//! One request of a sequence, and the way a person would send it.

use std::collections::HashMap;

use sha1_smol::Sha1;

use crate::support::encode;

/// One element of a sequence.
#[derive(Clone)]
pub(crate) struct Step {
    /// Index of its connection in [`CONNECTIONS`].
    pub(crate) connection: usize,
    pub(crate) words: Vec<Vec<u8>>,
    /// Whether to send it as a line of text instead of an array.
    pub(crate) inline: bool,
}

/// User and protocol version of each connection. The first user may do everything.
pub(crate) const CONNECTIONS: [(&str, &str); 4] =
    [("default", "2"), ("default", "3"), ("reader", "2"), ("writer", "3")];

/// Rules of the other users, whose password is `pw`.
pub(crate) const USERS: [&str; 2] = [
    "reader on >pw ~s* ~l1 ~z* &news* +@read +@connection +@scripting +@transaction +subscribe +publish -keys",
    "writer on >pw ~[a-l]* ~n1 allchannels +@all -@dangerous -hset",
];

/// Returns a step to be sent as an array.
pub(crate) fn step<W: Into<Vec<u8>>>(
    connection: usize,
    words: impl IntoIterator<Item = W>,
) -> Step {
    Step { connection, words: words.into_iter().map(Into::into).collect(), inline: false }
}

impl Step {
    /// Returns the bytes on the wire.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        if !self.inline {
            return encode(&self.words);
        }
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        (words.join(" ") + "\r\n").into_bytes()
    }

    /// Returns the name of the command in lower case.
    pub(crate) fn name(&self) -> String {
        self.words.first().map(|word| lower(word)).unwrap_or_default()
    }

    /// Returns whether it is a script or an `EXEC`, which run commands that the request does not name.
    pub(crate) fn is_program(&self) -> bool {
        let name = self.name();
        name.starts_with("eval") || name == "exec"
    }

    /// Returns the first two words, in the form of a subcommand's name.
    pub(crate) fn full_name(&self) -> String {
        let words: Vec<_> = self.words.iter().take(2).map(|word| lower(word)).collect();
        words.join("|")
    }

    /// Returns the step as a line for `redis-cli`.
    pub(crate) fn line(&self) -> String {
        let (user, version) = CONNECTIONS[self.connection];
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        let inline = if self.inline { " inline" } else { "" };
        format!("{} {user} RESP{version}{inline}> {}", self.connection, words.join(" "))
    }
}

/// Scripts that a sequence has named so far.
#[derive(Default)]
pub(crate) struct Scripts(HashMap<String, Vec<u8>>);

impl Scripts {
    /// Remembers the script in a request.
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

    /// Returns the words of a request. For a script these are its name and the string literals in its text.
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

/// Quotes a word for `redis-cli` and inline requests.
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
