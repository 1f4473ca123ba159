//! Scripts of clients, wrapped so that the masters can vote on their effects.
//!
//! The client's text becomes a function of its own. The proxy's Lua follows it and calls it. The text keeps its line
//! numbers, because only the head of that function comes before it, on the same line. It cannot see the proxy's names,
//! because all but one are declared after it.
//!
//! A script that names all its commands, as lock scripts do, reads without going through the proxy's Lua. Its other
//! calls go to functions of the proxy. Any other script gets another `redis` table. A master creates every function and
//! table of a program anew for each run, which costs it more than the script does. So nothing is created before it is
//! needed, and a program has only what its script can need.
//!
//! * `head.lua` reads what the proxy has added to the arguments;
//! * `told.lua` notes what the program does, if there are onlookers;
//! * `shim.lua` keeps images of what is about to change and holds messages back, `ttl.lua` pads times to live,
//!   `chance.lua` and `streams.lua` make masters act alike despite their own random numbers and clocks,
//!   `hidden.lua` and `completes.lua` hide what only the proxy may use, `rare.lua` handles unusual commands;
//! * `redis.lua` is the other `redis`, and `globals.lua` the list of all other globals, for a script that could find
//!   the real one: both are parameters of a function around it, so that it shares no variable with the proxy's Lua;
//! * `acl/guard.lua` restricts the script to the rules of a user, and `known.lua` keeps it away from unknown globals;
//! * `run.lua` calls the script and gathers its effects, `together.lua` and `each.lua` do so for several calls of one
//!   script, `explain.lua` says why it failed, and `harmless.lua` removes from its reply what could crash a master;
//! * `library.lua` is the `redis` of a library, and calls the requested function;
//! * `transaction.lua` is the script of a `MULTI`.

mod assigned;
mod handlers;
mod names;
mod parts;
mod place;
mod scan;
pub(super) mod shebang;
mod wrapped;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sha1_smol::Sha1;

use super::step_budget::steps;
use super::transactions::Databases;
use super::{keyspace, runner};
use crate::acl::guard::Guard;
use crate::catalogue::channel;
use crate::catalogue::reserved;
use crate::config::Settings;
use crate::decision::lease::pad::Pad;
pub use handlers::{adds, is_by_clock};
use parts::compact;
pub(super) use place::Place;
use scan::Scan;
pub use shebang::split_shebang;
use wrapped::{EXPLAIN, Frame, Open, TOGETHER, Wrapped};

/// Text that masters run.
#[derive(Debug)]
pub struct ProgramText {
    /// The text itself.
    pub text: Vec<u8>,
    /// SHA1 of the text, in hex.
    pub sha: String,
    /// SHA1 of the client's script, or a label if there is none.
    name: Box<str>,
    /// Length of the shebang at the beginning of the text.
    shebang: usize,
    /// Whether the shebang of the client's script forbids all changes.
    is_read_only: bool,
    /// Whether masters keep it.
    pub(super) place: Place,
    /// Program that runs several calls of it at once.
    together: Together,
}

/// Program for several calls of one script at once, if the script allows that.
#[derive(Debug, Default)]
struct Together {
    /// Client's script that the program is generated from.
    script: Option<(Box<[u8]>, ScriptRules)>,
    made: OnceLock<Arc<ProgramText>>,
}

/// Settings that the text of every program contains.
#[derive(Clone, Copy, Debug)]
pub struct ScriptRules {
    /// Extra time for which masters keep a key.
    pub pad: Pad,
    /// Maximum time to live that a script may ask for (`--max-ttl`).
    pub longest: Option<Duration>,
    /// Whether the masters have all keys, so that a script may list or count them.
    pub sees_all_keys: bool,
    /// What a program tells besides its reply.
    pub tells: Tells,
}

/// What a program tells besides its reply, along with the messages that it publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tells {
    /// Calls of its scripts, for `MONITOR`.
    pub calls: bool,
    /// Changes to keys, for keyspace notifications.
    pub events: bool,
}

impl Tells {
    /// Nothing. Programs are shortest then.
    pub const NOTHING: Self = Self { calls: false, events: false };

    /// Whether it tells anything.
    pub fn is_any(self) -> bool {
        self.calls || self.events
    }

