//! Any script, wrapped so that the masters can vote on what it does.
//!
//! The client's text becomes a function of its own, followed by ours, which calls it. It keeps its line
//! numbers because nothing but the head of that function comes before it, on the same line; it cannot
//! see our names because all but one are declared after it.
//!
//! A script that names all its commands, as lock scripts do, reads as if we were not there, and its other
//! calls go to functions of ours. Any other script is given another `redis` table. A master makes every
//! function and table of a program anew each time it runs it, and that costs it more than the script
//! does: nothing is made before it is needed, and a program has only what its script can need.
//!
//! * `head.lua` takes what the proxy has added to the arguments;
//! * `shim.lua` keeps images of what is about to change and holds messages back, `ttl.lua` pads times to
//!   live, `hidden.lua` and `completes.lua` hide what only the proxy may use, `rare.lua` knows unusual commands;
//! * `redis.lua` is the other `redis`, and `globals.lua` the list of all other globals, for a script that could
//!   find the real one: both are parameters of a function around it, so that it shares no variable with us;
//! * `guard.lua` keeps the script to the rules of a user who may not do everything, and `known.lua` away from
//!   globals that nobody knows;
//! * `tags.lua` takes the tags off the leases among its keys, and `tags_back.lua` puts them back;
//! * `run.lua` calls the script and gathers what it did, `explain.lua` says why it failed, and `harmless.lua`
//!   takes out of its reply what could end a master;
//! * `transaction.lua` is the script of a `MULTI`, and `digest.lua` what its `WATCH` compares.

mod handlers;
mod names;
mod parts;
mod place;
mod scan;
pub(super) mod shebang;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sha1_smol::Sha1;

use super::work::steps;
use super::{keyspace, runner};
use crate::acl::guard::Guard;
use crate::command::zero;
use crate::config::Settings;
use crate::decision::lease::pad::Pad;
use crate::{pubsub, reserved};
use handlers::{Handler, READ, rare};
use parts::{Statement, compact, statements};
pub(super) use place::Place;
use scan::Scan;
pub use shebang::split_shebang;

/// A text as masters get it.
#[derive(Debug)]
pub struct Program {
    /// The whole text.
    pub text: Vec<u8>,
    /// Its SHA1, in hex.
    pub sha: String,
    /// How long the shebang at its beginning is.
    shebang: usize,
    /// Whether masters keep it.
    pub(super) place: Place,
}

/// What is done about times to live.
#[derive(Clone, Copy, Debug)]
pub struct Ttls {
    /// How much longer masters keep a key.
    pub pad: Pad,
    /// The longest that a script may ask for (`--max-ttl`).
    pub longest: Option<Duration>,
}

impl Program {
    /// The client's script `text`, whose SHA1 is `sha`.
    pub fn wrap(text: &[u8], sha: &str, ttls: Ttls) -> Self {
        Self::wrap_in(&VOTED, text, sha, ttls, None, false)
    }

    /// The same for registers: it runs on what its keys must hold, and leaves stamps. `keyspace/one.lua` begins programs
    /// of one key, of which `keyspace/cheap.lua` makes the frequent calls and `keyspace/run.lua` the stamp; for all others
    /// that is `head.lua`, `save.lua` and `stamps.lua` there.
    pub fn on_registers(text: &[u8], sha: &str, ttls: Ttls) -> Self {
        Self::wrap_in(&REGISTERS, text, sha, ttls, None, false)
    }

    /// The same for a script that is run read-only: all its calls are looked at.
    pub fn wrap_reading(text: &[u8], sha: &str, ttls: Ttls) -> Self {
        Self::wrap_in(&VOTED, text, sha, ttls, None, true)
    }

    /// The same, kept to the rules of a user. What it calls is decided while it runs, by another `redis`.
    pub fn wrap_guarded(text: &[u8], sha: &str, ttls: Ttls, guard: Option<&Guard>) -> Self {
        Self::wrap_in(&VOTED, text, sha, ttls, guard, guard.is_some())
    }

