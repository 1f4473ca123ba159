//! The proxy's Lua around a script: only the parts that the script can need.

use std::sync::LazyLock;

use super::handlers::{Handler, READ, rare};
use super::parts::{Statement, compact, statements};
use super::scan::Scan;
use super::{
    OfLibrary, Place, ProgramPart, ProgramText, ScriptRules, Tells, handlers, names, opening, parts,
};
use crate::acl::guard::Guard;
use crate::catalogue::keys::WITHOUT_KEYS;
use crate::catalogue::words;
use crate::lua::keyspace;

/// Text that becomes a function of its own, with its properties.
pub(super) struct Wrapped {
    pub(super) frame: &'static Frame,
    /// Names that a text that does not name all its commands sees in place of the real ones.
    pub(super) parameters: &'static str,
    /// Declares names that `before` uses. They consist of the client's words, so no placeholders are filled in there.
    pub(super) names: String,
    /// Lua that creates the program of such a text.
    pub(super) before: String,
    /// Whether its reply may run code when it is read.
    pub(super) disarms: bool,
    pub(super) lines: usize,
}

impl Wrapped {
    pub(super) fn program(
        self,
        shebang: &[u8],
        text: &[u8],
        scan: &Scan<'_>,
        sha: &str,
        script_rules: ScriptRules,
    ) -> ProgramText {
        let mut wrapped = shebang.to_vec();
        if text.starts_with(b"\n") {
            wrapped.push(b'\n');
        }
        let (head, end) = match scan.is_dynamic {
            true => (
                format!("local program=function({}) return {}", self.parameters, opening(text)),
                " end",
            ),
            false => (format!("{} local program={}", self.frame.names(scan), opening(text)), ""),
        };
        wrapped.extend_from_slice(head.as_bytes());
        let first_line = usize::from(text.starts_with(b"\n"));
        wrapped.extend_from_slice(&scan.rewritten(text, self.frame.is_cheap)[first_line..]);
        wrapped.extend_from_slice(format!("\nend{end}\n{}", self.names).as_bytes());
        // No command of the script has an underscore in its name.
        let after = script_rules
            .fill_in(&self.around(scan))
            .replace("LAST_LINE", &self.lines.to_string())
            .replace("SCRIPT_SHA", &format!("'{sha}'"));
        wrapped.extend_from_slice(after.as_bytes());
        let program = ProgramText::of(wrapped, shebang.len(), Place::default());
        ProgramText { name: sha.into(), ..program }
    }

    /// Returns the Lua after the client's text.
    fn around(&self, scan: &Scan<'_>) -> String {
        let mut text = self.frame.head.clone();
        if !scan.is_dynamic {
            // It reads its declared keys by calls that nothing replaces.
            text.push_str("if whole then\nwhole[8]()\nend\n");
        }
        if scan.draws {
            // Otherwise masters of different ages would draw different numbers. A program that starts again draws the
            // same numbers.
            text.push_str("math.randomseed((now - (whole and whole[5] or 0)) % 2147483647)\n");
        }
        if scan.uses_json {
            text.push_str(&JSON);
        }
        text.push_str(&if scan.is_dynamic {
            any_call(self.frame, scan)
        } else {
            careful_calls(self.frame, scan)
        });
        text.push_str(&self.before);
        let disarmed = if self.disarms { DISARM.as_str() } else { "" };
        let forget = if scan.careful.is_empty() { "" } else { "made=nil\n" };
        text + &self.frame.run.replace("DISARM\n", disarmed).replace("FORGET_HANDLERS\n", forget)
    }
}

/// Values for the parameters of a script.
pub(super) struct Open<'a> {
    pub(super) guard: Option<&'a Guard>,
    pub(super) globals: bool,
}

