//! Redis's protocol, as far as the simulation's masters and clients speak it.
//!
//! Deliberately written separately from the proxy's own codecs: a bug shared by both ends of a
//! conversation would go unnoticed.

/// A reply from a master or the proxy.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Status(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
    /// Twice as many elements as entries; an array in RESP2.
    Map(Vec<Reply>),
}

impl Reply {
    pub fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::Bulk(text.into().into_bytes())
    }

    /// First word of an error.
    pub fn error_prefix(&self) -> Option<&str> {
        match self {
            Self::Error(text) => Some(text.split(' ').next().unwrap_or_default()),
            _ => None,
        }
    }

    pub fn encode(&self, resp3: bool, out: &mut Vec<u8>) {
        match self {
            Self::Status(text) => line(out, '+', text),
            Self::Error(text) => line(out, '-', text),
            Self::Int(number) => line(out, ':', number),
            Self::Nil => out.extend_from_slice(if resp3 { b"_\r\n" } else { b"$-1\r\n" }),
            Self::Bulk(bytes) => bulk(out, bytes),
            Self::Map(entries) if resp3 => aggregate(out, '%', entries.len() / 2, entries, resp3),
            Self::Array(elements) | Self::Map(elements) => {
                aggregate(out, '*', elements.len(), elements, resp3);
            }
        }
    }

    /// Decodes the reply (RESP2) at the start of `bytes`. Returns it and its length, or `None` if
    /// it is incomplete.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a reply.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let Some((line, mut at)) = first_line(bytes) else { return Ok(None) };
        let (kind, text) = line.split_at_checked(1).ok_or("an empty line")?;
        let number = || text.parse::<i64>().map_err(|_| format!("no number: {line}"));
        let reply = match kind {
            "+" => Self::Status(text.to_owned()),
            "-" => Self::Error(text.to_owned()),
            ":" => Self::Int(number()?),
            "$" | "*" if number()? < 0 => Self::Nil,
            "$" => {
                let len = number()? as usize;
                let Some(body) = bytes.get(at..at + len + 2) else { return Ok(None) };
                at += len + 2;
                Self::Bulk(body[..len].to_vec())
            }
            "*" => {
                let mut elements = Vec::new();
                for _ in 0..number()? {
                    let Some((element, len)) = Self::decode(&bytes[at..])? else { return Ok(None) };
                    elements.push(element);
                    at += len;
                }
                Self::Array(elements)
            }
            _ => return Err(format!("no reply: {line}")),
        };
        Ok(Some((reply, at)))
    }
}

/// Decodes the request at the start of `bytes`. Returns it and its length, or `None` if it is
/// incomplete.
///
/// # Panics
/// Panics if the bytes are not a request: masters only receive requests made by the proxy.
pub fn decode_request(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (Reply::Array(words), len) = Reply::decode(bytes).expect("the proxy sends requests")?
    else {
        panic!("the proxy sends arrays, not {:?}", String::from_utf8_lossy(bytes));
    };
    let word = |word| match word {
        Reply::Bulk(word) => word,
        other => panic!("the proxy sends bulk strings, not {other:?}"),
    };
    Some((words.into_iter().map(word).collect(), len))
}

pub fn encode_request(words: &[&[u8]], out: &mut Vec<u8>) {
    line(out, '*', words.len());
    words.iter().for_each(|word| bulk(out, word));
}

fn first_line(bytes: &[u8]) -> Option<(&str, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((std::str::from_utf8(&bytes[..end]).unwrap_or("?"), end + 2))
}

fn line(out: &mut Vec<u8>, kind: char, text: impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = write!(out, "{kind}{text}\r\n");
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    line(out, '$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn aggregate(out: &mut Vec<u8>, kind: char, count: usize, elements: &[Reply], resp3: bool) {
    line(out, kind, count);
    elements.iter().for_each(|element| element.encode(resp3, out));
}
