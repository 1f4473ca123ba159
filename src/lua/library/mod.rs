//! Libraries of functions (`functions.c`): their first lines, and their stored form.
//!
//! A library is stored under its name in one register, a hash. Its content starts with a line of the names of its
//! functions, which `store.lua` compares. Its text and its functions follow as a RESP array.

use std::sync::Arc;

use bytes::Bytes;

use super::cache::Script;
use super::program::OfLibrary;
use super::program::shebang::FLAGS;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::{flat, inline};

/// Script that puts libraries into the register.
pub const STORE: &[u8] = include_bytes!("store.lua");

/// Script that removes a library.
pub const DELETE: &[u8] = include_bytes!("delete.lua");

/// Script that removes all libraries.
pub const FLUSH: &[u8] = include_bytes!("flush.lua");

/// Library of functions.
#[derive(Debug)]
pub struct Library {
    /// Name, of letters, digits and underscores.
    pub name: String,
    /// Text, as the client sent it.
    pub text: Bytes,
    /// Functions, sorted by name.
    pub functions: Vec<Function>,
}

/// Function of a library.
#[derive(Debug)]
pub struct Function {
    /// Name, of letters, digits and underscores.
    pub name: String,
    /// Description from the text of the library.
    pub description: Option<Bytes>,
    /// Bits in the order of [`Function::flags`].
    flags: usize,
    /// Script that masters run.
    pub script: Arc<Script>,
}

/// Text of a library with a valid first line.
#[derive(Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// Name in its first line.
    pub name: String,
    /// Code after the first line, from its line feed on.
    pub code: &'a [u8],
}

impl<'a> Text<'a> {
    /// Reads the first line: `#!lua name=...` (`functionExtractLibMetaData`).
    ///
    /// # Errors
    /// Returns Redis's error reply if the first line is invalid.
    pub fn parse(text: &'a [u8]) -> Result<Self, Reply> {
        if !text.starts_with(b"#!") {
            return Err(Reply::error("ERR Missing library metadata"));
        }
        let end = text.iter().position(|byte| *byte == b'\n');
        let (line, code) =
            text.split_at(end.ok_or_else(|| Reply::error("ERR Invalid library metadata"))?);
        let bad = |_| Reply::error("ERR Invalid library metadata");
        let mut words: Vec<Vec<u8>> = Vec::new();
        inline::split(line, |word| words.push(word.to_vec())).map_err(bad)?;
        let engine = words.first().map_or(&b""[..], |first| &first[2..]);
        let mut name = None;
        for word in words.iter().skip(1) {
            let parts = word.split_at_checked(NAME.len());
            let value =
                parts.filter(|(key, _)| key.eq_ignore_ascii_case(NAME)).map(|(_, value)| value);
            let value = value.ok_or_else(|| wrong_metadata(word))?;
            if name.replace(value).is_some() {
                return Err(Reply::error(TWO_NAMES));
            }
        }
        let name = name.ok_or_else(|| Reply::error("ERR Library name was not given"))?;
        let name = checked_name(name).ok_or_else(|| Reply::error(BAD_NAME))?.to_owned();
        if !engine.eq_ignore_ascii_case(b"lua") {
            let engine = String::from_utf8_lossy(engine);
            return Err(Reply::error(format!("ERR Engine '{engine}' not found")));
        }
        Ok(Self { name, code })
    }
}

impl Library {
    /// Creates the library of this text from the registration that masters return: for each function its name, whether
    /// it has a description, the description, and its flags. `None` if `registration` is in another format.
    pub fn registered(text: Bytes, registration: &[u8]) -> Option<Self> {
        let functions = flat::items(registration)?.into_iter().map(|function| {
            let mut words = flat::items(function)?.into_iter().map(flat::bulk);
            let mut next = || words.next().flatten();
            let (name, has_description, description) = (next()?, next()?, next()?);
            let flags =
                words.map(|flag| bit_of(flag?)).try_fold(0, |bits, bit| Some(bits | bit?))?;
            let description =
                (has_description == b"1").then(|| Bytes::copy_from_slice(description));
            Some((checked_name(name)?.to_owned(), description, flags))
        });
        Self::of(text, functions.collect::<Option<_>>()?)
    }

    /// Reads the stored form of a library. `None` if it is something else.
    pub fn stored(content: &[u8]) -> Option<Self> {
        let names = content.iter().position(|byte| *byte == b'\n')?;
        let words = flat::items(&content[names + 1..])?;
        let (text, functions) = words.split_first()?;
        let text = Bytes::copy_from_slice(flat::bulk(text)?);
        Self::of(text, Self::registered_words(functions)?)
    }

    fn registered_words(functions: &[&[u8]]) -> Option<Vec<(String, Option<Bytes>, usize)>> {
        let read = |words: &[&[u8]]| {
            let [name, description, flags] = words else { return None };
            let flags = parse_i64(flat::bulk(flags)?)?;
            let description = flat::bulk(description).map(Bytes::copy_from_slice);
            Some((checked_name(flat::bulk(name)?)?.to_owned(), description, flags as usize))
        };
        functions.chunks(3).map(read).collect()
    }