impl Open<'_> {
    /// Returns Lua that creates the program of a text that does not name all its commands.
    pub(super) fn program(&self) -> String {
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

    /// Returns Lua that creates the program of a library, which calls this function, or returns the functions that it
    /// registers. It has neither `KEYS` nor `ARGV`.
    pub(super) fn library(&self, function: Option<&OfLibrary>) -> String {
        let mut lua = self.functions() + &LIBRARY;
        if self.guard.is_some() {
            lua.push_str("given=guarded(given)\n");
        }
        let wanted = function.map_or_else(String::new, |it| format!(",'{}'", it.name));
        lua.push_str(&format!("local run\ngiven,run=of_library(given{wanted})\n"));
        let given = if self.globals { "globals_of(given)" } else { "given" };
        lua.push_str(&format!("program=program({given})\n"));
        if self.guard.is_some() {
            lua.push_str("program=known_only(program,names[1])\n");
        }
        lua + "program=run(program,KEYS,ARGV)\n"
    }

    /// Declares the names to look up on the masters, one text for each script.
    pub(super) fn names(&self, scripts: &[ProgramPart<'_>]) -> String {
        if self.guard.is_none() {
            return String::new();
        }
        let unknown: Vec<_> = scripts.iter().map(|part| names::unknown(part.code)).collect();
        format!("local names={{'{}'}}\n", unknown.join("','"))
    }

    /// Declares `opened`, which creates the program of the script with this number in a transaction.
    pub(super) fn scripts(&self, scripts: &[ProgramPart<'_>]) -> String {
        let mut lua = self.functions();
        let given = if self.guard.is_some() { "guarded(redis)" } else { "redis" };
        let known = |opened: &str| match self.guard {
            Some(_) => format!("known_only({opened},names[number])"),
            None => opened.to_owned(),
        };
        if self.guard.is_some() {
            lua.push_str(&self.names(scripts));
        }
        let values = if self.globals { "globals_of(given,...)" } else { "given,..." };
        lua.push_str(&format!("local given={given}\n"));
        let mut of_libraries = String::new();
        if scripts.iter().any(|part| part.function.is_some()) {
            lua.push_str(&LIBRARY);
            let names = scripts.iter().map(|part| match part.function {
                Some(function) => format!("'{}'", function.name),
                None => "false".to_owned(),
            });
            let names: Vec<_> = names.collect();
            lua.push_str(&format!("local functions={{{}}}\n", names.join(",")));
            let values = if self.globals { "globals_of(given)" } else { "given" };
            of_libraries = format!(
                "if functions[number] then\nlocal given,run=of_library(given,functions[number])\n\
                 return run({},...)\nend\n",
                known(&format!("scripts[number]({values})"))
            );
        }
        let opened = known(&format!("scripts[number]({values})"));
        lua + &format!("local function opened(number,...)\n{of_libraries}return {opened}\nend\n")
    }

    fn functions(&self) -> String {
        let guard = self.guard.map(|guard| compact(&guard.lua) + &KNOWN).unwrap_or_default();
        if self.globals { guard + &CLOSED } else { guard }
    }
}

/// Returns another `redis`, which knows every command.
fn any_call(frame: &Frame, scan: &Scan<'_>) -> String {
    let entry = |(name, handler): (&String, &Handler)| {
        format!("[\"{name}\"]={},", (frame.handler)(name, handler))
    };
    let how: String = scan.handlers.iter().map(entry).collect();
    parts::before(
        &frame.library,
        &format!("how={{{how}}}\n{}", ANY.replace("SCREENED", frame.screened)),
    )
}

/// Returns the functions to call instead of `redis.call` where that needs care. Many refused scripts have only read
/// before, so these functions are created when the first of them is called.
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
    let cheap: String = scan.cheap.iter().map(|it| format!("careful_{it}={it}\n")).collect();
    lua + &parts::before(&CHEAP, &cheap)
}

/// Returns `lua` with the indentation of a function body.
fn indented(lua: &str) -> String {
    lua.lines().map(|line| format!("  {line}\n")).collect()
}

/// Number of calls of a script in one request to a master.
#[derive(Clone, Copy)]
pub(super) enum Calls {
    One,
    Several,
}

static JSON: LazyLock<String> = LazyLock::new(|| compact(include_str!("json.lua")));
static ANY: LazyLock<String> = LazyLock::new(|| compact(include_str!("redis.lua")));
/// Lua after the client's text.
pub(super) struct Frame {
    /// Returns the handler to use for the command of this name.
    handler: fn(&str, Handler) -> Handler,
    /// Whether it has functions for the most frequent calls with one key.
    is_cheap: bool,
    /// Function that every call of a script that may do anything passes.
    screened: &'static str,
    /// Declares the tables in which the script finds keys and arguments, if they are not those of the master.
    tables: &'static str,
    head: String,
    library: Vec<Statement>,
    run: String,
}

impl Frame {
    /// Creates a frame. `save` runs before a key changes, `keys` handles commands whose keys masters report, and `ttl`
    /// converts times to live.
    fn new(
        handler: fn(&str, Handler) -> Handler,
        head: &str,
        [save, keys, ttl]: [&str; 3],
        run: &str,
        tells: bool,
    ) -> Self {
        let (shim, completes) = (include_str!("shim.lua"), include_str!("completes.lua"));
        let place = |(name, first): &(&str, usize)| format!("['{name}']={}", first + 1);
        let places: Vec<_> = words::FIRST_OPTIONS.iter().map(place).collect();
        let shim = shim
            .replace("CUTTABLE", &places.join(","))
            .replace("CUT_OPTIONS", &words::OPTIONS.join(" "))
            .replace("IS_REFUSAL", include_str!("../keyspace/refusal.lua"))
            .replace("HUNGRY", &handlers::writing(true))
            .replace("FRUGAL", &handlers::writing(false));
        let hidden = include_str!("hidden.lua");
        let (chance, streams) = (include_str!("chance.lua"), include_str!("streams.lua"));
        let rare = rare(handler);
        let (told, screened) =
            if tells { (include_str!("told.lua"), "told") } else { ("", "screened") };
        let parts = [save, &shim, keys, chance, ttl, completes, hidden, streams, &rare, told];
        let library = statements(&parts.concat());
        let run = compact(&run.replace("EXPLAIN", &EXPLAIN));
        Self { handler, is_cheap: false, screened, tables: "", head: compact(head), library, run }
    }

    /// Returns the frame for scripts that may use undeclared keys, or for scripts that do not.
    pub(super) fn of(makes_up_keys: bool, tells: Tells) -> &'static Self {
        match (makes_up_keys, tells.is_any()) {
            (false, false) => &DECLARED,
            (true, false) => &MADE_UP,
            (false, true) => &DECLARED_TOLD,
            (true, true) => &MADE_UP_TOLD,
        }
    }

    /// Creates a frame for registers. The strings are the Lua for images of what keys held: it declares them, creates
    /// one, and restores all.
    fn on_registers(calls: Calls, images: [&str; 3]) -> Self {
        Self::with_images(calls, images, false)
    }

    /// Creates a frame that also tells what the program does.
    fn told([images, keep, give_back]: [&str; 3]) -> Self {
        let images = [images, include_str!("../keyspace/note.lua")].concat();
        let keep = [keep, "telling.note(key)\n"].concat();
        Self::with_images(Calls::One, [&images, &keep, give_back], true)
    }

    fn with_images(calls: Calls, [images, keep, give_back]: [&str; 3], tells: bool) -> Self {
        let packed = match tells {
            true => include_str!("../keyspace/pack_told.lua"),
            false => "packed = packed .. cmsgpack.pack(messages)\n",
        };
        let finish = format!(
            "finish = function(reply, messages, db, remembered)\n{}end\n",
            include_str!("../keyspace/stamps.lua").replace("PACK_MESSAGES\n", packed)
        );
        let general =
            [keyspace::KIND, keyspace::STAMP, include_str!("../keyspace/head.lua"), &finish]
                .concat();
        let whole = |lua: &str| {
            lua.replace("EXPECTED\n", include_str!("../keyspace/expected.lua"))
                .replace("KEPT\n", include_str!("../keyspace/kept.lua"))
                .replace("RAN\n", include_str!("../keyspace/ran.lua"))
                .replace("PACK_MESSAGES\n", packed)
                .replace("GENERAL", &general)
                .replace("REMEMBERED", keyspace::REMEMBERED)
                .replace("RECENT_OF", keyspace::RECENT)
                .replace("IS_BELOW", keyspace::BELOW)
                .replace("KIND_OF", keyspace::KIND)
                .replace("NIL_AS_NULL", include_str!("../keyspace/null.lua"))
        };
        let save = include_str!("../keyspace/save.lua")
            .replace("IMAGES\n", images)
            .replace("  KEEP_IMAGE\n", &indented(keep))
            .replace("  GIVE_BACK\n", &indented(give_back));
        let (head, run) = match calls {
            Calls::One => (
                whole(include_str!("../keyspace/one.lua"))
                    .replace("THE_FLUSH", "#here_and_mode > 7 and sub(here_and_mode, 8)"),
                whole(include_str!("../keyspace/run.lua"))
                    .replace("OWN_TIME", include_str!("../keyspace/own_time.lua"))
                    .replace("SAME_STAYS", "nil")
                    .replace("KEEP_STAYS\n", "")
                    .replace("KEEP_STAMP", "call('SET', companion_key, stamp)"),
            ),
            Calls::Several => (
                include_str!("../keyspace/together.lua").to_owned(),
                whole(include_str!("../keyspace/each.lua"))
                    .replace("THE_FLUSH", "#word > 56 and sub(word, 57)")
                    .replace("OWN_TIME\n", "")
                    .replace("SAME_STAYS", SAME_STAYS)
                    .replace("KEEP_STAYS", "last_end, at_us, last_stays = the_end, now, stays")
                    .replace("KEEP_STAMP", KEEP_FOR_ALL),
            ),
        };
        let keys = include_str!("../keyspace/keys.lua").replace("WITHOUT_KEYS", WITHOUT_KEYS);
        let ttl = include_str!("../keyspace/ttl.lua");
        Self::new(handlers::on_registers, &head, [&save, &keys, ttl], &run, tells)
    }

    /// Declares the names that a script that names all its commands calls instead of `redis.call`.
    pub(super) fn names(&self, scan: &Scan<'_>) -> String {
        if !self.is_cheap {
            return "local careful={}".to_owned();
        }
        let tables = self.tables.to_owned();
        let careful = if scan.has_others { "local careful={}" } else { "" };
        let cheap = scan.cheap.iter().map(|it| format!(" local careful_{it}"));
        tables + careful + &cheap.collect::<String>()
    }
}