    /// Returns what a command tells: monitors have seen it already.
    pub fn of_command(self) -> Self {
        Self { calls: false, ..self }
    }
}

/// Function of a library, as it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfLibrary {
    /// Name: letters, digits and underscores only.
    pub name: String,
    /// Flags, as bits in the order in which Redis lists them.
    pub flags: usize,
}

impl OfLibrary {
    /// Returns its label, which `explain.lua` recognises as the name of a function.
    pub fn label(&self) -> String {
        format!("@{}", self.name)
    }

    /// Returns whether it declares that it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.flags & 1 == 1
    }
}

/// Script that is run in a transaction.
#[derive(Clone, Copy, Debug)]
pub struct ProgramPart<'a> {
    /// Text without its shebang.
    pub code: &'a [u8],
    /// Function to call, if it is a library.
    pub function: Option<&'a OfLibrary>,
}

impl ProgramText {
    /// Wraps the client's script `text`, whose SHA1 is `sha`.
    pub fn wrap(text: &[u8], sha: &str, script_rules: ScriptRules) -> Self {
        Self::wrap_in(text, sha, script_rules, None, false)
    }

    /// Like [`Self::wrap`], for a script that is run read-only: all its calls are checked.
    pub fn wrap_reading(text: &[u8], sha: &str, script_rules: ScriptRules) -> Self {
        Self::wrap_in(text, sha, script_rules, None, true)
    }

    /// Like [`Self::wrap`], restricted to the rules of a user. Another `redis` checks the calls at run time.
    pub fn wrap_guarded(
        text: &[u8],
        sha: &str,
        script_rules: ScriptRules,
        guard: Option<&Guard>,
    ) -> Self {
        Self::wrap_in(text, sha, script_rules, guard, guard.is_some())
    }

    fn wrap_in(
        text: &[u8],
        sha: &str,
        script_rules: ScriptRules,
        guard: Option<&Guard>,
        is_looked_at: bool,
    ) -> Self {
        // An invalid shebang was refused when the script was loaded.
        let (shebang, script) = split_shebang(text).unwrap_or((b"", text));
        let script = &*assigned::refused(script);
        let mut scan = Scan::of(script);
        let is_read_only = shebang::is_read_only(shebang);
        scan.is_dynamic |= is_looked_at || is_read_only;
        scan.sees_globals |= scan.is_dynamic && names::lead_to_globals(script);
        scan.is_dynamic |= script_rules.tells.is_any();
        let parameters = if scan.sees_globals { names::GIVEN } else { "redis" };
        let open = Open { guard, globals: scan.sees_globals };
        let before = if scan.is_dynamic { open.program() } else { String::new() };
        let wrapped = Wrapped {
            frame: Frame::of(scan.makes_up_keys, script_rules.tells),
            parameters,
            names: open.names(&[ProgramPart { code: script, function: None }]),
            before,
            disarms: names::set_metatables(script),
            lines: line_feeds(text) + 1,
        };
        // Masters note a promise if something has ended for the script. The Lua around it keeps it from writing.
        let sent = if is_read_only { b"" } else { shebang };
        let can_be_together = shebang.is_empty()
            && !scan.cheap.is_empty()
            && !(scan.is_dynamic || scan.makes_up_keys || scan.has_other_arguments)
            && !(scan.draws || scan.uses_json || wrapped.disarms)
            && !names::change_what_follows(script);
        let together = Together {
            script: can_be_together.then(|| (script.into(), script_rules)),
            made: OnceLock::new(),
        };
        Self { is_read_only, together, ..wrapped.program(sent, script, &scan, sha, script_rules) }
    }

    /// Returns whether several calls can be sent as one.
    pub fn can_be_together(&self) -> bool {
        self.together.script.is_some()
    }

    /// Returns the program that runs several calls of this one at once, each with one key of its own: see
    /// `together.lua`. `None` if the script does not allow that.
    pub fn together(&self) -> Option<&Arc<Self>> {
        let (script, script_rules) = self.together.script.as_ref()?;
        let make = || Arc::new(Self::wrap_together(script, &self.name, *script_rules));
        Some(self.together.made.get_or_init(make))
    }