    fn of(text: Bytes, mut functions: Vec<(String, Option<Bytes>, usize)>) -> Option<Self> {
        let Text { name, code } = Text::parse(&text).ok()?;
        let code = text.slice_ref(code);
        functions.sort_unstable();
        let function = |(name, description, flags): (String, Option<Bytes>, usize)| {
            let called = OfLibrary { name: name.clone(), flags };
            let script = Arc::new(Script::of_library(code.clone(), called));
            Function { name, description, flags, script }
        };
        Some(Self { name, functions: functions.into_iter().map(function).collect(), text })
    }

    /// Returns the stored form.
    pub fn content(&self) -> Vec<u8> {
        let names: Vec<_> = self.functions.iter().map(|it| it.name.as_str()).collect();
        let mut content = names.join(" ").into_bytes();
        content.extend_from_slice(format!("\n*{}\r\n", 1 + 3 * names.len()).as_bytes());
        word(&mut content, &self.text);
        for function in &self.functions {
            word(&mut content, function.name.as_bytes());
            match &function.description {
                Some(description) => word(&mut content, description),
                None => content.extend_from_slice(b"$-1\r\n"),
            }
            word(&mut content, function.flags.to_string().as_bytes());
        }
        content
    }
}

impl Function {
    /// Returns the names of its flags, in Redis's order.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + '_ {
        FLAGS.iter().enumerate().filter(|(at, _)| self.flags >> at & 1 == 1).map(|(_, flag)| *flag)
    }
}

fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn bit_of(flag: &[u8]) -> Option<usize> {
    FLAGS.iter().position(|known| known.as_bytes() == flag).map(|at| 1 << at)
}

/// Returns the name of a library or function, if it is valid (`functionsVerifyName`).
fn checked_name(name: &[u8]) -> Option<&str> {
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = Some(name).filter(|name| !name.is_empty() && name.iter().all(is_good))?;
    std::str::from_utf8(name).ok()
}

fn wrong_metadata(word: &[u8]) -> Reply {
    Reply::error(format!("ERR Invalid metadata value given: {}", String::from_utf8_lossy(word)))
}

const NAME: &[u8] = b"name=";

const TWO_NAMES: &str = "ERR Invalid metadata value, name argument was given multiple times";

const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                        character long";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read_as_redis_reads_it() {
        let text = b"#!LUA  NAME=my_lib1\nreturn 1";
        let expected = Text { name: "my_lib1".to_owned(), code: b"\nreturn 1" };
        assert_eq!(Text::parse(text), Ok(expected));
        for (text, why) in [
            ("", "Missing library metadata"),
            ("return 1", "Missing library metadata"),
            ("#!lua name=a", "Invalid library metadata"),
            ("#!js name=a\n", "Engine 'js' not found"),
            ("#!lua\n", "Library name was not given"),
            ("#!lua name=a b=c\n", "Invalid metadata value given: b=c"),
            ("#!lua name=a name=b\n", &TWO_NAMES[4..]),
            ("#! lua name=a\n", "Invalid metadata value given: lua"),
            ("#!lua \"name=a\n", "Invalid library metadata"),
            ("#!lua name=\n", &BAD_NAME[4..]),
            ("#!lua name=a-b\n", &BAD_NAME[4..]),
        ] {
            assert_eq!(
                Text::parse(text.as_bytes()),
                Err(Reply::error(format!("ERR {why}"))),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_kept_of_a_library_makes_it_again() {
        let text = Bytes::from_static(b"#!lua name=l\nreturn 1\r\n");
        let told = b"*2\r\n*3\r\n$1\r\ng\r\n$1\r\n0\r\n$0\r\n\r\n*5\r\n$1\r\nf\r\n$1\r\n1\r\n$3\r\na\nb\r\n\
                     $9\r\nno-writes\r\n$9\r\nallow-oom\r\n";
        let library = Library::registered(text.clone(), told).unwrap();
        let content = library.content();
        assert!(content.starts_with(b"f g\n*7\r\n"));
        let again = Library::stored(&content).unwrap();
        assert_eq!((&again.name[..], &again.text), ("l", &text));
        let shown = |library: &Library| {
            let of = |it: &Function| {
                (it.name.clone(), it.description.clone(), it.flags().collect::<Vec<_>>())
            };
            library.functions.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(shown(&again), shown(&library));
        let f = ("f".to_owned(), Some(Bytes::from_static(b"a\nb")), vec!["no-writes", "allow-oom"]);
        assert_eq!(shown(&again), [f, ("g".to_owned(), None, vec![])]);
        assert!(Library::stored(b"f\nx").is_none() && Library::stored(b"").is_none());
    }
}