    fn wrap_in(
        frame: &'static Frame,
        text: &[u8],
        sha: &str,
        ttls: Ttls,
        guard: Option<&Guard>,
        is_looked_at: bool,
    ) -> Self {
        // A wrong shebang has been refused when the script was loaded.
        let (shebang, script) = split_shebang(text).unwrap_or((b"", text));
        let mut scan = Scan::of(script);
        scan.is_dynamic |= is_looked_at || shebang::is_read_only(shebang);
        scan.sees_globals |= scan.is_dynamic && names::lead_to_globals(script);
        let parameters = if scan.sees_globals { names::GIVEN } else { "redis" };
        let open = Open { guard, globals: scan.sees_globals };
        let before = if scan.is_dynamic { open.program() } else { String::new() };
        let wrapped = Wrapped {
            frame,
            parameters,
            names: open.names(&[script]),
            before,
            disarms: names::set_metatables(script),
            lines: line_feeds(text) + 1,
        };
        wrapped.program(shebang, script, &scan, sha, ttls)
    }

    /// The script of a `MULTI` in which `scripts` are run, wrapped like any other, and the first and
    /// last line of each of them in it. A guard keeps them to the rules of a user; it is not about the
    /// commands beside them.
    pub fn transaction(
        scripts: &[&[u8]],
        ttls: Ttls,
        guard: Option<&Guard>,
    ) -> (Self, Vec<(usize, usize)>) {
        let lead = |script: &&[u8]| names::lead_to_globals(script);
        let open = Open { guard, globals: scripts.iter().any(lead) };
        let parameters = if open.globals { names::GIVEN } else { "redis,KEYS,ARGV" };
        // What comes before anything of ours cannot see it.
        let mut text = b"local scripts={\n".to_vec();
        let (mut places, mut line) = (Vec::new(), line_feeds(&text) + 1);
        for script in scripts {
            let last = line + line_feeds(script);
            places.push((line, last));
            text.extend_from_slice(
                format!("function({parameters}) return function(...) ").as_bytes(),
            );
            text.extend_from_slice(script);
            text.extend_from_slice(b"\nend end,\n");
            line = last + 2;
        }
        text.extend_from_slice(b"}\n");
        text.extend_from_slice(compact(include_str!("program/digest.lua")).as_bytes());
        text.extend_from_slice(EXPLAIN.as_bytes());
        text.extend_from_slice(open.scripts(scripts).as_bytes());
        text.extend_from_slice(compact(include_str!("program/transaction.lua")).as_bytes());
        let wrapped = Wrapped {
            frame: &VOTED,
            parameters: "redis",
            names: String::new(),
            before: "program=program(given)\n".to_owned(),
            disarms: scripts.iter().any(|script| names::set_metatables(script)),
            lines: line_feeds(&text) + 1,
        };
        let mut scan = Scan::of(&text);
        scan.is_dynamic = true;
        let place = if scripts.is_empty() { Place::Ours } else { Place::default() };
        let program = wrapped.program(b"", &text, &scan, "of a transaction", ttls);
        (Self { place, ..program }, places)
    }

    /// A text that every proxy with these settings uses.
    pub(super) fn ours(text: Vec<u8>) -> Self {
        Self::of(text, 0, Place::Ours)
    }

    /// Whether masters let it change nothing.
    pub fn is_read_only(&self) -> bool {
        shebang::is_read_only(&self.text[..self.shebang])
    }

    /// Masters are asked to run it: the next time it is known to come again.
    pub fn runs(&self) {
        self.place.runs();
    }

    /// The program that can run it, given its [code](Self::code).
    pub(super) fn runner(&self) -> Arc<Self> {
        runner::with(shebang::bits(&self.text[..self.shebang]))
    }

