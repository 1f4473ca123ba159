//! Replies from stamps. A stamp has what a script returned in MessagePack, as `cmsgpack.pack` writes it
//! (`lua_cmsgpack.c`). This module converts it to the RESP3 frame that Redis makes from the same value
//! (`luaReplyToRedisReply` in `script_lua.c`). The messages that the script published follow it.

use crate::operation::program::Message;

/// Returns the frame and the published messages; `None` if this is not a packed reply.
pub fn reply(packed: &[u8]) -> Option<(Vec<u8>, Vec<Message>)> {
    let mut rest = packed;
    let reply = frame(&mut rest)?;
    let messages = match rest {
        [] => Vec::new(),
        _ => Message::parse_all(&frame(&mut rest)?)?,
    };
    rest.is_empty().then_some((reply, messages))
}

/// Reads the next value as a frame.
fn frame(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut frame = Vec::with_capacity(rest.len() + 16);
    write(&value(rest, 0)?, &mut frame);
    Some(frame)
}

/// Values that Lua can return.
enum Value<'a> {
    Nil,
    False,
    True,
    Number(i64),
    Double(f64),
    Text(&'a [u8]),
    List(Vec<Value<'a>>),
    Table(Vec<(Value<'a>, Value<'a>)>),
}

/// Deepest nesting that `cmsgpack` writes.
const DEEPEST: usize = 16;

fn value<'a>(rest: &mut &'a [u8], depth: usize) -> Option<Value<'a>> {
    if depth > DEEPEST {
        return None;
    }
    let first = *take(rest, 1)?.first()?;
    Some(match first {
        0xc0 => Value::Nil,
        0xc2 => Value::False,
        0xc3 => Value::True,
        0x00..=0x7f => Value::Number(first.into()),
        0xe0..=0xff => Value::Number(i64::from(first as i8)),
        0xcc..=0xcf => Value::Number(unsigned(rest, 1 << (first - 0xcc))?.cast_signed()),
        0xd0 => Value::Number(unsigned(rest, 1)?.cast_signed() << 56 >> 56),
        0xd1 => Value::Number(unsigned(rest, 2)?.cast_signed() << 48 >> 48),
        0xd2 => Value::Number(unsigned(rest, 4)?.cast_signed() << 32 >> 32),
        0xd3 => Value::Number(unsigned(rest, 8)?.cast_signed()),
        0xca => Value::Double(f32::from_bits(unsigned(rest, 4)? as u32).into()),
        0xcb => Value::Double(f64::from_bits(unsigned(rest, 8)?)),
        0xa0..=0xbf => Value::Text(take(rest, usize::from(first & 0x1f))?),
        0xd9..=0xdb => {
            let length = unsigned(rest, 1 << (first - 0xd9))?;
            Value::Text(take(rest, usize::try_from(length).ok()?)?)
        }
        0x90..=0x9f => list(rest, u64::from(first & 0x0f), depth)?,
        0xdc | 0xdd => {
            let length = unsigned(rest, 2 << (first - 0xdc))?;
            list(rest, length, depth)?
        }
        0x80..=0x8f => table(rest, u64::from(first & 0x0f), depth)?,
        0xde | 0xdf => {
            let length = unsigned(rest, 2 << (first - 0xde))?;
            table(rest, length, depth)?
        }
        _ => return None,
    })
}

fn list<'a>(rest: &mut &'a [u8], length: u64, depth: usize) -> Option<Value<'a>> {
    (0..length).map(|_| value(rest, depth + 1)).collect::<Option<_>>().map(Value::List)
}

fn table<'a>(rest: &mut &'a [u8], length: u64, depth: usize) -> Option<Value<'a>> {
    let entry = |_| Some((value(rest, depth + 1)?, value(rest, depth + 1)?));
    (0..length).map(entry).collect::<Option<_>>().map(Value::Table)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// Reads a number of `bytes` bytes, highest byte first.
fn unsigned(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    let digits = take(rest, bytes)?;
    Some(digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit)))
}

