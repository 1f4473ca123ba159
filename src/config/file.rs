//! The settings file: TOML, with the same names as the flags.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Spanned, Value};

use super::setting::{Setting, Shape};
use super::table;
use super::typed::Typed;

/// Why a settings file could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum UnreadableFile {
    #[error("cannot read {}: {why}", path.display())]
    Io { path: PathBuf, why: io::Error },
    #[error("{} line {line}: {why}", path.display())]
    Syntax { path: PathBuf, line: usize, why: String },
}

/// A mistake in the text of a file.
#[derive(Debug)]
pub(crate) struct Mistake {
    line: usize,
    why: String,
}

impl Typed {
    /// Reads a settings file.
    pub(super) fn read_file(path: &Path) -> Result<Self, UnreadableFile> {
        let path_buf = || path.to_owned();
        let text = std::fs::read_to_string(path)
            .map_err(|why| UnreadableFile::Io { path: path_buf(), why })?;
        Self::from_toml(&text).map_err(|Mistake { line, why }| UnreadableFile::Syntax {
            path: path_buf(),
            line,
            why,
        })
    }

    /// Reads the text of a settings file.
    pub(crate) fn from_toml(text: &str) -> Result<Self, Mistake> {
        let mistake = |at, why| Mistake { line: line_of(text, at), why };
        let mut typed = Self::default();
        for (key, value) in entries(text)? {
            let unknown =
                || mistake(key.span().start, format!("unknown field `{}`", key.get_ref()));
            let setting = table::find(key.get_ref()).ok_or_else(unknown)?;
            let words = words(setting, value.get_ref());
            typed.put(setting.name, words.map_err(|why| mistake(value.span().start, why))?);
        }
        Ok(typed)
    }
}

fn entries(text: &str) -> Result<BTreeMap<Spanned<String>, Spanned<Value>>, Mistake> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        Mistake { line: line_of(text, at), why: on_one_line(error.message()) }
    })
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the words for a setting. A wrong value is not quoted, as it may be a password.
fn words(setting: &Setting, value: &Value) -> Result<Vec<String>, String> {
    let (words, expected) = match setting.shape {
        Shape::List => (
            with_commas(value).or_else(|| strings(value)),
            "a value must be a list of strings, or one string with commas",
        ),
        Shape::OnlyInFile => (strings(value), "users must be a list of strings"),
        _ => (scalar(value), "a value must be a string, a number, true or false"),
    };
    words.ok_or_else(|| expected.to_owned())
}

/// Splits a string of items at commas, as in the environment.
fn with_commas(value: &Value) -> Option<Vec<String>> {
    Some(value.as_str()?.split(',').map(str::to_owned).collect())
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Returns a string, or an unquoted number or boolean.
fn scalar(value: &Value) -> Option<Vec<String>> {
    let word = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        _ => return None,
    };
    Some(vec![word])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (text, line, why) in [
            ("workers = 1\nzeal = 1", 2, "unknown field `zeal`"),
            ("drift = [\n1]", 1, "a value must be a string, a number, true or false"),
            ("\nmasters = [1]", 2, "a value must be a list of strings, or one string with commas"),
            ("users = 'alice on >hunter2'", 1, "users must be a list of strings"),
        ] {
            let mistake = Typed::from_toml(text).err().unwrap();
            assert_eq!((mistake.line, mistake.why.as_str()), (line, why));
        }
    }

    #[test]
    fn a_list_is_written_in_two_ways_and_a_number_without_quotes() {
        let text = "lock-keys = 'a,b'\nadmin-host = ['c', 'd,e']\ndrift = 0.10\nallow-flush = true";
        let typed = Typed::from_toml(text).unwrap();
        assert_eq!(typed.list("lock-keys"), ["a", "b"]);
        assert_eq!(typed.list("admin-host"), ["c", "d,e"]);
        assert_eq!([typed.word("drift"), typed.word("allow-flush")], [Some("0.1"), Some("true")]);
    }
}