/// Frame for scripts that use declared keys only. If one needs another key all the same, it is not run again.
static DECLARED: LazyLock<Frame> = LazyLock::new(|| {
    let frame = Frame::on_registers(Calls::One, ["", "", include_str!("../keyspace/too_late.lua")]);
    Frame { is_cheap: true, ..frame }
});

/// Like [`DECLARED`], for several calls of one script at once.
pub(super) static TOGETHER: LazyLock<Frame> = LazyLock::new(|| {
    let parts = ["", "", include_str!("../keyspace/too_late.lua")];
    let tables = "local KEYS,ARGV={},{} ";
    Frame { is_cheap: true, tables, ..Frame::on_registers(Calls::Several, parts) }
});

/// For a value with the same end, a moment later: it stays equally long, and less than a millisecond more.
const SAME_STAYS: &str = "text ~= clean_text and the_end == last_end and now >= at_us and now - at_us < 1000 and last_stays";

/// Collects the stamps, to write all of them at once.
const KEEP_FOR_ALL: &str =
    "stamps_kept[places + 1], stamps_kept[places + 2] = companion_key, stamp\nplaces = places + 2";

/// Frame for scripts that may need another key after they have written. Then everything that they have written is
/// restored, in the same run, and they run again with that key.
static MADE_UP: LazyLock<Frame> = LazyLock::new(|| {
    let (keep, give_back) =
        (include_str!("../keyspace/keep_image.lua"), include_str!("../keyspace/give_back.lua"));
    Frame::on_registers(Calls::One, ["local images = {}\n", keep, give_back])
});