fn write(value: &Value<'_>, frame: &mut Vec<u8>) {
    match value {
        Value::Nil | Value::False => frame.extend_from_slice(b"_\r\n"),
        Value::True => frame.extend_from_slice(b":1\r\n"),
        Value::Number(number) => line(frame, ':', number.to_string().as_bytes()),
        // Rounded towards zero, as in C.
        Value::Double(number) => line(frame, ':', (*number as i64).to_string().as_bytes()),
        Value::Text(text) => {
            line(frame, '$', text.len().to_string().as_bytes());
            frame.extend_from_slice(text);
            frame.extend_from_slice(b"\r\n");
        }
        Value::List(items) => {
            // Lua's lists end at the first null.
            let items: Vec<_> =
                items.iter().take_while(|item| !matches!(item, Value::Nil)).collect();
            write_items(frame, '*', items.len(), &items);
        }
        Value::Table(entries) => write_table(entries, frame),
    }
}

fn write_items(frame: &mut Vec<u8>, marker: char, length: usize, items: &[&Value<'_>]) {
    line(frame, marker, length.to_string().as_bytes());
    items.iter().for_each(|item| write(item, frame));
}

fn write_table(entries: &[(Value<'_>, Value<'_>)], frame: &mut Vec<u8>) {
    let named = |name: &str| {
        let is_it = |key: &Value<'_>| matches!(key, Value::Text(key) if *key == name.as_bytes());
        entries.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
    };
    let pairs = |value: &'_ Value<'_>| match value {
        Value::Table(entries) => entries.len(),
        _ => 0,
    };
    if let Some(Value::Text(error)) = named("err") {
        return line(frame, '-', error);
    }
    if let Some(Value::Text(status)) = named("ok") {
        return line(frame, '+', status);
    }
    match named("double") {
        Some(Value::Number(number)) => return line(frame, ',', number.to_string().as_bytes()),
        Some(Value::Double(number)) => return line(frame, ',', number.to_string().as_bytes()),
        _ => {}
    }
    if let Some(map @ Value::Table(entries)) = named("map") {
        line(frame, '%', pairs(map).to_string().as_bytes());
        return entries.iter().for_each(|(key, value)| {
            write(key, frame);
            write(value, frame);
        });
    }
    if let Some(set @ Value::Table(entries)) = named("set") {
        line(frame, '~', pairs(set).to_string().as_bytes());
        return entries.iter().for_each(|(item, _)| write(item, frame));
    }
    if let Some(Value::Text(number)) = named("big_number") {
        return line(frame, '(', number);
    }
    // A list with holes ends at the first hole.
    let at = |index: i64| {
        let is_it = |key: &Value<'_>| matches!(key, Value::Number(key) if *key == index);
        entries.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
    };
    let items = (1..).map_while(|index| at(index).filter(|item| !matches!(item, Value::Nil)));
    let items: Vec<_> = items.collect();
    write_items(frame, '*', items.len(), &items);
}

/// Appends a line. Line breaks in `text` become spaces, as in Redis.
fn line(frame: &mut Vec<u8>, marker: char, text: &[u8]) {
    frame.push(marker as u8);
    frame.extend(text.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }));
    frame.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_a_stamp_holds_is_read_without_a_panic(packed: Vec<u8>) {
            let _ = reply(&packed);
        }
    }

    #[test]
    fn a_reply_that_is_cut_is_none() {
        assert_eq!(reply(b"\x92\xa1a"), None);
        assert_eq!(reply(b"\xa1ab"), None);
        assert_eq!(reply(b""), None);
        let list = (b"*2\r\n$1\r\na\r\n:7\r\n".to_vec(), Vec::new());
        assert_eq!(reply(b"\x92\xa1a\x07"), Some(list));
    }

    #[test]
    fn what_was_published_stands_behind_the_reply() {
        let message = Message::Published { shard: false, channel: "c".into(), payload: "m".into() };
        let published = b"\x07\x93\xa7publish\xa1c\xa1m";
        assert_eq!(reply(published), Some((b":7\r\n".to_vec(), vec![message])));
        assert_eq!(reply(&published[..published.len() - 1]), None);
        assert_eq!(reply(&[published, &b"\xc0"[..]].concat()), None);
    }
}