    /// The text as `loadstring` takes it: the flags of the shebang are those of whoever runs it.
    pub fn code(&self) -> &[u8] {
        &self.text[self.shebang..]
    }

    /// The commands that a script names, in its own spelling; none if it makes some up as it runs.
    pub fn commands_of(text: &[u8]) -> Option<Vec<String>> {
        let scan = Scan::of(text);
        (!scan.is_dynamic).then(|| scan.handlers.into_keys().collect())
    }

    fn of(text: Vec<u8>, shebang: usize, place: Place) -> Self {
        let sha = Sha1::from(&text).hexdigest();
        Self { text, sha, shebang, place }
    }
}

fn line_feeds(text: &[u8]) -> usize {
    steps(text.len());
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// A text that becomes a function of its own, and what is particular about it.
struct Wrapped {
    frame: &'static Frame,
    /// What a text that does not name all its commands sees in place of the real things.
    parameters: &'static str,
    /// Declares what `before` knows of it. Nothing is filled in there: it is made of the client's words.
    names: String,
    /// What makes a program of it, if it is such a text.
    before: String,
    /// Its reply may do something when it is read.
    disarms: bool,
    lines: usize,
}

impl Wrapped {
    fn program(
        self,
        shebang: &[u8],
        text: &[u8],
        scan: &Scan<'_>,
        sha: &str,
        ttls: Ttls,
    ) -> Program {
        let mut wrapped = shebang.to_vec();
        if text.starts_with(b"\n") {
            wrapped.push(b'\n');
        }
        let (head, end) = match scan.is_dynamic {
            true => (
                format!("local program=function({}) return function(...) ", self.parameters),
                " end",
            ),
            false => (self.frame.names(scan) + " local program=function(...) ", ""),
        };
        wrapped.extend_from_slice(head.as_bytes());
        let first_line = usize::from(text.starts_with(b"\n"));
        wrapped.extend_from_slice(&scan.rewritten(text, self.frame.is_cheap)[first_line..]);
        wrapped.extend_from_slice(format!("\nend{end}\n{}", self.names).as_bytes());
        // No command of the script has an underscore in its name.
        let after = ttls
            .fill_in(&self.around(scan))
            .replace("LAST_LINE", &self.lines.to_string())
            .replace("SCRIPT_SHA", &format!("'{sha}'"));
        wrapped.extend_from_slice(after.as_bytes());
        Program::of(wrapped, shebang.len(), Place::default())
    }

    /// What comes after the client's text.
    fn around(&self, scan: &Scan<'_>) -> String {
        let mut text = self.frame.head.clone();
        if scan.draws {
            // Without this, masters of different ages would draw different numbers.
            text.push_str("math.randomseed(seconds + micros)\n");
        }
        text.push_str(&if scan.is_dynamic {
            any_call(self.frame, scan)
        } else {
            careful_calls(self.frame, scan)
        });
        text.push_str(&self.before);
        let disarmed = if self.disarms { DISARM.as_str() } else { "" };
        text + &self.frame.run.replace("DISARM\n", disarmed)
    }
}

/// What a script is opened with: its parameters get their values.
struct Open<'a> {
    guard: Option<&'a Guard>,
    globals: bool,
}