/// Like [`DECLARED`], for programs that tell what they do.
static DECLARED_TOLD: LazyLock<Frame> =
    LazyLock::new(|| Frame::told(["", "", include_str!("../keyspace/too_late.lua")]));

/// Like [`MADE_UP`], for programs that tell what they do.
static MADE_UP_TOLD: LazyLock<Frame> = LazyLock::new(|| {
    let (keep, give_back) =
        (include_str!("../keyspace/keep_image.lua"), include_str!("../keyspace/give_back.lua"));
    Frame::told(["local images = {}\n", keep, give_back])
});
static CHEAP: LazyLock<Vec<Statement>> = LazyLock::new(|| {
    let cheap = include_str!("../keyspace/cheap.lua");
    statements(&cheap.replace("IS_REFUSAL\n", &indented(include_str!("../keyspace/refusal.lua"))))
});
static CLOSED: LazyLock<String> = LazyLock::new(|| {
    let lua = compact(include_str!("globals.lua"));
    lua.replace("GIVEN_NAMES", names::GIVEN).replace("GLOBAL_NAMES", names::GLOBALS)
});
static LIBRARY: LazyLock<String> = LazyLock::new(|| compact(include_str!("library.lua")));
static KNOWN: LazyLock<String> = LazyLock::new(|| compact(include_str!("known.lua")));
static DISARM: LazyLock<String> = LazyLock::new(|| compact(include_str!("harmless.lua")));
pub(super) static EXPLAIN: LazyLock<String> =
    LazyLock::new(|| compact(include_str!("explain.lua")));