    fn wrap_together(script: &[u8], sha: &str, script_rules: ScriptRules) -> Self {
        let scan = Scan::of(script);
        let wrapped = Wrapped {
            frame: &TOGETHER,
            parameters: "redis",
            names: String::new(),
            before: String::new(),
            disarms: false,
            lines: line_feeds(script) + 1,
        };
        wrapped.program(b"", script, &scan, sha, script_rules)
    }

    /// Wraps a library's `code` to call one of its functions. The function has the flags that Redis reads from a
    /// script's shebang.
    pub fn function(
        code: &[u8],
        function: &OfLibrary,
        script_rules: ScriptRules,
        guard: Option<&Guard>,
    ) -> Self {
        let is_read_only = function.is_read_only();
        let shebang = if is_read_only { String::new() } else { shebang::spelled(function.flags) };
        let part = ProgramPart { code, function: Some(function) };
        let program = Self::of_library(part, shebang.as_bytes(), script_rules, guard);
        Self { is_read_only, ..program }
    }

    /// Wraps a library's `code` to return which functions it registers, or why it fails. It changes nothing.
    pub fn registration(code: &[u8], script_rules: ScriptRules, guard: Option<&Guard>) -> Self {
        Self::of_library(ProgramPart { code, function: None }, b"", script_rules, guard)
    }

    /// Wraps a library's `code`. All its calls are checked, because its `redis` depends on whether it is loaded or
    /// called.
    fn of_library(
        part: ProgramPart<'_>,
        shebang: &[u8],
        script_rules: ScriptRules,
        guard: Option<&Guard>,
    ) -> Self {
        let code = &*assigned::refused(part.code);
        let part = ProgramPart { code, ..part };
        let mut scan = Scan::of_library(part.code);
        scan.is_dynamic = true;
        scan.sees_globals |= names::lead_to_globals(part.code);
        let parameters = if scan.sees_globals { names::GIVEN } else { "redis,KEYS,ARGV" };
        let open = Open { guard, globals: scan.sees_globals };
        let wrapped = Wrapped {
            frame: Frame::of(scan.makes_up_keys, script_rules.tells),
            parameters,
            names: open.names(&[part]),
            before: open.library(part.function),
            disarms: names::set_metatables(part.code),
            lines: line_feeds(part.code) + 1,
        };
        let label = part.function.map_or_else(|| "@".to_owned(), OfLibrary::label);
        wrapped.program(shebang, part.code, &scan, &label, script_rules)
    }

    /// Returns the script of a `MULTI` that runs `scripts`, wrapped like any other, and the first and last line of each
    /// of them. A guard restricts them to the rules of a user. It does not apply to the commands next to them.
    pub fn transaction(
        scripts: &[ProgramPart<'_>],
        script_rules: ScriptRules,
        guard: Option<&Guard>,
        databases: Databases,
    ) -> (Self, Vec<(usize, usize)>) {
        let renamed: Vec<_> = scripts.iter().map(|part| assigned::refused(part.code)).collect();
        let parts = scripts.iter().zip(&renamed);
        let scripts =
            &parts.map(|(part, code)| ProgramPart { code, ..*part }).collect::<Vec<_>>()[..];
        let lead = |script: &ProgramPart<'_>| names::lead_to_globals(script.code);
        let open = Open { guard, globals: scripts.iter().any(lead) };
        let parameters = if open.globals { names::GIVEN } else { "redis,KEYS,ARGV" };
        // The scripts come before anything of the proxy, so they cannot see it.
        let mut text = b"local scripts={\n".to_vec();
        let (mut places, mut line) = (Vec::new(), line_feeds(&text) + 1);
        for ProgramPart { code: script, .. } in scripts {
            let last = line + line_feeds(script);
            places.push((line, last));
            text.extend_from_slice(
                format!("function({parameters}) return {}", opening(script)).as_bytes(),
            );
            text.extend_from_slice(script);
            text.extend_from_slice(b"\nend end,\n");
            line = last + 2;
        }
        text.extend_from_slice(b"}\n");
        text.extend_from_slice(EXPLAIN.as_bytes());
        text.extend_from_slice(open.scripts(scripts).as_bytes());
        text.extend_from_slice(compact(include_str!("program/transaction.lua")).as_bytes());
        let makes_up = |part: &ProgramPart<'_>| match part.function {
            Some(_) => Scan::of_library(part.code).makes_up_keys,
            None => Scan::of(part.code).makes_up_keys,
        };
        let make_up_keys = databases == Databases::Several || scripts.iter().any(makes_up);
        let wrapped = Wrapped {
            frame: Frame::of(make_up_keys, script_rules.tells),
            parameters: "redis",
            names: String::new(),
            before: if script_rules.tells.is_any() { TELLS_OF_SCRIPTS } else { KEEPS_FROM_WRITING }
                .to_owned(),
            disarms: scripts.iter().any(|script| names::set_metatables(script.code)),
            lines: line_feeds(&text) + 1,
        };
        let mut scan = Scan::of(&text);
        scan.is_dynamic = true;
        let is_plain = scripts.is_empty() && databases == Databases::One;
        let place = if is_plain { Place::Ours } else { Place::default() };
        let program = wrapped.program(b"", &text, &scan, "of a transaction", script_rules);
        (Self { place, ..program }, places)
    }

