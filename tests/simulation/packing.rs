//! The parts of Redis's Lua packing libraries that the proxy's scripts use: `struct` for bytes and
//! 8-byte numbers, and `cmsgpack.pack`.

use mlua::{Lua, LuaString, MultiValue, Table, Value};
use rmp::encode::{self, ByteBuf};

/// `cmsgpack` nests no deeper (`LUACMSGPACK_MAX_NESTING` in `lua_cmsgpack.c`).
const DEEPEST: usize = 16;

pub fn add_to(lua: &Lua) -> mlua::Result<()> {
    let numbers = lua.create_table()?;
    numbers.set("pack", lua.create_function(pack_number)?)?;
    numbers.set("unpack", lua.create_function(unpack)?)?;
    lua.globals().set("struct", numbers)?;
    let messages = lua.create_table()?;
    messages.set("pack", lua.create_function(|lua, value| pack(lua, &value))?)?;
    lua.globals().set("cmsgpack", messages)
}

/// `struct.pack('>I8', number)`
fn pack_number(lua: &Lua, (format, number): (String, f64)) -> mlua::Result<LuaString> {
    assert_eq!(format, ">I8", "masters of a simulation pack 8 bytes");
    // Negative numbers convert as in C (`putinteger` in `lua_struct.c`).
    let bits = if number < 0.0 { number as i64 as u64 } else { number as u64 };
    lua.create_string(bits.to_be_bytes())
}

/// `struct.unpack(format, text)`: returns the fields and the position after them. A format is a
/// sequence of `c` with a length, for that many bytes, and `>I8`, for a number.
fn unpack(lua: &Lua, (format, text): (String, LuaString)) -> mlua::Result<MultiValue> {
    let (mut fields, text) = (MultiValue::new(), text.as_bytes());
    let (mut format, mut at) = (format.as_str(), 0);
    let take = |at: usize, length: usize| {
        let taken = text.get(at..at + length);
        taken.ok_or_else(|| mlua::Error::runtime("data string too short"))
    };
    while !format.is_empty() {
        if let Some(rest) = format.strip_prefix(">I8") {
            let bytes = take(at, 8)?.first_chunk().expect("8 bytes");
            fields.push_back(Value::Number(u64::from_be_bytes(*bytes) as f64));
            (format, at) = (rest, at + 8);
        } else {
            let rest = format
                .strip_prefix('c')
                .expect("masters of a simulation unpack bytes and numbers of 8");
            let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
            let length = rest[..digits].parse().expect("a length");
            fields.push_back(Value::String(lua.create_string(take(at, length)?)?));
            (format, at) = (&rest[digits..], at + length);
        }
    }
    fields.push_back(Value::Number((at + 1) as f64));
    Ok(fields)
}

fn pack(lua: &Lua, value: &Value) -> mlua::Result<LuaString> {
    let mut out = ByteBuf::new();
    append(&mut out, value, 0)?;
    lua.create_string(out.as_slice())
}

/// `mp_encode_lua_type`. Writing to memory never fails.
fn append(out: &mut ByteBuf, value: &Value, depth: usize) -> mlua::Result<()> {
    let in_memory = "a buffer takes anything";
    match value {
        Value::Boolean(it) => encode::write_bool(out, *it).expect(in_memory),
        Value::Integer(it) => _ = encode::write_sint(out, *it).expect(in_memory),
        Value::Number(it) if *it == *it as i64 as f64 => {
            encode::write_sint(out, *it as i64).expect(in_memory);
        }
        Value::Number(it) if *it == f64::from(*it as f32) => {
            encode::write_f32(out, *it as f32).expect(in_memory);
        }
        Value::Number(it) => encode::write_f64(out, *it).expect(in_memory),
        Value::String(text) => {
            let text = text.as_bytes();
            encode::write_str_len(out, text.len() as u32).expect(in_memory);
            out.as_mut_vec().extend_from_slice(&text);
        }
        Value::Table(table) if depth < DEEPEST => append_table(out, table, depth + 1)?,
        _ => encode::write_nil(out).expect(in_memory),
    }
    Ok(())
}

/// A table is an array if its keys are exactly the numbers from 1 on, and a map otherwise.
fn append_table(out: &mut ByteBuf, table: &Table, depth: usize) -> mlua::Result<()> {
    let in_memory = "a buffer takes anything";
    let pairs = table.pairs::<Value, Value>().collect::<mlua::Result<Vec<_>>>()?;
    let is_place = |(key, _): &(Value, Value)| {
        let place = key.as_f64().or(key.as_i64().map(|it| it as f64));
        place.is_some_and(|it| it.fract() == 0.0 && (1.0..=pairs.len() as f64).contains(&it))
    };
    if pairs.iter().all(is_place) {
        encode::write_array_len(out, pairs.len() as u32).expect(in_memory);
        return (1..=pairs.len()).try_for_each(|at| append(out, &table.raw_get(at)?, depth));
    }
    encode::write_map_len(out, pairs.len() as u32).expect(in_memory);
    pairs.iter().try_for_each(|(key, value)| {
        append(out, key, depth)?;
        append(out, value, depth)
    })
}
