//! Replies of `XREAD` and `XREADGROUP`: streams with their entries.

use bytes::Bytes;

use crate::resp::flat;
use crate::resp::reply::{Protocol, Reply};

/// Returns the reply of a master or a program in the client's form: a map for RESP3, an array of pairs for RESP2.
/// Masters speak RESP3; programs make pairs, because Lua's maps have no order. `frame` is a part of `raw`.
pub(super) fn reply(raw: &Bytes, frame: &[u8], protocol: Protocol) -> Reply {
    match streams(raw, frame) {
        Some(streams) if protocol == Protocol::Resp3 => Reply::Map(streams),
        Some(streams) => {
            let pair = |(name, entries)| Reply::Array(vec![name, entries]);
            Reply::Array(streams.into_iter().map(pair).collect())
        }
        None if frame == b"_\r\n" => Reply::NilArray,
        None => Reply::Raw(raw.slice_ref(frame)),
    }
}

/// Returns the names of streams, each with its entries, or `None` if `frame` is something else.
fn streams(raw: &Bytes, frame: &[u8]) -> Option<Vec<(Reply, Reply)>> {
    let element = flat::elements(frame).next()?;
    let count: usize = std::str::from_utf8(element.line).ok()?.parse().ok()?;
    let mut rest = &frame[element.bytes.len()..];
    let mut streams = Vec::new();
    for _ in 0..count {
        let (name, of_it) = match element.marker {
            b'%' => {
                let (name, after) = flat::split_frame(rest)?;
                let (of_it, after) = flat::split_frame(after)?;
                rest = after;
                (name, of_it)
            }
            b'*' => {
                let (pair, after) = flat::split_frame(rest)?;
                rest = after;
                let [name, of_it] = flat::items(pair)?[..] else { return None };
                (name, of_it)
            }
            _ => return None,
        };
        streams.push((Reply::Raw(raw.slice_ref(name)), entries(raw, of_it)?));
    }
    Some(streams)
}

/// Returns the entries of a stream. A deleted entry has a null array for its fields.
fn entries(raw: &Bytes, frame: &[u8]) -> Option<Reply> {
    let is_deleted = |entry: &[u8]| entry.ends_with(b"\r\n_\r\n");
    let entries = flat::items(frame)?;
    if !entries.iter().any(|entry| is_deleted(entry)) {
        return Some(Reply::Raw(raw.slice_ref(frame)));
    }
    let entry = |entry: &[u8]| match flat::items(entry).as_deref() {
        Some([id, b"_\r\n"]) => Reply::Array(vec![Reply::Raw(raw.slice_ref(id)), Reply::NilArray]),
        _ => Reply::Raw(raw.slice_ref(entry)),
    };
    Some(Reply::Array(entries.into_iter().map(entry).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::output::Output;

    fn told(frame: &'static str, protocol: Protocol) -> String {
        let raw = Bytes::from(frame);
        let mut out = Output::default();
        reply(&raw, &raw, protocol).encode(protocol, &mut out);
        String::from_utf8(out.into_bytes().to_vec()).expect("text").replace("\r\n", " ")
    }

    #[test]
    fn a_map_of_masters_and_pairs_of_programs_are_the_same() {
        let map = "%1\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
        let pairs = "*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
        for frame in [map, pairs] {
            assert_eq!(told(frame, Protocol::Resp3), map.replace("\r\n", " "));
            assert_eq!(told(frame, Protocol::Resp2), pairs.replace("\r\n", " "));
        }
    }

    #[test]
    fn what_is_deleted_or_absent_is_a_null_array() {
        assert_eq!(told("_\r\n", Protocol::Resp2), "*-1 ");
        assert_eq!(told("-ERR x\r\n", Protocol::Resp2), "-ERR x ");
        let deleted = "*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n1-1\r\n_\r\n";
        assert_eq!(told(deleted, Protocol::Resp2), "*1 *2 $1 x *1 *2 $3 1-1 *-1 ");
        assert_eq!(told(deleted, Protocol::Resp3), "%1 $1 x *1 *2 $3 1-1 _ ");
    }
}