    /// Returns the SHA1 of the client's script, or a label for the program of a transaction or command.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a text that every proxy with these settings uses.
    pub(super) fn ours(text: Vec<u8>) -> Self {
        Self::of(text, 0, Place::Ours)
    }

    /// Returns whether the shebang of the client's script forbids all changes (`no-writes`).
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Notes that masters are asked to run it. The next time, it is known to recur.
    pub fn runs(&self) {
        self.place.runs();
    }

    /// Returns the program that can run it, given its [code](Self::code).
    pub(super) fn runner(&self) -> Arc<Self> {
        runner::with(shebang::bits(&self.text[..self.shebang]))
    }

    /// Returns the text for `loadstring`, without the shebang: the flags are those of the runner.
    pub fn code(&self) -> &[u8] {
        &self.text[self.shebang..]
    }

    /// Returns the commands that a script names, in its own spelling; `None` if it may make some up at run time.
    pub fn commands_of(text: &[u8]) -> Option<Vec<String>> {
        let scan = Scan::of(text);
        (!scan.is_dynamic).then(|| scan.handlers.into_keys().collect())
    }

    fn of(text: Vec<u8>, shebang: usize, place: Place) -> Self {
        let sha = Sha1::from(&text).hexdigest();
        let (name, together) = (Box::default(), Together::default());
        Self { text, sha, name, shebang, is_read_only: false, place, together }
    }
}

fn line_feeds(text: &[u8]) -> usize {
    steps(text.len());
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// Lua that creates the program of a transaction, and gives it a function that keeps its scripts from writing.
const KEEPS_FROM_WRITING: &str = "\
local transaction,outside=program(given),mode
program=function() return transaction(function(is_kept) mode=is_kept and 'ro' or outside end) end
";

/// The same, if the program tells something. Monitors have seen the commands of a transaction, but not the calls of its
/// scripts.
const TELLS_OF_SCRIPTS: &str = "\
local transaction,outside=program(given),mode
telling.tells_calls=false
program=function()
return transaction(function(is_kept,in_script) mode,telling.tells_calls=is_kept and 'ro' or outside,in_script and TELLS_CALLS end)
end
";

/// Maximum bytes that a program tells. Monitors and subscribers do not see the rest.
const MOST_TOLD: usize = 256 << 10;

/// Returns the head of a script's function. No caller gives it arguments, so it accepts some only if it refers to them.
/// Otherwise it would see a table `arg`, which Lua creates anew for every call, and Redis does not have.
fn opening(text: &[u8]) -> &'static str {
    steps(text.len());
    let names_arguments = text.windows(3).any(|bytes| bytes == b"...");
    if names_arguments { "function(...) " } else { "function() " }
}

impl ScriptRules {
    /// Returns the configured rules.
    pub fn of(settings: &Settings) -> Self {
        let pad = Pad::new(settings.vote_timeout, settings.drift);
        let sees_all_keys = settings.shards.is_empty();
        Self { pad, longest: settings.max_ttl, sees_all_keys, tells: Tells::NOTHING }
    }