impl Open<'_> {
    /// Makes the program of a text that does not name all its commands.
    fn program(&self) -> String {
        let mut lua = self.functions();
        if self.guard.is_some() {
            lua.push_str("given=guarded(given)\n");
        }
        let given = if self.globals { "globals_of(given,KEYS,ARGV)" } else { "given" };
        lua.push_str(&format!("program=program({given})\n"));
        if self.guard.is_some() {
            lua.push_str("program=known_only(program,names[1])\n");
        }
        lua
    }

    /// Declares the names to look for on the masters, one text for each script.
    fn names(&self, scripts: &[&[u8]]) -> String {
        if self.guard.is_none() {
            return String::new();
        }
        let unknown: Vec<_> = scripts.iter().map(|script| names::unknown(script)).collect();
        format!("local names={{'{}'}}\n", unknown.join("','"))
    }

    /// Declares `opened`, which makes the program of the script with this number in a transaction.
    fn scripts(&self, scripts: &[&[u8]]) -> String {
        let mut lua = self.functions();
        let given = if self.guard.is_some() { "guarded(redis)" } else { "redis" };
        let values = if self.globals { "globals_of(given,...)" } else { "given,..." };
        let mut opened = format!("scripts[number]({values})");
        if self.guard.is_some() {
            lua.push_str(&self.names(scripts));
            opened = format!("known_only({opened},names[number])");
        }
        lua + &format!(
            "local given={given}\nlocal function opened(number,...) return {opened} end\n"
        )
    }

    fn functions(&self) -> String {
        let guard = self.guard.map(|guard| compact(&guard.lua) + &KNOWN).unwrap_or_default();
        if self.globals { guard + &CLOSED } else { guard }
    }
}

impl Ttls {
    /// As configured.
    pub fn of(settings: &Settings) -> Self {
        let pad = Pad::new(settings.vote_timeout, settings.drift);
        Self { pad, longest: settings.max_ttl }
    }

    fn fill_in(self, lua: &str) -> String {
        let longest_ms = self.longest.map(|longest| longest.as_millis().to_string());
        let longest = self.longest.map(humantime::format_duration);
        lua.replace("CLOCK_DRIFT", &self.pad.drift().to_string())
            .replace("VOTE_TIMEOUT_MS", &self.pad.vote_timeout().as_millis().to_string())
            .replace("MAX_TTL_MS", longest_ms.as_deref().unwrap_or("math.huge"))
            .replace("LONGEST_TTL", &longest.map(|it| it.to_string()).unwrap_or_default())
            .replace("SLACK_MS", &keyspace::SLACK_MS.to_string())
            .replace("LONGEST_REPLY", &keyspace::LONGEST_REPLY.to_string())
            .replace("MOST_PROGRAMS", &keyspace::KEEP.to_string())
            .replace("PREFIX_BYTES", &reserved::PREFIX.len().to_string())
            .replace("RESERVED_PREFIX", &format!("\"{}\"", reserved::PREFIX))
            .replace("RESERVED_NAME", &format!("\"{}\"", reserved::REFUSAL))
            .replace("LONGEST_CHANNEL", &pubsub::LONGEST_NAME.to_string())
            .replace("CHANNEL_TOO_LONG", &format!("\"{}\"", pubsub::TOO_LONG))
    }
}

/// Another `redis`, which knows every command.
fn any_call(frame: &Frame, scan: &Scan<'_>) -> String {
    let entry = |(name, handler): (&String, &Handler)| {
        format!("[\"{name}\"]={},", (frame.handler)(name, handler))
    };
    let how: String = scan.handlers.iter().map(entry).collect();
    parts::before(&frame.library, &format!("how={{{how}}}\n{}", *ANY))
}

/// What is called instead of `redis.call` where that needs care. Many a script that is refused something
/// has only read before: these functions are made when the first of them is called.
fn careful_calls(frame: &Frame, scan: &Scan<'_>) -> String {
    let made = |(name, handler): (&String, &Handler)| {
        let handler = (frame.handler)(name, handler);
        let handler = if handler == READ { "" } else { handler };
        format!("made.{name}=closed({handler})\n")
    };
    let made: String = scan.careful.iter().map(made).collect();
    if made.is_empty() {
        return made;
    }
    if !frame.is_cheap {
        let body = parts::before(&frame.library, &format!("{made}return made[name]\n"));
        return format!("setmetatable(careful,{{__index=function(made,name)\n{body}end}})\n");
    }
    let body = parts::before(&frame.library, &made);
    let mut lua = format!(
        "local made\nlocal function handled(name)\nif not made then\nmade={{}}\n{body}end\nreturn made[name]\nend\n"
    );
    if scan.has_others {
        lua.push_str(
            "setmetatable(careful,{__index=function(_,name)\nreturn handled(name)\nend})\n",
        );
    }
    if scan.has_cheap {
        lua.push_str(&CHEAP);
    }
    lua
}

