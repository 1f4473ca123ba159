//! Runs scripts as Redis does, with Lua itself, so that the simulation explores the proxy's own
//! scripts and not an imitation.

use std::collections::HashMap;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::packing;
use super::resp::Reply;

/// Lua and its compiled scripts. All masters share it, because scripts keep nothing between calls.
pub struct Scripts {
    lua: Lua,
    compiled: HashMap<String, Function>,
}

/// Raises errors as the table that Redis raises, and gives scripts the rest of their library.
const LIBRARY: &str = r#"
local library = {}
function library.call(...)
  local reply = redis.command(...)
  if type(reply) == 'table' and reply.err then
    error(reply, 0)
  end
  return reply
end
function library.pcall(...)
  return redis.command(...)
end
function library.status_reply(text) return { ok = text } end
function library.error_reply(text) return { err = text } end
function library.setresp() end
redis = library
"#;

impl Scripts {
    pub fn new() -> Self {
        let lua = Lua::new();
        lua.load(LIBRARY).exec().expect("the library is Lua");
        let sha1hex = lua.create_function(|_, text: mlua::LuaString| Ok(sha1(&text.as_bytes())));
        let library: Table = lua.globals().get("redis").expect("it was just set");
        library.set("sha1hex", sha1hex.expect("a function")).expect("a table takes anything");
        packing::add_to(&lua).expect("tables take anything");
        Self { lua, compiled: HashMap::new() }
    }

    /// Compiles `text`. Returns an error if it is not Lua.
    pub fn compile(&mut self, text: &[u8]) -> Result<String, Reply> {
        let sha = sha1(text);
        if !self.compiled.contains_key(&sha) {
            let chunk = self.lua.load(text).set_name("@user_script");
            let function = chunk.into_function().map_err(|why| {
                Reply::error(format!("ERR Error compiling script (new function): {why}"))
            })?;
            self.compiled.insert(sha.clone(), function);
        }
        Ok(sha)
    }

    /// Runs a compiled script; `command` implements `redis.call`.
    pub fn run(
        &self,
        sha: &str,
        keys: &[Vec<u8>],
        argv: &[Vec<u8>],
        mut command: impl FnMut(Vec<Vec<u8>>) -> Reply,
    ) -> Reply {
        let done = self.lua.scope(|scope| {
            let globals = self.lua.globals();
            globals.set("KEYS", self.words(keys)?)?;
            globals.set("ARGV", self.words(argv)?)?;
            let redis: Table = globals.get("redis")?;
            let command = scope.create_function_mut(|lua, words: MultiValue| {
                let words = words.into_iter().map(|it| word(lua, it));
                let words = words.collect::<mlua::Result<_>>()?;
                to_lua(lua, command(words))
            })?;
            redis.set("command", command)?;
            self.compiled[sha].call::<Value>(())
        });
        match done {
            Ok(value) => from_lua(&value).unwrap_or_else(|why| Reply::error(format!("ERR {why}"))),
            Err(why) => failed(&why),
        }
    }

    fn words(&self, words: &[Vec<u8>]) -> mlua::Result<Table> {
        let words = words.iter().map(|word| self.lua.create_string(word));
        self.lua.create_sequence_from(words.collect::<mlua::Result<Vec<_>>>()?)
    }
}

pub fn sha1(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).hexdigest()
}

/// Converts an argument of a command. Numbers are formatted as in `luaArgsToRedisArgv` in
/// `script_lua.c`.
fn word(lua: &Lua, value: Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 1e17 => {
            Ok(format!("{number}").into_bytes())
        }
        Value::Number(number) => {
            let format: Function = lua.globals().get::<Table>("string")?.get("format")?;
            Ok(format.call::<mlua::LuaString>(("%.17g", number))?.as_bytes().to_vec())
        }
        other => Err(mlua::Error::runtime(format!("no argument: {other:?}"))),
    }
}

/// Converts a reply (RESP2) to Lua as Redis does.
fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    let table = |name: &str, text: String| {
        let table = lua.create_table()?;
        table.set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Status(text) => table("ok", text),
        Reply::Error(text) => table("err", text),
        Reply::Int(number) => Ok(Value::Number(number as f64)),
        Reply::Bulk(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Array(elements) | Reply::Map(elements) => {
            let elements = elements.into_iter().map(|element| to_lua(lua, element));
            let elements = elements.collect::<mlua::Result<Vec<_>>>()?;
            Ok(Value::Table(lua.create_sequence_from(elements)?))
        }
    }
}

/// Converts a script's return value to a reply.
fn from_lua(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Some(text) = table.raw_get::<Option<String>>("ok")? {
                return Ok(Reply::Status(text));
            }
            if let Some(text) = table.raw_get::<Option<String>>("err")? {
                return Ok(Reply::Error(text));
            }
            let elements = (1..).map(|at| table.raw_get(at));
            let elements = elements.take_while(|it| !matches!(it, Ok(Value::Nil)));
            Reply::Array(elements.map(|it| from_lua(&it?)).collect::<mlua::Result<_>>()?)
        }
        _ => Reply::Nil,
    })
}

fn failed(why: &mlua::Error) -> Reply {
    Reply::error(format!("ERR {}", why.to_string().replace(['\r', '\n'], " ")))
}

#[test]
fn a_key_that_is_copied_in_its_last_millisecond_does_not_stay_for_ever() {
    use super::keyspace::Keyspace;
    use redlock_proxy::lua::keyspace::on_stamps;

    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let (mut keys, mut scripts) = (Keyspace::default(), Scripts::new());
    let mut command = |now_ms, words: &[Vec<u8>]| keys.command(now_ms, words).expect("it is known");
    command(0, &words(&[b"SET", b"key", b"token", b"PX", b"10"]));
    let Reply::Bulk(dump) = command(10, &words(&[b"DUMP", b"key"])) else { panic!("it is there") };
    assert_eq!(command(10, &words(&[b"PTTL", b"key"])), Reply::Int(0));
    command(10, &words(&[b"SET", b"redlock-proxy:mark", b"? 7 0;0 0"]));
    let paste = [
        include_str!("../../src/lua/program/digest.lua"),
        include_str!("../../src/lua/copy/paste.lua"),
    ];
    let sha = scripts.compile(on_stamps(&paste.concat()).as_bytes()).expect("it is Lua");
    let argv = words(&[b"0", b"? 7 0;", b"", b"d", &dump, b"0"]);
    let keys = words(&[b"redlock-proxy:mark", b"other"]);
    let pasted = scripts.run(&sha, &keys, &argv, |words| match &words[0][..] {
        b"SELECT" => Reply::ok(),
        _ => command(10, &words),
    });
    assert_eq!(pasted, Reply::Int(1));
    assert_ne!(command(10, &words(&[b"PTTL", b"other"])), Reply::Int(-1), "it has no end");
}