    fn fill_in(self, lua: &str) -> String {
        let longest_ms = self.longest.map(|longest| longest.as_millis().to_string());
        let longest = self.longest.map(humantime::format_duration);
        lua.replace("CLOCK_DRIFT", &self.pad.drift().to_string())
            .replace("VOTE_TIMEOUT_MS", &self.pad.vote_timeout().as_millis().to_string())
            .replace("MAX_TTL_MS", longest_ms.as_deref().unwrap_or("math.huge"))
            .replace("LONGEST_TTL", &longest.map(|it| it.to_string()).unwrap_or_default())
            .replace("SEES_ALL_KEYS", &self.sees_all_keys.to_string())
            .replace("TELLS_CALLS", &self.tells.calls.to_string())
            .replace("MOST_TOLD", &MOST_TOLD.to_string())
            .replace("TELLS_EVENTS", &self.tells.events.to_string())
            .replace("SLACK_MS", &keyspace::SLACK_MS.to_string())
            .replace("LONGEST_REPLY", &keyspace::LONGEST_REPLY.to_string())
            .replace("LAST_PROGRAMS", &keyspace::KEEP.last.to_string())
            .replace("MOST_PROGRAMS", &(keyspace::KEEP.last + keyspace::KEEP.workers).to_string())
            .replace("OLD_US", &keyspace::KEEP.age_us.to_string())
            .replace("PREFIX_BYTES", &reserved::PREFIX.len().to_string())
            .replace("RESERVED_PREFIX", &format!("\"{}\"", reserved::PREFIX))
            .replace("LIBRARIES", &format!("\"{}\"", reserved::LIBRARIES))
            .replace("RESERVED_NAME", &format!("\"{}\"", reserved::REFUSAL))
            .replace("LONGEST_CHANNEL", &channel::LONGEST_NAME.to_string())
            .replace("CHANNEL_TOO_LONG", &format!("\"{}\"", channel::TOO_LONG))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Users;

    fn wrapped(script: &str, rules: Option<&str>) -> String {
        let script_rules = ScriptRules {
            pad: Pad::new(Duration::ZERO, 0.0),
            longest: None,
            sees_all_keys: true,
            tells: Tells::NOTHING,
        };
        let users = rules.map(|rules| Users::parse([rules], None).unwrap());
        let guard = users.as_ref().map(|users| users.named(b"alice").unwrap().guard());
        let program =
            ProgramText::wrap_guarded(script.as_bytes(), "", script_rules, guard.map(|it| &**it));
        String::from_utf8(program.text).unwrap()
    }

    const GET: &str = "return redis.call('get', KEYS[1])";

    #[test]
    fn a_guarded_script_calls_nothing_by_itself() {
        let free = wrapped(GET, None);
        assert!(!free.contains("guarded") && free.starts_with(" local program="));
        let guarded = wrapped(GET, Some("alice +get"));
        assert!(guarded.starts_with("local program=function(redis) return function() return "));
        assert!(guarded.contains("\ngiven=guarded(given)\nprogram=program(given)\n"));
        assert!(!guarded.contains("globals_of"));
    }

    /// Rules must not depend on the proxy's lexer finding the same comments as Redis's.
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

    #[test]
    fn a_script_that_nobody_watches_tells_nothing() {
        let text = |tells| {
            let pad = Pad::new(Duration::ZERO, 0.0);
            let rules = ScriptRules { pad, longest: None, sees_all_keys: true, tells };
            String::from_utf8(ProgramText::wrap(GET.as_bytes(), "", rules).text).unwrap()
        };
        let told = text(Tells { calls: true, events: false });
        assert!(told.contains("tells_calls = true") && told.contains("return told(run,"));
        for word in ["tell", "telling.", "SCREENED", "PACK_MESSAGES"] {
            assert!(!text(Tells::NOTHING).contains(word), "{word}");
        }
        assert!(!told.contains("SCREENED") && !told.contains("PACK_MESSAGES"));
    }

    /// Runs the program of a script of alice, on a master that has a `redis` under another name.
    fn said_by_a_strange_master(script: &str) -> String {
        let lua = mlua::Lua::new();
        let master = "redis={call=function() return 'the secret' end, setresp=function() end} \
             redis.pcall=redis.call strange=redis KEYS={} ARGV={'000000000rw' .. ('0'):rep(16) .. ('\\0'):rep(16)} \
             cmsgpack={pack=tostring} struct={}";
        lua.load(master).exec().unwrap();
        let envelope: mlua::Table =
            lua.load(wrapped(script, Some("alice ~lock:* +get"))).eval().unwrap();
        match envelope.get(2).unwrap() {
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