static ANY: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/redis.lua")));
/// What comes after the client's text.
struct Frame {
    /// What is done with a command of this name.
    handler: fn(&str, Handler) -> Handler,
    /// It has functions for what scripts do most often with one key.
    is_cheap: bool,
    head: String,
    library: Vec<Statement>,
    run: String,
}

impl Frame {
    /// `save` is what is done before a key changes, `ttl` what is made of times to live.
    fn new(
        handler: fn(&str, Handler) -> Handler,
        head: &str,
        [save, ttl]: [&str; 2],
        run: &str,
    ) -> Self {
        let (shim, completes) =
            (include_str!("program/shim.lua"), include_str!("program/completes.lua"));
        let place = |(name, first): &(&str, usize)| format!("['{name}']={}", first + 1);
        let places: Vec<_> = zero::FIRST_OPTIONS.iter().map(place).collect();
        let shim = shim
            .replace("CUTTABLE", &places.join(","))
            .replace("CUT_OPTIONS", &zero::OPTIONS.join(" "));
        let hidden = include_str!("program/hidden.lua")
            .replace("OWN_KEYS", &reserved::KEYS.map(|key| format!("'{key}'")).join(","));
        let library = statements(&[save, &shim, ttl, completes, &hidden, &rare(handler)].concat());
        let run = compact(&run.replace("EXPLAIN", &EXPLAIN));
        Self { handler, is_cheap: false, head: compact(head), library, run }
    }

    /// Declares the names that a script that names all its commands calls instead of `redis.call`.
    fn names(&self, scan: &Scan<'_>) -> String {
        if !self.is_cheap {
            return "local careful={}".to_owned();
        }
        let careful = if scan.has_others { "local careful={}" } else { "" };
        let one = if scan.has_cheap { " local careful_one" } else { "" };
        careful.to_owned() + one
    }
}

/// For scripts that masters vote on.
static VOTED: LazyLock<Frame> = LazyLock::new(|| {
    let run = include_str!("program/run.lua")
        .replace("TAGS_OFF", include_str!("program/tags.lua"))
        .replace("TAGS_BACK", include_str!("program/tags_back.lua"))
        .replace("REORDERED", include_str!("program/reordered.lua"));
    let changes = [include_str!("program/images.lua"), include_str!("program/ttl.lua")];
    Frame::new(|_, handler| handler, include_str!("program/head.lua"), changes, &run)
});

/// For scripts that run on registers.
static REGISTERS: LazyLock<Frame> = LazyLock::new(|| {
    let finish = format!(
        "finish = function(reply, messages, db)\n{}end\n",
        include_str!("keyspace/stamps.lua")
    );
    let general =
        [keyspace::KIND, keyspace::STAMP, include_str!("keyspace/head.lua"), &finish].concat();
    let whole = |lua: &str| {
        lua.replace("GENERAL", &general)
            .replace("RECENT_OF", keyspace::RECENT)
            .replace("KIND_OF", keyspace::KIND)
            .replace("NIL_AS_NULL", include_str!("keyspace/null.lua"))
    };
    let head = whole(include_str!("keyspace/one.lua"));
    let run = whole(include_str!("keyspace/run.lua"));
    let changes = [include_str!("keyspace/save.lua"), include_str!("keyspace/ttl.lua")];
    let frame = Frame::new(handlers::on_registers, &head, changes, &run);
    Frame { is_cheap: true, ..frame }
});
static CHEAP: LazyLock<String> =
    LazyLock::new(|| compact(include_str!("keyspace/cheap.lua")) + "careful_one=one\n");
