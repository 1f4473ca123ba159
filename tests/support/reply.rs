//! A reply as tests compare it, in both versions of the protocol.

/// One reply. RESP2's null bulk, null array and RESP3's null are all `Nil`; a test that needs the
/// difference compares bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    /// RESP3's set, push, boolean, double, big number and verbatim string: the type mark and the
    /// text after it.
    Other(char, String),
}

impl Reply {
    /// Parses one reply from the front of `bytes`; returns `None` if it is not complete yet. Bytes
    /// that are not RESP fail the test.
    pub fn parse(bytes: &[u8]) -> Option<(Reply, usize)> {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let line = String::from_utf8_lossy(&bytes[1..end]).into_owned();
        let after = end + 2;
        match bytes[0] {
            b'+' => Some((Reply::Simple(line), after)),
            b'-' => Some((Reply::Error(line), after)),
            b':' => Some((Reply::Int(number(&line)), after)),
            b'_' => Some((Reply::Nil, after)),
            b'#' | b',' | b'(' => Some((Reply::Other(char::from(bytes[0]), line), after)),
            b'$' | b'=' => blob(bytes, number(&line), after),
            b'*' | b'~' | b'>' => series(bytes, number(&line), after)
                .map(|(items, after)| (items.map_or(Reply::Nil, Reply::Array), after)),
            b'%' => series(bytes, number(&line) * 2, after)
                .map(|(items, after)| (Reply::Map(pairs(items.unwrap_or_default())), after)),
            other => panic!("no reply starts with {:?}", char::from(other)),
        }
    }

    pub fn is_error(&self, prefix: &str) -> bool {
        matches!(self, Reply::Error(text) if text.starts_with(prefix))
    }

    /// A bulk string with these bytes.
    pub fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_vec())
    }

    pub fn ok() -> Reply {
        Reply::Simple("OK".to_owned())
    }

    /// Text of any string reply.
    pub fn text(&self) -> String {
        match self {
            Reply::Simple(text) | Reply::Error(text) | Reply::Other(_, text) => text.clone(),
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("no text in {other:?}"),
        }
    }

    /// Bytes of a bulk string.
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Reply::Bulk(bytes) => bytes,
            other => panic!("no bulk string: {other:?}"),
        }
    }

    /// Value of a field in a map, or in the flat array that RESP2 uses for maps.
    pub fn field(&self, name: &str) -> Option<Reply> {
        let fields = match self {
            Reply::Map(fields) => fields.clone(),
            Reply::Array(items) => pairs(items.clone()),
            _ => return None,
        };
        fields.into_iter().find(|(key, _)| *key == Reply::bulk(name)).map(|(_, value)| value)
    }
}

fn number(line: &str) -> i64 {
    line.parse().unwrap_or_else(|_| panic!("{line:?} should be a number"))
}

fn blob(bytes: &[u8], length: i64, start: usize) -> Option<(Reply, usize)> {
    let Ok(length) = usize::try_from(length) else { return Some((Reply::Nil, start)) };
    let content = bytes.get(start..start + length)?;
    let end = bytes.get(start + length..start + length + 2)?;
    assert_eq!(end, b"\r\n", "a bulk string is longer than it said");
    let reply = match bytes[0] {
        b'=' => Reply::Other('=', String::from_utf8_lossy(content).into_owned()),
        _ => Reply::Bulk(content.to_vec()),
    };
    Some((reply, start + length + 2))
}

/// Parses `count` consecutive replies; the null array gives no list at all.
fn series(bytes: &[u8], count: i64, start: usize) -> Option<(Option<Vec<Reply>>, usize)> {
    if count < 0 {
        return Some((None, start));
    }
    let mut items = Vec::new();
    let mut after = start;
    for _ in 0..count {
        let (item, length) = Reply::parse(bytes.get(after..).filter(|rest| !rest.is_empty())?)?;
        items.push(item);
        after += length;
    }
    Some((Some(items), after))
}

fn pairs(items: Vec<Reply>) -> Vec<(Reply, Reply)> {
    items.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}