static CLOSED: LazyLock<String> = LazyLock::new(|| {
    let lua = compact(include_str!("program/globals.lua"));
    lua.replace("GIVEN_NAMES", names::GIVEN).replace("GLOBAL_NAMES", names::GLOBALS)
});
static KNOWN: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/known.lua")));
static DISARM: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/harmless.lua")));
static EXPLAIN: LazyLock<String> = LazyLock::new(|| compact(include_str!("program/explain.lua")));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Users;

    fn wrapped(script: &str, rules: Option<&str>) -> String {
        let ttls = Ttls { pad: Pad::new(Duration::ZERO, 0.0), longest: None };
        let users = rules.map(|rules| Users::parse([rules], None).unwrap());
        let guard = users.as_ref().map(|users| users.named(b"alice").unwrap().guard());
        let program = Program::wrap_guarded(script.as_bytes(), "", ttls, guard.map(|it| &**it));
        String::from_utf8(program.text).unwrap()
    }

    const GET: &str = "return redis.call('get', KEYS[1])";

    #[test]
    fn a_guarded_script_calls_nothing_by_itself() {
        let free = wrapped(GET, None);
        assert!(!free.contains("guarded") && free.starts_with("local careful={} "));
        let guarded = wrapped(GET, Some("alice +get"));
        assert!(guarded.starts_with("local program=function(redis) return function(...) return "));
        assert!(guarded.contains("\ngiven=guarded(given)\nprogram=program(given)\n"));
        assert!(!guarded.contains("globals_of"));
    }

    /// Rules must not hang on our reader of Lua finding the same comments as Redis's.
    #[test]
    fn globals_are_looked_after_wherever_their_names_stand() {
        for script in ["-- _G", "--[==[ load ]==]", "return 'server'", "return [[loadstring]]"] {
            let guarded = wrapped(script, Some("alice +get"));
            let given = guarded.split_once("given=guarded(given)\n").map(|(_, after)| after);
            let closed =
                given.is_some_and(|it| it.starts_with("program=program(globals_of(given,"));
            assert!(
                closed && guarded.contains(&format!("function({}) ", names::GIVEN)),
                "{script}"
            );
        }
    }

    #[test]
    fn a_script_that_names_no_globals_pays_nothing_for_them() {
        for script in [GET, "local payload, reload = 1, 2", "return {err='_G1'}"] {
            for rules in [None, Some("alice +get")] {
                let program = wrapped(script, rules);
                assert!(
                    !program.contains("globals_of") && !program.contains("harmless"),
                    "{script}"
                );
            }
        }
    }

    /// Runs the program of a script of alice, on a master that has a `redis` by another name.
    fn said_by_a_strange_master(script: &str) -> String {
        let lua = mlua::Lua::new();
        let master = "redis={call=function() return 'the secret' end, setresp=function() end} \
             redis.pcall=redis.call strange=redis KEYS={} ARGV={'0','1','2','0','rw'}";
        lua.load(master).exec().unwrap();
        let envelope: mlua::Table =
            lua.load(wrapped(script, Some("alice ~lock:* +get"))).eval().unwrap();
        match envelope.get(1).unwrap() {
            mlua::Value::Table(error) => error.get("err").unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_global_that_redis_has_not_leads_nowhere() {
        let refused =
            "ERR Script attempted to access nonexistent global variable 'strange' script: ";
        let said = said_by_a_strange_master("return strange.call('get', 'secret')");
        assert!(said.starts_with(refused), "{said}");
        let loaded = "return loadstring('return str' .. 'ange')().call('get', 'secret')";
        let said = said_by_a_strange_master(loaded);
        assert!(said.contains("nonexistent global variable 'strange'"), "{said}");
        let said = said_by_a_strange_master("return _G['str' .. 'ange'].call('get', 'secret')");
        assert!(said.contains("nonexistent global variable 'strange'"), "{said}");
        assert!(said_by_a_strange_master("return type(tostring)").contains("function"));
    }
}
